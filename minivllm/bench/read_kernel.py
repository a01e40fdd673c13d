"""A kernel that does nothing but read: how fast attention over a cache could be at most.

Each program adds up one tile and keeps the sum, so that the reads are not dropped as useless.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton
import triton.language as tl
from torch import Tensor

from minivllm.kernels.common import launch

_BLOCK = 8192  # 64 elements for each thread of 4 warps: in 16 bits eight accesses of 16 bytes


@triton.jit
@no_type_check
def _sum_tile(source_ptr, sums_ptr, BLOCK: tl.constexpr):
    tile = tl.program_id(0).to(tl.int64)
    values = tl.load(source_ptr + tile * BLOCK + tl.arange(0, BLOCK))
    tl.store(sums_ptr + tile, tl.sum(values.to(tl.float32), 0))


def read_all(source: Tensor) -> Tensor:
    """The sum of each tile of 8,192 elements; `source` is contiguous and made of whole tiles."""
    sums = torch.empty(source.numel() // _BLOCK, dtype=torch.float32, device=source.device)
    launch(_sum_tile, (len(sums),), source, sums, BLOCK=_BLOCK, num_warps=4)
    return sums
