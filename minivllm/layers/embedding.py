"""VocabEmbedding: a vector per token id, read in both directions.

At the bottom of a model it turns ids into vectors, at the top it scores each id by the dot product
of its vector with the hidden state. Many small models use one table for both ("tied").
Paper: Using the Output Embedding to Improve Language Models, arXiv:1608.05859.
Next file to read: `minivllm/models/llama.py`, which puts the layers together.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn import functional as F

from minivllm.layers.linear import matmul
from minivllm.parallel import TensorParallel


class VocabEmbedding(nn.Module):
    """A table of vectors, one per token id; `weight` is `[vocab_size, hidden_size]`."""

    def __init__(self, vocab_size: int, hidden_size: int, tp: TensorParallel) -> None:
        super().__init__()
        self.tp = tp
        vocab_size = tp.shard(vocab_size, "vocab_size")
        self.weight = nn.Parameter(torch.empty(vocab_size, hidden_size), requires_grad=False)

    def forward(
        self, input_ids: Int64[Tensor, " num_tokens"]
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """The vector of each id."""
        return F.embedding(input_ids, self.weight)

    def logits(
        self, hidden_states: Float[Tensor, "num_rows hidden_size"]
    ) -> Float[Tensor, "num_rows vocab_size"]:
        """The score of every id for each hidden state."""
        # Contiguous: the sampler goes over each row many times.
        return self.tp.all_gather(matmul(hidden_states, self.weight)).contiguous()
