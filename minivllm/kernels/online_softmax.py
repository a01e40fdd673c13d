"""The step that all attention kernels repeat: add one tile of keys to a running softmax.

    m' = max(m, max_j s_j)                      the largest score so far
    l' = l * 2^(m - m') + sum_j 2^(s_j - m')    the denominator, rescaled when m grows
    o' = o * 2^(m - m') + sum_j 2^(s_j - m') v_j

After the last tile `o / l` is the attention output, and `m + log2(l)` the logarithm of the sum of
all weights, by which two halves of the keys can be merged. All of it in units of log 2 (the
launchers multiply the scale by `LOG2_E`), as the hardware has an instruction for 2^x and none for
e^x. Which keys a program has to look at at all, `tiles_to_visit` tells.
Next file to read: `flash_attention.py`.
Paper: Online normalizer calculation for softmax, arXiv:1805.02867, section 3.
"""

from __future__ import annotations

import math
from typing import no_type_check

import triton
import triton.language as tl

from minivllm.kernels.common import dot

LOG2_E = math.log2(math.e)
LN_2 = tl.constexpr(math.log(2))


@triton.jit
@no_type_check
def load_tile(
    ptr, row_offsets, is_row, stride_dim,
    HEAD_DIM: tl.constexpr, BLOCK_D: tl.constexpr, HAS_MASK: tl.constexpr,
):  # fmt: skip
    """The heads that begin at `row_offsets`, `[num_rows, BLOCK_D]`; 0 where masked."""
    dims = tl.arange(0, BLOCK_D)
    ptrs = ptr + row_offsets[:, None] + dims[None, :] * stride_dim
    is_dim = (dims < HEAD_DIM)[None, :]
    if BLOCK_D == HEAD_DIM and HAS_MASK:  # the fewer masks, the fewer instructions
        tile = tl.load(ptrs, mask=is_row[:, None], other=0.0)
    elif BLOCK_D == HEAD_DIM:
        tile = tl.load(ptrs)
    elif HAS_MASK:
        tile = tl.load(ptrs, mask=is_row[:, None] & is_dim, other=0.0)
    else:
        tile = tl.load(ptrs, mask=is_dim, other=0.0)
    return tile


@triton.jit
@no_type_check
def tiles_to_visit(
    first_position, key_len, sliding_window,
    IS_CAUSAL: tl.constexpr, HAS_WINDOW: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
):  # fmt: skip
    """`(begin, num_full, end)` for BLOCK_M queries from `first_position` on, in keys.

    No query sees a key before `begin` or from `end` on; every query sees all from `begin` up to
    `num_full`. The first two are whole tiles.
    """
    begin, num_full, end = 0, key_len // BLOCK_N * BLOCK_N, key_len
    if IS_CAUSAL:
        end = tl.minimum(key_len, first_position + BLOCK_M)
        num_full = tl.maximum(first_position + 1, 0) // BLOCK_N * BLOCK_N
    if HAS_WINDOW:
        begin = tl.maximum(first_position - sliding_window + 1, 0) // BLOCK_N * BLOCK_N
        num_full = begin  # any tile may be cut by the window's edge
    return begin, num_full, end


@triton.jit
@no_type_check
def hide_unseen(
    scores, keys, is_key, positions, sliding_window,
    IS_CAUSAL: tl.constexpr, HAS_WINDOW: tl.constexpr,
):  # fmt: skip
    """`scores`, with -inf where the query at a row's position does not see the column's key."""
    is_visible = is_key[None, :]
    if IS_CAUSAL:
        is_visible = is_visible & (keys[None, :] <= positions[:, None])
    if HAS_WINDOW:
        is_visible = is_visible & (keys[None, :] > positions[:, None] - sliding_window)
    return tl.where(is_visible, scores, float("-inf"))


@triton.jit
@no_type_check
def start_rows(BLOCK_M: tl.constexpr, BLOCK_D: tl.constexpr):
    """`(o, m, l)` before the first key: nothing seen, and no weight given."""
    acc = tl.zeros((BLOCK_M, BLOCK_D), tl.float32)
    row_max = tl.full((BLOCK_M,), float("-inf"), tl.float32)
    row_sum = tl.zeros((BLOCK_M,), tl.float32)
    return acc, row_max, row_sum


@triton.jit
@no_type_check
def add_tile(acc, row_max, row_sum, scores, scale_log2, v, HAS_MASK: tl.constexpr):
    """`(o, m, l)` with one more tile: `scores` [M, N], -inf where masked, and `v` [N, D].

    The scores come unscaled: the hardware multiplies and subtracts in one instruction.
    """
    new_max = tl.maximum(row_max, tl.max(scores, 1) * scale_log2)
    shift = new_max
    if HAS_MASK:  # a row that has seen no key yet: -inf - -inf is NaN, -inf - 0 is not
        shift = tl.where(new_max == float("-inf"), 0.0, new_max)
    weights = tl.exp2(scores * scale_log2 - shift[:, None])
    rescale = tl.exp2(row_max - shift)
    row_sum = row_sum * rescale + tl.sum(weights, 1)
    acc = acc * rescale[:, None] + dot(weights.to(v.dtype), v)
    return acc, new_max, row_sum


@triton.jit
@no_type_check
def finish_rows(acc, row_max, row_sum):
    """The output, and the log2 of each row's sum of weights: 0 and -inf for a row without keys."""
    is_empty = row_sum == 0.0
    row_sum = tl.where(is_empty, 1.0, row_sum)
    return acc / row_sum[:, None], row_max + tl.log2(row_sum)
