"""Cache write: this step's keys and values go to their slots in the paged cache.

    key_cache[slot // B, slot % B] = k[t],        slot = slot_mapping[t]; nothing where it is -1

One program copies one token: all heads of its key, then of its value.

T tokens, H KV heads, D head_dim, B block_size.
Bytes: 4 T H D elements.
Paper: Efficient Memory Management for LLM Serving with PagedAttention, arXiv:2309.06180,
section 5.1. Next file to read: `qk_norm_rope.py`, which does it on the way.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, no_type_check

import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.kernels.common import launch, power_of_two


def cache_write_ref(
    k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
    v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    slot_mapping: Int64[Tensor, " num_tokens"],
) -> None:
    """What `cache_write` does."""
    is_real = slot_mapping >= 0
    block_size = key_cache.shape[1]
    blocks, places = slot_mapping[is_real] // block_size, slot_mapping[is_real] % block_size
    key_cache[blocks, places] = k[is_real]
    value_cache[blocks, places] = v[is_real]


@triton.jit
@no_type_check
def _cache_write(
    k_ptr, v_ptr, key_cache_ptr, value_cache_ptr, slot_mapping_ptr,
    k_stride_t, k_stride_h, k_stride_d, v_stride_t, v_stride_h, v_stride_d,
    kc_stride_b, kc_stride_s, kc_stride_h, kc_stride_d,
    vc_stride_b, vc_stride_s, vc_stride_h, vc_stride_d,
    NUM_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    BLOCK_H: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    token = tl.program_id(0).to(tl.int64)
    slot = tl.load(slot_mapping_ptr + token)
    if slot < 0:
        return
    block, place = slot // BLOCK_SIZE, slot % BLOCK_SIZE
    heads, dims = tl.arange(0, BLOCK_H)[:, None], tl.arange(0, BLOCK_D)[None, :]
    is_element = (heads < NUM_HEADS) & (dims < HEAD_DIM)

    k_ptrs = k_ptr + token * k_stride_t + heads * k_stride_h + dims * k_stride_d
    v_ptrs = v_ptr + token * v_stride_t + heads * v_stride_h + dims * v_stride_d
    k = tl.load(k_ptrs, mask=is_element)
    v = tl.load(v_ptrs, mask=is_element)
    key_cache_ptr += block * kc_stride_b + place * kc_stride_s
    value_cache_ptr += block * vc_stride_b + place * vc_stride_s
    tl.store(key_cache_ptr + heads * kc_stride_h + dims * kc_stride_d, k, mask=is_element)
    tl.store(value_cache_ptr + heads * vc_stride_h + dims * vc_stride_d, v, mask=is_element)


def cache_write(
    k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
    v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    slot_mapping: Int64[Tensor, " num_tokens"],
) -> None:
    """Stores each token's key and value at its slot, in place.

    Args:
        k: The keys. Any strides, as for all of these.
        v: The values.
        key_cache: One layer's pages, in the dtype of `k`.
        value_cache: The values' pages.
        slot_mapping: `block_id * block_size + offset` of each token, no slot twice; -1 is padding
            and is not written.
    """
    num_tokens, num_heads, head_dim = k.shape
    if num_tokens == 0:
        return
    launch(
        _cache_write, (num_tokens,),
        k, v, key_cache, value_cache, slot_mapping.contiguous(),
        *k.stride(), *v.stride(), *key_cache.stride(), *value_cache.stride(),
        NUM_HEADS=num_heads, HEAD_DIM=head_dim, BLOCK_SIZE=key_cache.shape[1],
        **write_tiles(num_heads, head_dim)._asdict(),
    )  # fmt: skip


class WriteTiles(NamedTuple):
    """Heads and dimensions of a program's tile, and its warps."""

    BLOCK_H: int
    BLOCK_D: int
    num_warps: int


@cache
def write_tiles(num_heads: int, head_dim: int) -> WriteTiles:
    """A tile that holds a token's key, with 8 elements for each thread as far as 8 warps reach."""
    block_h: int = power_of_two(num_heads)
    block_d: int = power_of_two(head_dim)
    return WriteTiles(block_h, block_d, num_warps=min(8, max(1, block_h * block_d // 256)))
