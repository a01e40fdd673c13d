"""Matrix products of a small batch: as fast as the weight can be read.

    out[m, n] = sum_k x[m, k] weight[n, k] + addend[n]           or addend[m, n]

For one row each weight is used once, so the time is that of reading N K numbers, and the arithmetic
hides behind it. The usual tiles of a matrix product, 64 columns or more, would cut N = 1024 into 16
programs and leave most of the chip idle. Here a program owns a few columns n, and its warps share
out the k:

    weight of one program           k ->
        n   | warp 0 | warp 1 | warp 2 | warp 3 | warp 0 | warp 1 | ...
        |   | warp 0 | warp 1 | warp 2 | warp 3 | warp 0 | warp 1 | ...

- One row: each thread multiplies what it loads by its piece of x and keeps sums of its own, which
  are added up once, at the end.
- 2 to 32 rows: each warp is a matrix product of its own, of [16 or 32, its k] and
  [its k, BLOCK_N], as the matrix unit takes 16 rows at a time. Missing rows are zeros, not read.

M rows, K in_features, N out_features.
Bytes: the weight once; x once per program, from the L2 cache.
Next file to read: `layers/linear.py`, whose products these are.
"""

from __future__ import annotations

from typing import NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from minivllm.kernels.common import ceil_div, dot, launch

MAX_ROWS = 32  # two tiles of the matrix unit


def few_rows_matmul_ref(
    x: Float[Tensor, "num_rows in_features"],
    weight: Float[Tensor, "out_features in_features"],
    addend: Float[Tensor, "*addend_rows out_features"] | None = None,
) -> Float[Tensor, "num_rows out_features"]:
    """What `few_rows_matmul` computes: `F.linear` and a sum, rounded once."""
    product = F.linear(x.float(), weight.float())
    return (product if addend is None else product + addend.float()).to(x.dtype)


