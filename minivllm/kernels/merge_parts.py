"""Split-KV: who reads which keys of a request, and how what they found becomes one output.

    part p found    out_p = sum_j 2^(s_j - lse_p) v_j       over its own keys j
                    lse_p = log2(sum_j 2^s_j)
    together        lse = log2(sum_p 2^lse_p)               out = sum_p 2^(lse_p - lse) out_p

The parts of a row lie in a scratch tensor of float32, their outputs first and then their lse:

    [num_parts, num_reqs, num_heads, head_dim], [num_parts, num_reqs, num_heads]

Two ways to merge them. In the first the program that is done last does it, which takes no launch of
its own; in the second a kernel with a program for each row, which is done sooner.
Source: Flash-Decoding, pytorch.org/blog/flash-decoding; the formula is FlashAttention-2's,
arXiv:2307.08691, section 3.1. Next file to read: `sample.py`.
"""

from __future__ import annotations

from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from minivllm.kernels.common import ANY_ALIGNMENT, power_of_two

MAX_PARTS = 64  # of a request: whoever merges them holds them all at once


@triton.jit
@no_type_check
def share_out(
    seq_len, sliding_window, num_programs,
    HAS_WINDOW: tl.constexpr, BLOCK_N: tl.constexpr, UNSPLIT: tl.constexpr,
):  # fmt: skip
    """`(first_key, first_tile, tiles_per_part, num_parts)` of a request's keys.

    Equal parts, no more than there are tiles; what few tiles one program reads sooner than several
    could merge stay together.
    """
    first_key = 0
    if HAS_WINDOW:
        first_key = tl.maximum(seq_len - sliding_window, 0)
    first_tile = first_key // BLOCK_N
    num_tiles = tl.cdiv(seq_len, BLOCK_N) - first_tile
    share = tl.maximum(tl.cdiv(num_tiles, num_programs), 1)
    tiles_per_part = tl.where(num_tiles <= UNSPLIT, UNSPLIT, share)
    return first_key, first_tile, tiles_per_part, tl.cdiv(num_tiles, tiles_per_part)


@triton.jit
@no_type_check
def merge_if_last(
    parts_ptr, lse_ptr, out_ptr, num_done_ptr, first_row, num_parts, stride_p,
    HEAD_DIM: tl.constexpr, GROUP_SIZE: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """Merge the parts of GROUP_SIZE rows, if the others have stored theirs.

    Whoever counts to the end finds what the others stored: each of them has stored all of its part
    (the barrier) before it counts.
    """
    tl.debug_barrier()
    if tl.atomic_add(num_done_ptr, 1) == num_parts - 1:
        tl.store(num_done_ptr, 0)  # for the next launch
        for head in range(GROUP_SIZE):
            merge_parts(
                parts_ptr, lse_ptr, out_ptr, first_row + head, num_parts, stride_p,
                HEAD_DIM, BLOCK_P, BLOCK_D,
            )  # fmt: skip


@triton.jit
@no_type_check
def merge_parts(
    parts_ptr, lse_ptr, out_ptr, row, num_parts, stride_p,
    HEAD_DIM: tl.constexpr, BLOCK_P: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    """The output of one row, a request and query head, from what its parts found."""
    parts, dims = tl.arange(0, BLOCK_P), tl.arange(0, BLOCK_D)
    is_part, is_dim = parts < num_parts, dims < HEAD_DIM
    lse = tl.load(lse_ptr + parts * stride_p + row, mask=is_part, other=float("-inf"))
    weights = tl.exp2(lse - tl.max(lse, 0))
    part_rows = (parts * stride_p + row)[:, None] * HEAD_DIM
    is_place = is_part[:, None] & is_dim[None, :]
    found = tl.load(parts_ptr + part_rows + dims[None, :], mask=is_place, other=0.0)
    out = tl.sum(found * weights[:, None], 0) / tl.sum(weights, 0)
    tl.store(out_ptr + row * HEAD_DIM + dims, out.to(out_ptr.dtype.element_ty), mask=is_dim)


@triton.jit(do_not_specialize=["num_programs"], do_not_specialize_on_alignment=ANY_ALIGNMENT)
@no_type_check
def merge(
    parts_ptr, out_ptr, seq_lens_ptr, sliding_window, num_programs,
    HEAD_DIM: tl.constexpr, HAS_WINDOW: tl.constexpr, BLOCK_P: tl.constexpr,
    BLOCK_D: tl.constexpr, BLOCK_N: tl.constexpr, UNSPLIT: tl.constexpr,
):  # fmt: skip
    """Merge the parts of each row, a program for one; grid [num_heads, num_reqs]."""
    head, request = tl.program_id(0), tl.program_id(1).to(tl.int64)
    seq_len = tl.load(seq_lens_ptr + request)
    _, _, _, num_parts = share_out(
        seq_len, sliding_window, num_programs, HAS_WINDOW, BLOCK_N, UNSPLIT
    )
    if num_parts > 1:
        stride_p = tl.num_programs(1).to(tl.int64) * tl.num_programs(0)
        lse_ptr = parts_ptr + num_programs * stride_p * HEAD_DIM
        row = request * tl.num_programs(0) + head
        merge_parts(
            parts_ptr, lse_ptr, out_ptr, row, num_parts, stride_p, HEAD_DIM, BLOCK_P, BLOCK_D
        )


# Both are made once, as making them takes longer than the rest of a launch; the second is left at
# zero by each launch. So two launches must not overlap: like a model's, they share a stream.


def scratch(num_elements: int, device: torch.device) -> Tensor:
    """Room for what the parts find: their outputs, then their lse."""
    return _zeros(power_of_two(num_elements), torch.float32, device)


def counters(num_counters: int, device: torch.device) -> Tensor:
    """Zeros to count finished parts in."""
    return _zeros(power_of_two(num_counters), torch.int32, device)


@cache
def _zeros(size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.zeros(size, dtype=dtype, device=device)
