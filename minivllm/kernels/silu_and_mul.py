"""SiLU and product: the middle of a gated feed-forward network in one pass.

    out[i] = silu(gate_up[i]) * gate_up[I + i],        silu(a) = a / (1 + e^-a)

The two halves of a row are what `layers/mlp.py` calls gate and up. Each output needs two inputs and
no neighbour, so the row is cut into parts, a program each.

In float32, rounded once: `F.silu(gate) * up` rounds the activation as well, which is spared here.

T tokens, I intermediate_size.
Bytes: 3 T I elements.
Paper: GLU Variants Improve Transformer, arXiv:2002.05202, section 2.
Next file to read: `cache_write.py`.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from minivllm.kernels.common import launch

# 8 elements for each thread of 4 warps: in 16 bits one access of 16 bytes to either half.
_BLOCK_I = 1024


def silu_and_mul_ref(
    gate_up: Float[Tensor, "num_tokens gate_up_size"],
) -> Float[Tensor, "num_tokens gate_up_size//2"]:
    """What `silu_and_mul` computes."""
    gate, up = gate_up.float().chunk(2, dim=-1)
    return (F.silu(gate) * up).to(gate_up.dtype)


@triton.jit
@no_type_check
def _silu_and_mul(
    gate_up_ptr, out_ptr, stride_t, stride_i, SIZE: tl.constexpr, BLOCK_I: tl.constexpr
):
    token = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK_I + tl.arange(0, BLOCK_I)
    is_column = columns < SIZE
    gate_ptrs = gate_up_ptr + token * stride_t + columns * stride_i
    gate = tl.load(gate_ptrs, mask=is_column).to(tl.float32)
    up = tl.load(gate_ptrs + SIZE * stride_i, mask=is_column).to(tl.float32)
    out = gate * tl.sigmoid(gate) * up
    tl.store(out_ptr + token * SIZE + columns, out.to(out_ptr.dtype.element_ty), mask=is_column)


def silu_and_mul(
    gate_up: Float[Tensor, "num_tokens gate_up_size"],
) -> Float[Tensor, "num_tokens gate_up_size//2"]:
    """`silu(gate) * up` for the two halves of each row. Any strides."""
    num_tokens, size = len(gate_up), gate_up.shape[1] // 2
    out = torch.empty((num_tokens, size), dtype=gate_up.dtype, device=gate_up.device)
    if num_tokens > 0:
        launch(
            _silu_and_mul, (num_tokens, -(-size // _BLOCK_I)),
            gate_up, out, *gate_up.stride(), SIZE=size, BLOCK_I=_BLOCK_I, num_warps=4,
        )  # fmt: skip
    return out
