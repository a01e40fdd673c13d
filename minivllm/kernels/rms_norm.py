"""RMSNorm, alone or together with the residual sum before it: the smallest kernel of the package.

    rms_norm:       y[i] = weight[i] * x[i] / sqrt(mean(x * x) + eps)
    add_rms_norm:   the same of x + residual, which is returned as well: the next residual

A row fits into the registers of one program: read once, squared and summed there, written once.
PyTorch's operators would carry it to memory and back for every step of the formula. Short rows are
taken several at a time, for a program should have some work.

All in float32, with the roundings of `layers/norm.py`: the sum and the normalised row are rounded
to the dtype of x, then comes the weight.

R rows, S size of a row.
Bytes: 2 R S elements; with a residual 4 R S. The weights come from the GPU's cache.
Paper: Root Mean Square Layer Normalization, arXiv:1910.07467, section 4.
Next file to read: `silu_and_mul.py`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

from minivllm.kernels.common import launch, power_of_two


class NormAndResidual(NamedTuple):
    """What a block reads, and what its output is added to."""

    normed: Float[Tensor, "*rows size"]
    residual: Float[Tensor, "*rows size"]


def rms_norm_ref(
    x: Float[Tensor, "*rows size"], weight: Float[Tensor, " size"], eps: float
) -> Float[Tensor, "*rows size"]:
    """What `rms_norm` computes."""
    x32 = x.float()
    normed = x32 * torch.rsqrt(x32.square().mean(dim=-1, keepdim=True) + eps)
    return weight * normed.to(x.dtype)


def add_rms_norm_ref(
    x: Float[Tensor, "*rows size"],
    residual: Float[Tensor, "*rows size"],
    weight: Float[Tensor, " size"],
    eps: float,
) -> NormAndResidual:
    """What `add_rms_norm` computes."""
    new_residual = x + residual
    return NormAndResidual(rms_norm_ref(new_residual, weight, eps), new_residual)


@triton.jit(do_not_specialize=["num_rows"])
@no_type_check
def _rms_norm(
    x_ptr, residual_ptr, weight_ptr, out_ptr, sum_ptr, num_rows, eps,
    x_stride_r, x_stride_s, residual_stride_r, residual_stride_s,
    SIZE: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_S: tl.constexpr,
):  # fmt: skip
    dtype = out_ptr.dtype.element_ty
    rows = (tl.program_id(0) * BLOCK_R + tl.arange(0, BLOCK_R)).to(tl.int64)[:, None]
    columns = tl.arange(0, BLOCK_S)[None, :]
    is_column = columns < SIZE
    is_element = (rows < num_rows) & is_column

    x_ptrs = x_ptr + rows * x_stride_r + columns * x_stride_s
    x = tl.load(x_ptrs, mask=is_element, other=0.0).to(tl.float32)
    # Early, to wait for memory together with x.
    weight = tl.load(weight_ptr + columns, mask=is_column).to(tl.float32)
    if HAS_RESIDUAL:
        residual_ptrs = residual_ptr + rows * residual_stride_r + columns * residual_stride_s
        x += tl.load(residual_ptrs, mask=is_element, other=0.0).to(tl.float32)
        rounded = x.to(dtype)
        tl.store(sum_ptr + rows * SIZE + columns, rounded, mask=is_element)
        x = rounded.to(tl.float32)

    mean_square = tl.sum(x * x, 1) / SIZE  # beyond the row x is 0, which adds nothing
    normed = (x * tl.rsqrt(mean_square + eps)[:, None]).to(dtype).to(tl.float32)
    out = normed * weight
    tl.store(out_ptr + rows * SIZE + columns, out.to(dtype), mask=is_element)


def rms_norm(
    x: Float[Tensor, "*rows size"], weight: Float[Tensor, " size"], eps: float
) -> Float[Tensor, "*rows size"]:
    """The normalised rows of `x`, times `weight`.

    Args:
        x: Rows of up to some 16,000 elements. Any strides; where its leading axes can't be seen as
            one without a copy, it is copied.
        weight: A factor per column.
        eps: Added to the mean square, so that a row of zeros is not divided by zero.
    """
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    _norm_rows(x, None, weight, out, None, eps)
    return out


def add_rms_norm(
    x: Float[Tensor, "*rows size"],
    residual: Float[Tensor, "*rows size"],
    weight: Float[Tensor, " size"],
    eps: float,
) -> NormAndResidual:
    """`x + residual`, and its normalised rows times `weight`; changes neither `x` nor `residual`.

    Args:
        x: A block's output, as in `rms_norm`.
        residual: The stream it is added to, in the same dtype. Any strides.
        weight: A factor per column.
        eps: Added to the mean square.
    """
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    new_residual = torch.empty_like(out)
    _norm_rows(x, residual, weight, out, new_residual, eps)
    return NormAndResidual(out, new_residual)


def _norm_rows(
    x: Tensor,
    residual: Tensor | None,
    weight: Tensor,
    out: Tensor,
    new_residual: Tensor | None,
    eps: float,
) -> None:
    if out.numel() == 0:
        return
    size = x.shape[-1]
    x = x.reshape(-1, size)
    residual = None if residual is None else residual.reshape(-1, size)
    num_rows, tiles = len(x), norm_tiles(size)
    launch(
        _rms_norm, (-(-num_rows // tiles.BLOCK_R),),
        x, residual, weight.contiguous(), out, new_residual, num_rows, eps, *x.stride(),
        *(x if residual is None else residual).stride(),
        SIZE=size, HAS_RESIDUAL=residual is not None, **tiles._asdict(),
    )  # fmt: skip


class NormTiles(NamedTuple):
    """Rows of a program, columns of its tile, and its warps."""

    BLOCK_R: int
    BLOCK_S: int
    num_warps: int


@cache
def norm_tiles(size: int) -> NormTiles:
    """Tiles for rows of `size` elements: at least 1,024 elements a program.

    256 elements a warp are 8 a thread: in 16 bits one access of 16 bytes, the largest there is.
    Beyond 4,096 a thread takes more, as 16 warps already wait long for each other's sums.
    """
    block_s: int = power_of_two(size)
    block_r = max(1, 1024 // block_s)
    return NormTiles(block_r, block_s, num_warps=min(16, block_r * block_s // 256))