@triton.jit
@no_type_check
def _one_row(
    x_ptr, weight_ptr, addend_ptr, addend_stride_m, addend_stride_n, out_ptr, N, K,
    x_stride_k, weight_stride_n, weight_stride_k,
    HAS_ADDEND: tl.constexpr, HAS_TAIL: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    first_n, columns = tl.program_id(0) * BLOCK_N, tl.arange(0, BLOCK_N)
    is_column, ks = columns < N - first_n, tl.arange(0, BLOCK_K)
    weight_ptr += first_n.to(tl.int64) * weight_stride_n
    weight_ptrs = weight_ptr + columns[:, None] * weight_stride_n + ks[None, :] * weight_stride_k
    x_ptrs = x_ptr + ks * x_stride_k

    acc = tl.zeros((BLOCK_N, BLOCK_K), tl.float32)  # of each thread its own places
    for start in tl.range(0, K, BLOCK_K, num_stages=NUM_STAGES):
        if HAS_TAIL:
            is_k = ks < K - start
            x = tl.load(x_ptrs, mask=is_k, other=0.0)
            weight = tl.load(weight_ptrs, mask=is_column[:, None] & is_k[None, :], other=0.0)
        else:
            x = tl.load(x_ptrs)
            weight = tl.load(weight_ptrs, mask=is_column[:, None], other=0.0)
        acc += weight.to(tl.float32) * x.to(tl.float32)[None, :]
        x_ptrs += BLOCK_K * x_stride_k
        weight_ptrs += BLOCK_K * weight_stride_k

    out = tl.sum(acc, 1)
    if HAS_ADDEND:
        addend_ptrs = addend_ptr + (first_n + columns) * addend_stride_n
        out += tl.load(addend_ptrs, mask=is_column, other=0.0).to(tl.float32)
    tl.store(out_ptr + first_n + columns, out.to(out_ptr.dtype.element_ty), mask=is_column)


@triton.jit(do_not_specialize=["M"])
@no_type_check
def _few_rows(
    x_ptr, weight_ptr, addend_ptr, addend_stride_m, addend_stride_n, out_ptr, M, N, K,
    x_stride_m, x_stride_k, weight_stride_n, weight_stride_k,
    HAS_ADDEND: tl.constexpr, HAS_TAIL: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr, NUM_SLICES: tl.constexpr, NUM_STAGES: tl.constexpr,
):  # fmt: skip
    first_n, columns = tl.program_id(0) * BLOCK_N, tl.arange(0, BLOCK_N)
    rows = tl.arange(0, BLOCK_M)
    is_column, is_row = columns < N - first_n, rows < M
    # Slice s, of warp s, takes every NUM_SLICES-th BLOCK_K of the k: [NUM_SLICES, 1, BLOCK_K].
    slices, places = tl.arange(0, NUM_SLICES), tl.arange(0, BLOCK_K)
    ks = slices[:, None, None] * BLOCK_K + places[None, None, :]
    weight_ptr += first_n.to(tl.int64) * weight_stride_n
    weight_ptrs = weight_ptr + columns[None, :, None] * weight_stride_n + ks * weight_stride_k
    x_ptrs = x_ptr + rows[None, :, None] * x_stride_m + ks * x_stride_k

    acc = tl.zeros((NUM_SLICES, BLOCK_M, BLOCK_N), tl.float32)
    for start in tl.range(0, K, NUM_SLICES * BLOCK_K, num_stages=NUM_STAGES):
        x_mask, weight_mask = is_row[None, :, None], is_column[None, :, None]
        if HAS_TAIL:
            is_k = ks < K - start
            x_mask, weight_mask = x_mask & is_k, weight_mask & is_k
        x = tl.load(x_ptrs, mask=x_mask, other=0.0)
        weight = tl.load(weight_ptrs, mask=weight_mask, other=0.0)
        acc += dot(x, tl.permute(weight, (0, 2, 1)))
        x_ptrs += NUM_SLICES * BLOCK_K * x_stride_k
        weight_ptrs += NUM_SLICES * BLOCK_K * weight_stride_k

    out = tl.sum(acc, 0)
    out_mask = is_row[:, None] & is_column[None, :]
    if HAS_ADDEND:
        addend_ptrs = addend_ptr + rows[:, None] * addend_stride_m
        addend_ptrs += (first_n + columns)[None, :] * addend_stride_n
        out += tl.load(addend_ptrs, mask=out_mask, other=0.0).to(tl.float32)
    out_ptrs = out_ptr + rows[:, None] * N + (first_n + columns)[None, :]
    tl.store(out_ptrs, out.to(out_ptr.dtype.element_ty), mask=out_mask)


class Tiles(NamedTuple):
    """Columns of a program, the k that it (one row) or each warp (more rows) takes at once.

    And its warps, and how many such tiles are on their way from memory at the same time.
    """

    BLOCK_N: int
    BLOCK_K: int
    num_warps: int
    NUM_STAGES: int


def few_rows_tiles(num_rows: int, out_features: int, element_size: int) -> Tiles:
    """Tiles for `num_rows` rows, the best of a grid on an H200: benchmarks/README.md.

    A narrow product is cut into one or two programs for each multiprocessor, with several warps
    each. A wide one has programs enough, so each takes more columns, for which x is read once.
    """
    if num_rows == 1:
        if out_features <= 2048:
            return Tiles(4, 1024, num_warps=4, NUM_STAGES=1)
        return Tiles(4, 512, num_warps=2, NUM_STAGES=1)
    if element_size == 4:  # float32 is for checking, not for speed
        return Tiles(8, 64, num_warps=4, NUM_STAGES=3)
    if out_features <= 2048:
        return Tiles(8, 128, num_warps=4, NUM_STAGES=4)
    if out_features <= 16384:
        return Tiles(8, 256, num_warps=1, NUM_STAGES=3)
    return Tiles(32, 256, num_warps=1, NUM_STAGES=2)


def is_faster(num_rows: int, out_features: int) -> bool:
    """Whether `few_rows_matmul` beats PyTorch's product, on an H200 in bfloat16.

    By 1.1 to 3.7 times for one row; where 2 to 16 rows meet a narrow weight by 1.25 to 2.8, and
    with 32 rows by 1.1 to 1.2.
    """
    return num_rows == 1 or (num_rows <= MAX_ROWS and out_features <= 2048)


def few_rows_matmul(
    x: Float[Tensor, "num_rows in_features"],
    weight: Float[Tensor, "out_features in_features"],
    addend: Float[Tensor, "*addend_rows out_features"] | None = None,
) -> Float[Tensor, "num_rows out_features"]:
    """`x @ weight.T + addend`, added up in float32 and rounded once; any strides.

    Args:
        x: The rows.
        weight: Each of its rows gives one column of the product.
        addend: A bias, the same for all rows, or a residual, with a row for each.

    Raises:
        ValueError: `x` has more than 32 rows.
    """
    num_rows, out_features = len(x), len(weight)
    if num_rows > MAX_ROWS:
        raise ValueError(f"{num_rows=} must be at most {MAX_ROWS}; use F.linear for more")
    return multiply(x, weight, addend, few_rows_tiles(num_rows, out_features, x.element_size()))


def multiply(
    x: Float[Tensor, "num_rows in_features"],
    weight: Float[Tensor, "out_features in_features"],
    addend: Float[Tensor, "*addend_rows out_features"] | None,
    tiles: Tiles,
) -> Float[Tensor, "num_rows out_features"]:
    """`few_rows_matmul` with tiles of the caller's choice, to compare them."""
    (M, K), N = x.shape, len(weight)
    out = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if M == 0:
        return out
    grid = (ceil_div(N, tiles.BLOCK_N),)
    strides = (0, 0) if addend is None else addend.expand(M, N).stride()
    addend_arguments = (x if addend is None else addend, *strides)
    step = tiles.BLOCK_K if M == 1 else tiles.BLOCK_K * tiles.num_warps
    constants = {**tiles._asdict(), "HAS_ADDEND": addend is not None, "HAS_TAIL": K % step != 0}
    if M == 1:
        launch(
            _one_row, grid,
            x, weight, *addend_arguments, out, N, K, x.stride(1), *weight.stride(), **constants,
        )  # fmt: skip
    else:
        launch(
            _few_rows, grid,
            x, weight, *addend_arguments, out, M, N, K, *x.stride(), *weight.stride(),
            BLOCK_M=16 if M <= 16 else 32, NUM_SLICES=tiles.num_warps, **constants,
        )  # fmt: skip
    return out
