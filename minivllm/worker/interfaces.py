"""What the worker asks of a model and of a sampler: the package's own, or one given in `Parts`.

Next file to read: `model_runner.py`.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.sample.metadata import SamplingMetadata


@runtime_checkable
class CausalLM(Protocol):
    """What a model must be able to do: those of `minivllm.models`, or one given in `Parts`."""

    def __call__(
        self,
        input_ids: Int64[Tensor, " num_tokens"],
        positions: Int64[Tensor, " num_tokens"],
        kv_caches: list[LayerKVCache],
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """A hidden state per token; keys and values of all tokens are in `kv_caches` after it."""

    def compute_logits(
        self, hidden_states: Float[Tensor, "num_rows hidden_size"]
    ) -> Float[Tensor, "num_rows vocab_size"]:
        """The scores of the next token, for those rows that need them."""


@runtime_checkable
class SamplesTokens(Protocol):
    """What a sampler must be able to do."""

    def __call__(
        self, logits: Float[Tensor, "num_rows vocab_size"], metadata: SamplingMetadata
    ) -> Int64[Tensor, " num_rows"]:
        """A token id per row; `logits` stay as they are, as log-probabilities come from them."""
