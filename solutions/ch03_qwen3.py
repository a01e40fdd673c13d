"""Chapter 03, Qwen3: the decoder block, the whole model, and where its weights go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.course.errors import ExerciseNotStarted  # noqa: F401
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
        # SOLUTION BEGIN attention
        self.head_dim = arch.head_dim
        self.q_size = arch.num_heads * arch.head_dim
        self.kv_size = arch.num_kv_heads * arch.head_dim
        parts = {"q_proj": self.q_size, "k_proj": self.kv_size, "v_proj": self.kv_size}
        self.qkv_proj = FusedLinear(arch.hidden_size, parts, bias=arch.qkv_bias, tp=tp)
        self.o_proj = RowParallelLinear(self.q_size, arch.hidden_size, bias=arch.o_bias, tp=tp)
        self.q_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)
        self.k_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)
        self.attn = PagedAttention(attention, arch.head_dim, None)
        # SOLUTION END

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
        # SOLUTION BEGIN attention
        num_tokens = len(x)
        q, k, v = self.qkv_proj(x).split([self.q_size, self.kv_size, self.kv_size], dim=-1)
        q = self.q_norm(q.reshape(num_tokens, -1, self.head_dim))
        k = self.k_norm(k.reshape(num_tokens, -1, self.head_dim))
        v = v.reshape(num_tokens, -1, self.head_dim)
        q, k = apply_rotary(q, *cos_sin), apply_rotary(k, *cos_sin)
        mixed = self.attn(q, k, v, kv_cache, attn_metadata)
        out: Tensor = self.o_proj(mixed.flatten(1))
        return out
        # SOLUTION END


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
        # SOLUTION BEGIN decoder_layer
        self.input_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.self_attn = self_attn
        self.post_attention_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.mlp = mlp
        # SOLUTION END

    def forward(
        self, x: Tensor, cos_sin: CosSin, kv_cache: LayerKVCache, attn_metadata: AttentionMetadata
    ) -> Tensor:
        """The residual stream after this layer: a new tensor of the shape of `x`."""
        # SOLUTION BEGIN decoder_layer
        x = x + self.self_attn(self.input_layernorm(x), cos_sin, kv_cache, attn_metadata)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out
        # SOLUTION END


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
        # SOLUTION BEGIN model
        self.model: Any = nn.ModuleDict(
            {
                "embed_tokens": VocabEmbedding(arch.vocab_size, arch.hidden_size, tp),
                "layers": nn.ModuleList(layers),
                "norm": RMSNorm(arch.hidden_size, arch.rms_norm_eps),
            }
        )
        self.rotary_emb = RotaryEmbedding(arch.rope, arch.head_dim)
        self.tied = arch.tie_word_embeddings
        if not self.tied:
            self.lm_head = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)
        # SOLUTION END

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
        # SOLUTION BEGIN model
        x = self.model["embed_tokens"](input_ids)
        cos_sin = self.rotary_emb(positions, x.dtype)
        for layer, kv_cache in zip(self.model["layers"], kv_caches, strict=True):
            x = layer(x, cos_sin, kv_cache, attn_metadata)
        out: Tensor = self.model["norm"](x)
        return out
        # SOLUTION END

    def compute_logits(self, hidden_states: Tensor) -> Tensor:
        """The score of each token of the vocabulary: `[num_rows, vocab_size]`."""
        # SOLUTION BEGIN model
        head = self.model["embed_tokens"] if self.tied else self.lm_head
        logits: Tensor = head.logits(hidden_states)
        return logits
        # SOLUTION END


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
    # SOLUTION BEGIN
    found: dict[str, Tensor] = {}
    for name, parameter in parameters.items():
        *path, layer, kind = name.split(".")
        if layer not in fused:
            found[name] = parameter
            continue
        start = 0
        for part, num_rows in fused[layer].items():
            found[".".join([*path, part, kind])] = parameter[start : start + num_rows]
            start += num_rows
    return found
    # SOLUTION END


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
    # SOLUTION BEGIN
    missing = set(targets)
    with torch.no_grad():
        for shard in shards:
            for name, tensor in shard.items():
                if name == "lm_head.weight" and name not in targets:
                    continue
                if name not in missing:
                    raise ValueError(f"{name} has no place in the model, or came before")
                if tensor.shape != targets[name].shape:
                    raise ValueError(f"{name}: {tensor.shape}, not {targets[name].shape}")
                targets[name].copy_(tensor)
                missing.remove(name)
    if missing:
        raise ValueError(f"no tensor for {sorted(missing)}")
    # SOLUTION END


def detective() -> tuple[int, str]:
    """Your answer: the number of the wrong line, and the letter of the reason."""
    # SOLUTION BEGIN
    return 4, "b"
    # SOLUTION END
