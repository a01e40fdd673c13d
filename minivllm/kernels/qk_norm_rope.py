"""All that happens to a step's heads between the qkv product and attention, in one pass.

    q, k = norm(q) * q_weight, norm(k) * k_weight       head by head, if the model has such weights
    out[i]              = x[i] * cos[i] - x[i + D/2] * sin[i]         for x in q, k (`rotary.py`)
    out[i + D/2]        = x[i + D/2] * cos[i] + x[i] * sin[i]
    key_cache[slot], value_cache[slot] = k, v                         nothing where the slot is -1

Operator by operator these few elements would travel to memory and back half a dozen times, in as
many launches. A program takes a few heads of one token, all of one kind. It holds their halves in
two tiles, so that the partner of an element sits in the same thread:

    a row of qkv     [ q heads | k heads | v heads ]
    a head           [ a: D/2 elements | b: D/2 elements ]

All in float32. The roundings of `layers/norm.py` are kept, that of `x * cos` in `apply_rotary` is
spared.

T tokens, H query heads, K KV heads, D head_dim, P = D/2 planes, B block_size.
Bytes: 2 T (H + 2 K) D elements, and cos and sin once: T D elements.
Papers: RoFormer, arXiv:2104.09864, section 3.2; Qwen3, arXiv:2505.09388, section 2 (the norm).
Next file to read: `flash_attention.py`.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.kernels.cache_write import cache_write_ref
from minivllm.kernels.common import launch, power_of_two
from minivllm.kernels.rms_norm import rms_norm_ref


def qk_norm_rope_cache_write_ref(
    qkv: Float[Tensor, "num_tokens qkv_size"],
    q_weight: Float[Tensor, " head_dim"] | None,
    k_weight: Float[Tensor, " head_dim"] | None,
    cos: Float[Tensor, "num_tokens 1 head_dim"],
    sin: Float[Tensor, "num_tokens 1 head_dim"],
    eps: float,
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    slot_mapping: Int64[Tensor, " num_tokens"],
    num_heads: int,
) -> Float[Tensor, "num_tokens {num_heads} head_dim"]:
    """What `qk_norm_rope_cache_write` computes."""
    num_kv_heads = key_cache.shape[2]
    heads = qkv.unflatten(1, (num_heads + 2 * num_kv_heads, -1))
    q, k, v = heads.split([num_heads, num_kv_heads, num_kv_heads], dim=1)
    if q_weight is not None and k_weight is not None:
        q, k = rms_norm_ref(q, q_weight, eps), rms_norm_ref(k, k_weight, eps)
    q, k = rotary_ref(q, cos, sin), rotary_ref(k, cos, sin)
    cache_write_ref(k, v, key_cache, value_cache, slot_mapping)
    return q


def rotary_ref(
    x: Float[Tensor, "num_tokens num_heads head_dim"],
    cos: Float[Tensor, "num_tokens 1 head_dim"],
    sin: Float[Tensor, "num_tokens 1 head_dim"],
) -> Float[Tensor, "num_tokens num_heads head_dim"]:
    """`apply_rotary` in float32, rounded once."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)  # [a | b] -> [b | a]
    return (x.float() * cos.float() + swapped.float() * sin.float()).to(x.dtype)


@triton.jit
@no_type_check
def _store(ptrs, half_head, a, b, is_plane):
    """The heads `[a | b]`, whose halves lie `half_head` apart."""
    dtype = ptrs.dtype.element_ty
    tl.store(ptrs, a.to(dtype), mask=is_plane)
    tl.store(ptrs + half_head, b.to(dtype), mask=is_plane)


