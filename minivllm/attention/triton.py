"""TritonAttention: attention by the kernels of `minivllm.kernels`; the default on a GPU.

A step's requests fall into two parts, each computed in one launch whatever the lengths:

    request       0  1  2 | 3       4
    queries       1  1  1 | 500     12
                  decode    prefill: prompts, chunks of prompts, and whoever stands behind one

`ModelRunner` lays the requests with one query first, so that the second part holds no other. All
that differs between layers goes to the kernels as arguments; nothing is prepared for a layer.
Next file to read: `minivllm/kernels/__init__.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend, CosSin, HeadNorms
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.kernels.cache_write import cache_write
from minivllm.kernels.paged_decode import paged_decode
from minivllm.kernels.paged_prefill import paged_prefill
from minivllm.kernels.qk_norm_rope import qk_norm_rope_cache_write


@dataclass(frozen=True, kw_only=True)
class TritonMetadata(AttentionMetadata):
    """The step's metadata, and where its two parts meet.

    Attributes:
        num_decodes: Requests before the first one with several queries.
        num_tokens: Rows of the step that belong to a request; those behind are padding.
        max_query_len: Most queries of a request.
    """

    num_decodes: int
    num_tokens: int
    max_query_len: int


class TritonAttention(AttentionBackend):
    """Two launches a layer at most; never waits for the device."""

    can_be_captured = True
    fuses_heads = True

    def build(self, metadata: AttentionMetadata) -> TritonMetadata:
        """The metadata with its two parts."""
        query_lens = metadata.query_lens_host
        several = np.flatnonzero(query_lens > 1)
        return TritonMetadata(
            **vars(metadata),
            num_decodes=int(several[0]) if len(several) else len(query_lens),
            num_tokens=int(query_lens.sum()),
            max_query_len=int(query_lens.max()),
        )

    def write(
        self,
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> None:
        """Store each token's key and value at its slot, in place; a slot of -1 is skipped."""
        cache_write(k, v, kv_cache.key, kv_cache.value, slot_mapping)

    def write_qkv(
        self,
        qkv: Float[Tensor, "num_tokens qkv_size"],
        norms: HeadNorms | None,
        cos_sin: CosSin,
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """See `AttentionBackend.write_qkv`."""
        num_kv_heads, head_dim = kv_cache.key.shape[2:]
        num_heads = qkv.shape[1] // head_dim - 2 * num_kv_heads
        q_weight, k_weight, eps = norms or (None, None, 0.0)
        return qk_norm_rope_cache_write(
            qkv, q_weight, k_weight, *cos_sin, eps, *kv_cache, slot_mapping, num_heads
        )

    def attend(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
        scale: float,
        sliding_window: int | None,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """Causal attention of each query over its own request; padding rows are 0."""
        assert isinstance(metadata, TritonMetadata), "attend is given what build returned"
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        out[metadata.num_tokens :] = 0
        decodes, prefills = slice(0, metadata.num_decodes), slice(metadata.num_decodes, None)
        if metadata.num_decodes > 0:
            paged_decode(
                q[decodes],
                *kv_cache,
                metadata.block_table[decodes],
                metadata.seq_lens[decodes],
                scale=scale,
                sliding_window=sliding_window,
                out=out[decodes],
            )
        if metadata.max_query_len > 1:
            paged_prefill(
                q,
                *kv_cache,
                metadata.block_table[prefills],
                metadata.query_start_loc[prefills],
                metadata.seq_lens[prefills],
                max_query_len=metadata.max_query_len,
                scale=scale,
                sliding_window=sliding_window,
                out=out,
            )
        return out
