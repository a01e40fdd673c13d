"""What several kernels share: the interpreter's switch, and a matrix product that both can do.

Next file to read: `rms_norm.py`.
"""

from __future__ import annotations

import os
from functools import cache
from typing import no_type_check

import torch
import triton
import triton.language as tl

from minivllm.kernels.launch import launch as launch  # kernels find it here

IS_INTERPRETED = os.environ.get("TRITON_INTERPRET", "0") == "1"
_UPCASTS = tl.constexpr(IS_INTERPRETED)


# A batch is cut in two where its decodes end. Triton would compile a kernel anew for tables and
# lengths that begin at an odd address; they are read number by number, so it matters nowhere.
ANY_ALIGNMENT = ("table_ptr", "query_start_loc_ptr", "seq_lens_ptr")


@triton.jit
@no_type_check
def dot(a, b):
    """`a @ b`, added up in float32: `a` is [M, K], `b` is [K, N], each at least 16.

    Not in tf32, the GPU's short float32: its 10 bits of mantissa would cost float32 its use as a
    reference. The interpreter gets bfloat16 products wrong, so there both sides are widened first.
    """
    if _UPCASTS:
        a, b = a.to(tl.float32), b.to(tl.float32)
    return tl.dot(a, b, input_precision="ieee")


def ceil_div(a: int, b: int) -> int:
    """`a / b`, rounded up. Triton's own `cdiv` takes 3 microseconds, longer than many a kernel."""
    return -(-a // b)


def power_of_two(n: int) -> int:
    """The smallest power of two that is at least `n`; in a tenth of the time Triton's takes."""
    return 1 << (n - 1).bit_length()


@cache
def shared_memory(device: torch.device) -> int:
    """Bytes of a multiprocessor's memory that one program may use: how large its tiles can be."""
    if device.type != "cuda":
        return 101_376  # what the smallest of today's GPUs have: tiles for all of them
    properties = torch.cuda.get_device_properties(device)
    return properties.shared_memory_per_multiprocessor - 1024  # CUDA keeps one KiB


def block_of(head_dim: int) -> int:
    """Columns of a tile that holds heads; the matrix unit wants 16 at least."""
    return max(16, power_of_two(head_dim))
