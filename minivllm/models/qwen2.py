"""Qwen2: Llama with a bias on queries, keys and values.

Some of its layers may have a sliding window (`arch.sliding_windows`), others none.

Knows nothing of requests or blocks: a step's tokens come in one after the other, and
`attn_metadata` tells the attention backend whose they are. Modules are named as in Hugging Face
checkpoints. Next file to read: `qwen3.py`.
Paper: Qwen2, arXiv:2407.10671, section 2.2.
"""

from __future__ import annotations

from jaxtyping import Float, Int64
from torch import Tensor, nn

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.layers.attention import PagedAttention
from minivllm.layers.embedding import VocabEmbedding
from minivllm.layers.linear import FusedLinear, RowParallelLinear
from minivllm.layers.mlp import SwiGLU
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rotary import CosSin, RotaryEmbedding, apply_rotary
from minivllm.models.hf_config import ModelArchitecture
from minivllm.parallel import TensorParallel


class Qwen2Attention(nn.Module):
    """Grouped-query attention, with a bias on q, k and v."""

    def __init__(
        self,
        arch: ModelArchitecture,
        sliding_window: int | None,
        attention: AttentionBackend,
        tp: TensorParallel,
    ) -> None:
        super().__init__()
        self.head_dim = arch.head_dim
        self.num_heads = tp.shard(arch.num_heads, "num_heads")  # of this device
        self.num_kv_heads = tp.shard(arch.num_kv_heads, "num_kv_heads")
        q_size = arch.num_heads * arch.head_dim  # of all devices, as in the checkpoint
        kv_size = arch.num_kv_heads * arch.head_dim
        parts = {"q_proj": q_size, "k_proj": kv_size, "v_proj": kv_size}
        self.qkv_proj = FusedLinear(arch.hidden_size, parts, bias=arch.qkv_bias, tp=tp)
        self.o_proj = RowParallelLinear(q_size, arch.hidden_size, bias=arch.o_bias, tp=tp)
        self.attn = PagedAttention(attention, arch.head_dim, sliding_window)

    def forward(
        self,
        x: Float[Tensor, "num_tokens hidden_size"],
        cos_sin: CosSin,
        kv_cache: LayerKVCache,
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """The block's addition to the residual stream; writes `kv_cache`."""
        qkv = self.qkv_proj(x).contiguous()  # a product may come out transposed (linear.py)
        if self.attn.fuses_heads:  # the same as below, but for one kernel instead of many
            mixed = self.attn.from_qkv(qkv, None, cos_sin, kv_cache, attn_metadata)
        else:
            heads = qkv.view(len(x), -1, self.head_dim)
            qk, v = heads.tensor_split([self.num_heads + self.num_kv_heads], dim=1)
            qk = apply_rotary(qk, *cos_sin)  # one call for both: they lie side by side
            q, k = qk.tensor_split([self.num_heads], dim=1)
            mixed = self.attn(q, k, v, kv_cache, attn_metadata)
        out: Tensor = self.o_proj(mixed.flatten(1))
        return out


class Qwen2DecoderLayer(nn.Module):
    """Attention, then a feed-forward network; each reads normalised rows and adds to them."""

    def __init__(
        self,
        arch: ModelArchitecture,
        sliding_window: int | None,
        attention: AttentionBackend,
        tp: TensorParallel,
    ) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.self_attn = Qwen2Attention(arch, sliding_window, attention, tp)
        self.post_attention_layernorm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.mlp = SwiGLU(arch.hidden_size, arch.intermediate_size, bias=arch.mlp_bias, tp=tp)

    def forward(
        self,
        x: Float[Tensor, "num_tokens hidden_size"],
        cos_sin: CosSin,
        kv_cache: LayerKVCache,
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """The residual stream after this layer."""
        attention = self.self_attn(self.input_layernorm(x), cos_sin, kv_cache, attn_metadata)
        x, normed = self.post_attention_layernorm.after_adding(attention, x)
        out: Tensor = self.mlp(normed, residual=x)  # x + mlp(normed)
        return out


class Qwen2Model(nn.Module):
    """Token ids to hidden states: an embedding, the layers, a last norm."""

    def __init__(
        self, arch: ModelArchitecture, attention: AttentionBackend, tp: TensorParallel
    ) -> None:
        super().__init__()
        self.embed_tokens = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)
        self.layers = nn.ModuleList(
            Qwen2DecoderLayer(arch, sliding_window, attention, tp)
            for sliding_window in arch.sliding_windows
        )
        self.norm = RMSNorm(arch.hidden_size, arch.rms_norm_eps)
        self.rotary_emb = RotaryEmbedding(arch.rope, arch.head_dim)

    def forward(
        self,
        input_ids: Int64[Tensor, " num_tokens"],
        positions: Int64[Tensor, " num_tokens"],
        kv_caches: list[LayerKVCache],
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """A hidden state per token; each layer writes its cache."""
        x = self.embed_tokens(input_ids)
        cos_sin = self.rotary_emb(positions, x.dtype)  # the same for all layers
        for layer, kv_cache in zip(self.layers, kv_caches, strict=True):
            x = layer(x, cos_sin, kv_cache, attn_metadata)
        hidden_states: Tensor = self.norm(x)
        return hidden_states


class Qwen2ForCausalLM(nn.Module):
    """The model and its output head, which is the embedding itself where the two are tied."""

    def __init__(
        self, arch: ModelArchitecture, attention: AttentionBackend, tp: TensorParallel
    ) -> None:
        super().__init__()
        self.model = Qwen2Model(arch, attention, tp)
        if not arch.tie_word_embeddings:
            self.lm_head = VocabEmbedding(arch.vocab_size, arch.hidden_size, tp)
        self.tie_word_embeddings = arch.tie_word_embeddings

    def forward(
        self,
        input_ids: Int64[Tensor, " num_tokens"],
        positions: Int64[Tensor, " num_tokens"],
        kv_caches: list[LayerKVCache],
        attn_metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens hidden_size"]:
        """A hidden state per token; keys and values of all tokens are in `kv_caches` after it."""
        hidden_states: Tensor = self.model(input_ids, positions, kv_caches, attn_metadata)
        return hidden_states

    def compute_logits(
        self, hidden_states: Float[Tensor, "num_rows hidden_size"]
    ) -> Float[Tensor, "num_rows vocab_size"]:
        """The scores of the next token, for those rows that need them."""
        head = self.model.embed_tokens if self.tie_word_embeddings else self.lm_head
        return head.logits(hidden_states)
