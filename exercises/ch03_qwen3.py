"""Chapter 03, Qwen3: the decoder block, the whole model, and where its weights go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.course.errors import ExerciseNotStarted
from minivllm.layers.attention import PagedAttention
from minivllm.layers.embedding import VocabEmbedding
from minivllm.layers.linear import FusedLinear, RowParallelLinear
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rotary import CosSin, RotaryEmbedding, apply_rotary
from minivllm.models.hf_config import ModelArchitecture
from minivllm.parallel import TensorParallel


class Attention(nn.Module):
    """Grouped-query attention in which each head of q and k is normalised, then turned.

    The names of its layers are those of the checkpoint: `o_proj`, `q_norm`, `k_norm`, and the fused
    `qkv_proj` with the parts `q_proj`, `k_proj`, `v_proj`, in this order.
    """

    def __init__(
        self, arch: ModelArchitecture, attention: AttentionBackend, tp: TensorParallel
    ) -> None:
        """Make the layers.

        Args:
            arch: `num_heads`, `num_kv_heads`, `head_dim`, `hidden_size`, `rms_norm_eps`, `qkv_bias`
                and `o_bias` count here.
            attention: For `PagedAttention(attention, head_dim, None)`.
            tp: Handed on to the linear layers.
        """
        super().__init__()
        raise ExerciseNotStarted("ch03.attention")

    def forward(
        self, x: Tensor, cos_sin: CosSin, kv_cache: LayerKVCache, attn_metadata: AttentionMetadata
    ) -> Tensor:
        """What attention adds to the residual stream: `[num_tokens, hidden_size]`, as `x`.

        Args:
            x: Normalised rows, `[num_tokens, hidden_size]`, of all requests one after the other.
            cos_sin: For `apply_rotary(heads, *cos_sin)`.
            kv_cache: Handed on to `self.attn(q, k, v, kv_cache, attn_metadata)`.
            attn_metadata: Likewise.
        """
        raise ExerciseNotStarted("ch03.attention")


class DecoderLayer(nn.Module):
    """Attention, then the MLP; each reads normalised rows, and its result is added to the stream.

    Its own layers are two norms, `input_layernorm` and `post_attention_layernorm`.
    """

    def __init__(self, arch: ModelArchitecture, self_attn: nn.Module, mlp: nn.Module) -> None:
        """Keep the two halves, under these names, and make the norms.

        Args:
            arch: `hidden_size` and `rms_norm_eps` count here.
            self_attn: Called as `self_attn(x, cos_sin, kv_cache, attn_metadata)`.
            mlp: Called as `mlp(x)`.
        """
        super().__init__()
        raise ExerciseNotStarted("ch03.decoder_layer")

    def forward(
        self, x: Tensor, cos_sin: CosSin, kv_cache: LayerKVCache, attn_metadata: AttentionMetadata
    ) -> Tensor:
        """The residual stream after this layer: a new tensor of the shape of `x`."""
        raise ExerciseNotStarted("ch03.decoder_layer")


class Qwen3(nn.Module):
    """The whole model, from token ids to the scores of the next token.

    Its parameters are named `model.embed_tokens.weight`, `model.layers.0...`, `model.norm.weight`,
    and `lm_head.weight` if the head is not tied. `nn.ModuleDict` makes the first half of a name.
    """

    def __init__(
        self, arch: ModelArchitecture, layers: list[nn.Module], tp: TensorParallel
    ) -> None:
        """Put the model together.

        Args:
            arch: `vocab_size`, `hidden_size`, `head_dim`, `rms_norm_eps`, `rope` and
                `tie_word_embeddings` count here.
            layers: The decoder layers, the first one first.
            tp: Handed on to `VocabEmbedding`.
        """
        super().__init__()
        raise ExerciseNotStarted("ch03.model")

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        kv_caches: list[LayerKVCache],
        attn_metadata: AttentionMetadata,
    ) -> Tensor:
        """A hidden state per token, after the last norm: `[num_tokens, hidden_size]`.

        Args:
            input_ids: `[num_tokens]`, of all requests one after the other.
            positions: `[num_tokens]`: where each token stands in its own request.
            kv_caches: One for each layer.
            attn_metadata: The same for all layers.
        """
        raise ExerciseNotStarted("ch03.model")

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """The score of each token of the vocabulary: `[num_rows, vocab_size]`."""
        raise ExerciseNotStarted("ch03.model")


def destinations(
    parameters: Mapping[str, Tensor], fused: Mapping[str, Mapping[str, int]]
) -> dict[str, Tensor]:
    """For each name in the checkpoint, the memory that its tensor fills.

    A parameter of a fused layer stands for its parts: `a.qkv_proj.weight` for `a.q_proj.weight`,
    `a.k_proj.weight` and `a.v_proj.weight`. Each of them is a view of its rows. Any other parameter
    keeps its name and is itself.

    Args:
        parameters: Of the model, by name; only to be read.
        fused: Name of a fused layer -> its parts -> how many rows each has, from the top down. The
            layer's name is the word before the last, and all of it: neither `my_qkv_proj.weight`
            nor `qkv_proj.norm.weight` is fused.
    """
    raise ExerciseNotStarted("ch03.destinations")


def load_weights(targets: Mapping[str, Tensor], shards: Iterable[Mapping[str, Tensor]]) -> None:
    """Copy the tensors of a checkpoint into their targets, each target exactly once.

    `lm_head.weight` is skipped where it has no target: such a model is tied, and the file repeats
    the embedding. A tensor may be of another dtype than its target.

    Args:
        targets: Name -> the memory to fill, as `destinations` gives it; the mapping itself is only
            to be read.
        shards: The files of the checkpoint, one after the other; they can be read only once.

    Raises:
        ValueError: A tensor has no target, came before, or is of another shape than its target; or,
            after the last shard, a target was left out. The message names it.
    """
    raise ExerciseNotStarted("ch03.load_weights")


def detective() -> tuple[int, str]:
    """Your answer: the number of the wrong line, and the letter of the reason."""
    raise ExerciseNotStarted("ch03.detective")
