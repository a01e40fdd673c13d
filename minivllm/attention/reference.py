"""ReferenceAttention: one request at a time, one formula at a time, in float32.

    softmax(q @ k.T * scale + mask) @ v

It is slow on purpose. Nothing is batched, padded or fused, so that each line can be checked by
eye: the other backends are tested against it. It knows nothing of them.
Next file to read: `sdpa.py`, which computes the same and is fast.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache


class ReferenceAttention(AttentionBackend):
    """The oracle: obviously right, on any device and in any dtype."""

    def write(
        self,
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> None:
        """Store each token's key and value at its slot, in place; a slot of -1 is skipped."""
        is_real = slot_mapping >= 0
        slots = slot_mapping[is_real]
        kv_cache.key.flatten(0, 1)[slots] = k[is_real]
        kv_cache.value.flatten(0, 1)[slots] = v[is_real]

    def attend(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
        scale: float,
        sliding_window: int | None,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """Causal attention of each query over its own request; padding rows are 0."""
        out = torch.zeros_like(q)
        start = 0
        for query_len, seq_len, block_ids in zip(
            metadata.query_lens_host.tolist(),
            metadata.seq_lens_host.tolist(),
            metadata.block_table,
            strict=True,
        ):
            rows = slice(start, start + query_len)
            k = _read_pages(kv_cache.key, block_ids, seq_len)
            v = _read_pages(kv_cache.value, block_ids, seq_len)
            out[rows] = _attend_one(q[rows], k, v, scale, sliding_window)
            start += query_len
        return out


def _read_pages(
    cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_ids: Int32[Tensor, " max_num_blocks"],
    seq_len: int,
) -> Float[Tensor, "{seq_len} num_kv_heads head_dim"]:
    """The request's keys (or values) in the order of their positions."""
    num_blocks = -(-seq_len // cache.shape[1])
    pages = cache[block_ids[:num_blocks].long()]
    return pages.flatten(0, 1)[:seq_len]  # the rest of the last page is not ours to read


def _attend_one(
    q: Float[Tensor, "query_len num_heads head_dim"],
    k: Float[Tensor, "seq_len num_kv_heads head_dim"],
    v: Float[Tensor, "seq_len num_kv_heads head_dim"],
    scale: float,
    sliding_window: int | None,
) -> Float[Tensor, "query_len num_heads head_dim"]:
    query_len, num_heads, _ = q.shape
    seq_len, num_kv_heads, _ = k.shape
    group_size = num_heads // num_kv_heads  # query heads 0..group_size-1 share KV head 0, and so on
    k = k.float().repeat_interleave(group_size, dim=1)
    v = v.float().repeat_interleave(group_size, dim=1)

    # The queries are the request's last tokens: 2 queries of 5 tokens stand at positions 3 and 4.
    query_positions = torch.arange(seq_len - query_len, seq_len, device=q.device)[:, None]
    key_positions = torch.arange(seq_len, device=q.device)[None, :]
    visible = key_positions <= query_positions
    if sliding_window is not None:
        visible = visible & (key_positions > query_positions - sliding_window)

    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, v).to(q.dtype)
