"""Inputs that careless code gets wrong, for the cases of a chapter's checks."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def strided(x: Tensor) -> Tensor:
    """The same numbers in memory that is not contiguous: between them lie others, which are NaN."""
    if x.dim() == 0:
        return x.clone()
    wide = x.new_full((*x.shape[:-1], 2 * x.shape[-1]), math.nan if x.is_floating_point() else 99)
    wide[..., ::2] = x
    return wide[..., ::2]


def poisoned(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of NaN: whoever reads what was never written, shows it."""
    return torch.full(shape, math.nan, dtype=dtype)


def ragged(block: int) -> tuple[int, ...]:
    """Lengths around the borders of blocks: 1, B-1, B, B+1, 2B and a long one."""
    return tuple(sorted({1, max(1, block - 1), block, block + 1, 2 * block, 5 * block + 3}))
