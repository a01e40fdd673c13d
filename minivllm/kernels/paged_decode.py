"""Paged decode: one query per request, its keys split over several programs.

    out = sum_j softmax_j(scale * q . k[j]) v[j]            over all of a request's cached tokens

One query has little arithmetic, so all that counts is how fast the cache is read. Three means:

- The G query heads that share a KV head are rows of one tile, so each key is read once for all. (A
  matrix unit wants at least 16 rows; with fewer the rest are idle, which costs nothing here.)
- A batch of few requests would leave most of the chip without work. So a request's keys are cut
  into parts, one program each, whose findings are merged (`merge_parts.py`).
- How many programs a request gets depends on the shape of the batch, not on the lengths, which only
  the device knows. A program for which there are no keys ends at once.

R requests, G query heads per KV head, D head_dim, N = BLOCK_N keys at once, P parts of a request.
Bytes: 2 D x elements per cached token and KV head, each read once; with P > 1 besides
8 P D per request and query head, written and read.
Source: Flash-Decoding, pytorch.org/blog/flash-decoding. Next file to read: `merge_parts.py`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

from minivllm.kernels.common import ANY_ALIGNMENT, block_of, ceil_div, dot, launch, power_of_two
from minivllm.kernels.merge_parts import (
    MAX_PARTS,
    counters,
    merge,
    merge_if_last,
    scratch,
    share_out,
)
from minivllm.kernels.online_softmax import LOG2_E, add_tile, finish_rows, load_tile, start_rows
from minivllm.kernels.paged_prefill import paged_prefill_ref, pages_of


def paged_decode_ref(
    q: Float[Tensor, "num_reqs num_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_table: Int32[Tensor, "num_reqs max_num_blocks"],
    seq_lens: Int32[Tensor, " num_reqs"],
    *,
    scale: float,
    sliding_window: int | None = None,
    num_splits: int | None = None,
) -> Float[Tensor, "num_reqs num_heads head_dim"]:
    """What `paged_decode` computes: a prefill of one query each (`num_splits` changes nothing)."""
    query_start_loc = torch.arange(len(q) + 1, dtype=torch.int32)
    return paged_prefill_ref(
        q, key_cache, value_cache, block_table, query_start_loc, seq_lens,
        max_query_len=1, scale=scale, sliding_window=sliding_window,
    )  # fmt: skip


@triton.jit(do_not_specialize=["table_stride"], do_not_specialize_on_alignment=ANY_ALIGNMENT)
@no_type_check
def _paged_decode(
    q_ptr, k_ptr, v_ptr, out_ptr, parts_ptr, num_done_ptr, table_ptr, seq_lens_ptr,
    scale_log2, sliding_window, table_stride,
    q_stride_r, q_stride_h, q_stride_d, k_stride_b, k_stride_s, k_stride_h, k_stride_d,
    v_stride_b, v_stride_s, v_stride_h, v_stride_d,
    HEAD_DIM: tl.constexpr, GROUP_SIZE: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    SAME_STRIDES: tl.constexpr, HAS_WINDOW: tl.constexpr, IS_SPLIT: tl.constexpr,
    MERGES: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_G: tl.constexpr, BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr, UNSPLIT: tl.constexpr,
):  # fmt: skip
    kv_head, part, request = tl.program_id(0), tl.program_id(1), tl.program_id(2).to(tl.int64)
    seq_len = tl.load(seq_lens_ptr + request)
    first_key, first_tile, tiles_per_part, num_parts = share_out(
        seq_len, sliding_window, tl.num_programs(1), HAS_WINDOW, BLOCK_N, UNSPLIT
    )
    if part > 0 and part >= num_parts:
        return
    begin = (first_tile + part * tiles_per_part) * BLOCK_N
    end = tl.minimum(begin + tiles_per_part * BLOCK_N, seq_len)

    rows, offsets = tl.arange(0, BLOCK_G), tl.arange(0, BLOCK_N)
    is_row, heads = rows < GROUP_SIZE, kv_head * GROUP_SIZE + rows
    q_rows = request * q_stride_r + heads * q_stride_h
    q = load_tile(q_ptr, q_rows, is_row, q_stride_d, HEAD_DIM, BLOCK_D, True)
    k_ptr += kv_head.to(tl.int64) * k_stride_h
    v_ptr += kv_head.to(tl.int64) * v_stride_h
    table_ptr += request * table_stride

    acc, row_max, row_sum = start_rows(BLOCK_G, BLOCK_D)
    blocks, places = pages_of(table_ptr, begin + offsets, begin + offsets < end, BLOCK_SIZE)
    for start in range(begin, end, BLOCK_N):
        keys = start + offsets
        is_key = keys < end
        if HAS_WINDOW:
            is_key = is_key & (keys >= first_key)
        k_rows = blocks * k_stride_b + places * k_stride_s
        v_rows = k_rows if SAME_STRIDES else blocks * v_stride_b + places * v_stride_s
        # The next block ids, a tile ahead: so the loads of keys do not wait for them.
        blocks, places = pages_of(table_ptr, keys + BLOCK_N, keys + BLOCK_N < end, BLOCK_SIZE)
        k = load_tile(k_ptr, k_rows, is_key, k_stride_d, HEAD_DIM, BLOCK_D, True)
        v = load_tile(v_ptr, v_rows, is_key, v_stride_d, HEAD_DIM, BLOCK_D, True)
        scores = tl.where(is_key[None, :], dot(q, tl.trans(k)), float("-inf"))
        acc, row_max, row_sum = add_tile(acc, row_max, row_sum, scores, scale_log2, v, HAS_WINDOW)
    out, lse_log2 = finish_rows(acc, row_max, row_sum)

    num_heads = tl.num_programs(0) * GROUP_SIZE
    dims = tl.arange(0, BLOCK_D)
    targets = (request * num_heads + heads)[:, None] * HEAD_DIM + dims[None, :]
    is_target = is_row[:, None] & (dims < HEAD_DIM)[None, :]
    if not IS_SPLIT or num_parts <= 1:
        tl.store(out_ptr + targets, out.to(out_ptr.dtype.element_ty), mask=is_target)
    else:
        stride_p = tl.num_programs(2).to(tl.int64) * num_heads
        lse_ptr = parts_ptr + tl.num_programs(1) * stride_p * HEAD_DIM
        tl.store(parts_ptr + part * stride_p * HEAD_DIM + targets, out, mask=is_target)
        tl.store(lse_ptr + part * stride_p + request * num_heads + heads, lse_log2, mask=is_row)
        if MERGES:
            group = request * tl.num_programs(0) + kv_head
            merge_if_last(
                parts_ptr, lse_ptr, out_ptr, num_done_ptr + group, group * GROUP_SIZE, num_parts,
                stride_p, HEAD_DIM, GROUP_SIZE, BLOCK_P, BLOCK_D,
            )  # fmt: skip


def paged_decode(
    q: Float[Tensor, "num_reqs num_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_table: Int32[Tensor, "num_reqs max_num_blocks"],
    seq_lens: Int32[Tensor, " num_reqs"],
    *,
    scale: float,
    sliding_window: int | None = None,
    num_splits: int | None = None,
    out: Float[Tensor, "num_reqs num_heads head_dim"] | None = None,
) -> Float[Tensor, "num_reqs num_heads head_dim"]:
    """Attention of each request's one query over its cached tokens; 0 for a request without any.

    Args:
        q: A query per request, whose own key and value are in the cache. Any strides.
        key_cache: One layer's pages. Any strides.
        value_cache: The values' pages.
        block_table: Logical block to physical block; entries beyond a request's length are not
            read. Rows must be contiguous.
        seq_lens: Tokens of each request in the cache; 0 is a row of padding.
        scale: Factor on the scores, usually `head_dim ** -0.5`.
        sliding_window: A query sees this many tokens, itself included; `None` is all.
        num_splits: Most parts that a request's keys are cut into; `None` chooses.
        out: Where the result goes, contiguous; `None` makes a new tensor.
    """
    num_reqs, num_heads, head_dim = q.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if num_reqs == 0:
        return out
    num_programs = num_reqs * num_kv_heads
    tiles = decode_tiles(head_dim, q.element_size(), num_programs, q.device)
    if num_splits is None:
        num_splits = choose_num_splits(num_programs, q.device)
    most = ceil_div(block_table.shape[1] * block_size, tiles.BLOCK_N)
    num_splits = min(num_splits, most, MAX_PARTS)
    parts, num_done = out, out  # not looked at
    if num_splits > 1:
        parts = scratch(num_splits * num_reqs * num_heads * (head_dim + 1), q.device)
        num_done = counters(num_programs, q.device)
    merges = last_program_merges(q)
    group_size, has_window = num_heads // num_kv_heads, sliding_window is not None
    shape = {"HEAD_DIM": head_dim, "HAS_WINDOW": has_window, "BLOCK_D": block_of(head_dim)}
    launch(
        _paged_decode, (num_kv_heads, num_splits, num_reqs),
        q, key_cache, value_cache, out, parts, num_done, block_table, seq_lens,
        scale * LOG2_E, sliding_window or 0, block_table.stride(0),
        *q.stride(), *key_cache.stride(), *value_cache.stride(),
        GROUP_SIZE=group_size, BLOCK_SIZE=block_size,
        SAME_STRIDES=key_cache.stride() == value_cache.stride(), IS_SPLIT=num_splits > 1,
        MERGES=merges, BLOCK_P=MAX_PARTS, BLOCK_G=max(16, power_of_two(group_size)),
        **shape, **tiles._asdict(),
    )  # fmt: skip
    if num_splits > 1 and not merges:
        launch(
            merge, (num_heads, num_reqs),
            parts, out, seq_lens, sliding_window or 0, num_splits,
            BLOCK_P=MAX_PARTS, BLOCK_N=tiles.BLOCK_N, UNSPLIT=tiles.UNSPLIT, **shape,
        )  # fmt: skip
    return out


def last_program_merges(q: Tensor) -> bool:
    """Whether parts are merged without a launch of its own.

    So it is where launches cost most. In a graph they cost next to nothing, and a kernel with a
    program for each row is done sooner.
    """
    return not (q.is_cuda and torch.cuda.is_current_stream_capturing())


class DecodeTiles(NamedTuple):
    """How many keys a program takes at once, how many such tiles stay together, the means."""

    BLOCK_N: int
    UNSPLIT: int
    num_warps: int
    num_stages: int


def decode_tiles(
    head_dim: int, element_size: int, num_programs: int, device: torch.device
) -> DecodeTiles:
    """Tiles for heads of `head_dim` elements; measured on an H200, see benchmarks/README.md.

    Of programs with two stages five fit on a multiprocessor, of those with three only three, which
    read faster. So three it is, unless two let all programs run at once.
    """
    if head_dim * element_size > 256:  # float32 or wide heads: half the keys fill the same bytes
        return DecodeTiles(32, UNSPLIT=4, num_warps=4, num_stages=2)
    fit_in_five = 3 < num_programs / num_processors(device) <= 5
    return DecodeTiles(64, UNSPLIT=4, num_warps=4, num_stages=2 if fit_in_five else 3)


def choose_num_splits(num_programs: int, device: torch.device) -> int:
    """Parts per request, so that `num_programs` (one per request and KV head) become enough."""
    return max(1, 2 * num_processors(device) // num_programs)


@cache
def num_processors(device: torch.device) -> int:
    """Multiprocessors of the GPU, each of which runs several programs at once."""
    if device.type != "cuda":
        return 4  # the interpreter runs one program after the other: few, to be tested at all
    return torch.cuda.get_device_properties(device).multi_processor_count
