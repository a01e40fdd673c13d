"""Chapter 01, layers: RMSNorm, RoPE, the split of a fused qkv row, SwiGLU.

A step's tokens come in one after the other, whichever request they belong to: `x` has one row for
each token, and `positions` says where in its own request each of them stands.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.errors import ExerciseNotStarted


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Each row of `x` divided by its root mean square, then times `weight`.

    Computed in float32 and given back in the dtype of `x`: the square of 300 is too large for
    float16.

    Args:
        x: `[..., size]`; a row is what lies along the last axis.
        weight: `[size]`, in the dtype of `x`.
        eps: Added to the mean of the squares, before the root.
    """
    raise ExerciseNotStarted("ch01.rms_norm")


def add_rms_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm of `x + residual`, and the sum itself: the new residual.

    Neither argument is changed.

    Args:
        x: `[num_tokens, size]`, what the part before has computed.
        residual: `[num_tokens, size]`, the sum of all that came before.
        weight: `[size]`, in the dtype of `x`.
        eps: As in `rms_norm`, which you may call (or `F.rms_norm`).
    """
    raise ExerciseNotStarted("ch01.add_rms_norm")


def rope(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """The heads of each token, turned by angles that grow with the token's position.

    Elements `i` and `i + head_dim / 2` of a head are the two coordinates of pair `i`. At position
    `p` it is turned by `p * theta ** (-2 * i / head_dim)` radians. The angles are float32, the
    result has the dtype of `x`.

    Args:
        x: `[num_tokens, num_heads, head_dim]`.
        positions: `[num_tokens]`, whole numbers in any order: `[7, 3, 100]`.
        theta: What the speeds are powers of: 10,000 or more.
    """
    raise ExerciseNotStarted("ch01.rope")


def split_qkv(
    qkv: Tensor,
    num_heads: int,
    num_kv_heads: int,
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value heads of a fused row; each query and key head normalised by itself.

    Args:
        qkv: `[num_tokens, (num_heads + 2 * num_kv_heads) * head_dim]`: all query heads, then all
            key heads, then all value heads.
        num_heads: Query heads.
        num_kv_heads: Key heads, and value heads: often fewer than query heads.
        q_weight: `[head_dim]`, for the RMSNorm of each query head.
        k_weight: `[head_dim]`, for the RMSNorm of each key head.
        eps: As in `rms_norm`, which you may call (or `F.rms_norm`).

    Returns:
        Three tensors `[num_tokens, heads, head_dim]`.
    """
    raise ExerciseNotStarted("ch01.split_qkv")


def swiglu(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    """`down(silu(gate) * up)`, where one product gives gate and up, and `silu(a) = a * sigmoid(a)`.

    Args:
        x: `[num_tokens, hidden_size]`.
        gate_up_weight: `[2 * intermediate_size, hidden_size]`: all gate rows, then all up rows.
        down_weight: `[hidden_size, intermediate_size]`.

    Returns:
        `[num_tokens, hidden_size]`, in the dtype of `x`: float16, too, where `exp(12)` is infinite.
    """
    raise ExerciseNotStarted("ch01.swiglu")


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    raise ExerciseNotStarted("ch01.detective")