@triton.jit
@no_type_check
def _qk_norm_rope_cache_write(
    qkv_ptr, q_weight_ptr, k_weight_ptr, cos_ptr, sin_ptr, key_cache_ptr, value_cache_ptr,
    slot_mapping_ptr, q_ptr, eps,
    qkv_stride_t, qkv_stride_d, kc_stride_b, kc_stride_s, kc_stride_h, kc_stride_d,
    vc_stride_b, vc_stride_s, vc_stride_h, vc_stride_d,
    NUM_HEADS: tl.constexpr, NUM_KV_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, HAS_NORM: tl.constexpr, BLOCK_H: tl.constexpr, BLOCK_P: tl.constexpr,
):  # fmt: skip
    HALF: tl.constexpr = HEAD_DIM // 2
    dtype = q_ptr.dtype.element_ty
    token = tl.program_id(0).to(tl.int64)
    first_head = tl.program_id(1) * BLOCK_H
    is_query = first_head < NUM_HEADS
    is_value = first_head >= NUM_HEADS + NUM_KV_HEADS
    heads = first_head + tl.arange(0, BLOCK_H)[:, None]
    # A full tile: each head loads weights, cos and sin for itself, element by element as its own.
    # They come from the nearest cache, faster than threads could hand them to each other.
    planes = tl.broadcast_to(tl.arange(0, BLOCK_P)[None, :], (BLOCK_H, BLOCK_P))
    is_plane = planes < HALF

    qkv_ptrs = qkv_ptr + token * qkv_stride_t + (heads * HEAD_DIM + planes) * qkv_stride_d
    a = tl.load(qkv_ptrs, mask=is_plane, other=0.0).to(tl.float32)
    b = tl.load(qkv_ptrs + HALF * qkv_stride_d, mask=is_plane, other=0.0).to(tl.float32)
    slot = tl.load(slot_mapping_ptr + token)  # early: all loads wait for memory together
    if not is_value:
        # cos and sin hold each plane twice; the first half of sin is negated.
        second_half = token * HEAD_DIM + HALF + planes
        cos = tl.load(cos_ptr + second_half, mask=is_plane).to(tl.float32)
        sin = tl.load(sin_ptr + second_half, mask=is_plane).to(tl.float32)
        if HAS_NORM:
            weight_ptrs = (q_weight_ptr if is_query else k_weight_ptr) + planes
            weight_a = tl.load(weight_ptrs, mask=is_plane).to(tl.float32)
            weight_b = tl.load(weight_ptrs + HALF, mask=is_plane).to(tl.float32)
            mean_square = tl.sum(a * a + b * b, 1) / HEAD_DIM
            scale = tl.rsqrt(mean_square + eps)[:, None]
            a = ((a * scale).to(dtype).to(tl.float32) * weight_a).to(dtype).to(tl.float32)
            b = ((b * scale).to(dtype).to(tl.float32) * weight_b).to(dtype).to(tl.float32)
        a, b = a * cos - b * sin, b * cos + a * sin

    if is_query:
        q_ptrs = q_ptr + token * (NUM_HEADS * HEAD_DIM) + heads * HEAD_DIM + planes
        _store(q_ptrs, HALF, a, b, is_plane)
    else:
        block, place = slot // BLOCK_SIZE, slot % BLOCK_SIZE
        is_stored = is_plane & (slot >= 0)
        if is_value:
            value_heads = heads - (NUM_HEADS + NUM_KV_HEADS)
            value_cache_ptr += block * vc_stride_b + place * vc_stride_s
            value_ptrs = value_cache_ptr + value_heads * vc_stride_h + planes * vc_stride_d
            _store(value_ptrs, HALF * vc_stride_d, a, b, is_stored)
        else:
            key_heads = heads - NUM_HEADS
            key_cache_ptr += block * kc_stride_b + place * kc_stride_s
            key_ptrs = key_cache_ptr + key_heads * kc_stride_h + planes * kc_stride_d
            _store(key_ptrs, HALF * kc_stride_d, a, b, is_stored)


def qk_norm_rope_cache_write(
    qkv: Float[Tensor, "num_tokens qkv_size"],
    q_weight: Float[Tensor, " head_dim"] | None,
    k_weight: Float[Tensor, " head_dim"] | None,
    cos: Float[Tensor, "num_tokens 1 head_dim"],
    sin: Float[Tensor, "num_tokens 1 head_dim"],
    eps: float,
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    slot_mapping: Int64[Tensor, " num_tokens"],
    num_heads: int,
) -> Float[Tensor, "num_tokens {num_heads} head_dim"]:
    """The queries, ready for attention; keys and values go to their slots, in place.

    Args:
        qkv: The heads of each token side by side: queries, keys, values. Any strides, as for all
            of these.
        q_weight: Factors of the queries' norm; `None`, as `k_weight` then, for models without it.
        k_weight: Factors of the keys' norm.
        cos: As `RotaryEmbedding` makes it.
        sin: Its sine, with the first half negated.
        eps: Added to the mean square of a head; without effect where there is no norm.
        key_cache: One layer's pages, in the dtype of `qkv`.
        value_cache: The values' pages.
        slot_mapping: `block_id * block_size + offset` of each token, no slot twice; -1 is padding:
            its key and value are not written.
        num_heads: Query heads in `qkv`; the KV heads are as many as the cache's.
    """
    num_tokens = len(qkv)
    block_size, num_kv_heads, head_dim = key_cache.shape[1:]
    q = torch.empty((num_tokens, num_heads, head_dim), dtype=qkv.dtype, device=qkv.device)
    if num_tokens == 0:
        return q
    if q_weight is not None and k_weight is not None:
        q_weight, k_weight = q_weight.contiguous(), k_weight.contiguous()
    tiles = head_tiles(num_heads, num_kv_heads, head_dim)
    launch(
        _qk_norm_rope_cache_write,
        (num_tokens, (num_heads + 2 * num_kv_heads) // tiles.BLOCK_H),
        qkv, q_weight, k_weight, cos.contiguous(), sin.contiguous(), key_cache, value_cache,
        slot_mapping.contiguous(), q, eps,
        *qkv.stride(), *key_cache.stride(), *value_cache.stride(),
        NUM_HEADS=num_heads, NUM_KV_HEADS=num_kv_heads, HEAD_DIM=head_dim, BLOCK_SIZE=block_size,
        HAS_NORM=q_weight is not None, **tiles._asdict(),
    )  # fmt: skip
    return q


class HeadTiles(NamedTuple):
    """Heads of a program, planes of each, and its warps."""

    BLOCK_H: int
    BLOCK_P: int
    num_warps: int


@cache
def head_tiles(num_heads: int, num_kv_heads: int, head_dim: int) -> HeadTiles:
    """Tiles of a power of two that divides both counts of heads: no program has two kinds.

    At most 8 heads, for at batch 1 the heads of one token are all the programs there are. A warp
    takes 256 elements of each half, 8 a thread: in 16 bits one access of 16 bytes.
    """
    common = math.gcd(num_heads, num_kv_heads, 8)
    block_p: int = power_of_two(head_dim // 2)
    return HeadTiles(common, block_p, num_warps=max(1, common * block_p // 256))
