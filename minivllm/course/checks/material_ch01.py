"""What the checks of chapter 01 are made of: right answers and inputs.

The right answers are written plainly, in the dtype that they are given. `wide` is the one
concession: what comes in float16 is computed in float32, because a right answer does so too.
Next file to read: `ch01.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor

from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

Make = Callable[[torch.Generator], Arguments]
Mine = Callable[..., Any]

SQUARES_OVERFLOW = "the dtype in which the squares are taken: 300 * 300 is beyond float16"
TRY_FLOAT16 = "torch.tensor(300., dtype=torch.float16) ** 2"
TRY_EPS_OF_SUM = "x = [[1e-3, 7e-3]], residual 0, eps 1e-5: sqrt(25e-6 + 1e-5) is 5.9e-3"
LAST_LINE = "the last line: the result goes back to x.dtype"


def wide(x: Tensor) -> Tensor:
    """In float32, or as it is if it has more."""
    return x if x.dtype == torch.float64 else x.float()


# --- right answers -------------------------------------------------------------------------------


def norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """`x / sqrt(mean(x * x) + eps) * weight`."""
    root = (wide(x).pow(2).sum(-1, keepdim=True) / x.shape[-1] + eps).sqrt()
    return (wide(x) / root).to(x.dtype) * weight


def add_norm(x: Tensor, residual: Tensor, weight: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The norm of a sum, and the sum."""
    return norm(x + residual, weight, eps), x + residual


def turned(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """RoPE, half by half."""
    half = x.shape[-1] // 2
    speeds = torch.tensor([theta ** (-i / half) for i in range(half)], dtype=wide(x).dtype)
    angles = positions[:, None, None] * speeds
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    out = torch.empty_like(x)
    out[..., :half] = x[..., :half] * cos - x[..., half:] * sin
    out[..., half:] = x[..., half:] * cos + x[..., :half] * sin
    return out


def split(
    qkv: Tensor,
    num_heads: int,
    num_kv_heads: int,
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The heads of a fused row, cut out one by one."""
    size = len(q_weight)

    def heads(first: int, number: int) -> Tensor:
        columns = ((first + i) * size for i in range(number))
        return torch.stack([qkv[:, start : start + size] for start in columns], dim=1)

    q, k = heads(0, num_heads), heads(num_heads, num_kv_heads)
    v = heads(num_heads + num_kv_heads, num_kv_heads)
    return norm(q, q_weight, eps), norm(k, k_weight, eps), v


def gated(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    """The gate and the value of each unit, then down."""
    size = len(gate_up_weight) // 2
    gate, up = x @ gate_up_weight[:size].T, x @ gate_up_weight[size:].T
    return (gate * torch.sigmoid(gate) * up) @ down_weight.T


# --- inputs --------------------------------------------------------------------------------------


def randn(gen: torch.Generator, *shape: int) -> Tensor:
    """Random numbers whose mean is not 0."""
    return torch.randn(shape, generator=gen) + 0.3


def rows(gen: torch.Generator) -> Arguments:
    """Of `rms_norm`: five tokens."""
    weight = torch.rand(12, generator=gen) + 0.5
    return {"x": 4 * randn(gen, 5, 12), "weight": weight, "eps": 1e-6}


def one_row(gen: torch.Generator) -> Arguments:
    """Of `rms_norm`: a single row without an axis for the tokens."""
    arguments = rows(gen)
    return arguments | {"x": arguments["x"][0]}


def some_heads(gen: torch.Generator) -> Arguments:
    """Of `rms_norm`: three of eight heads of each token, a view that is not contiguous."""
    return rows(gen) | {"x": randn(gen, 5, 8, 12)[:, 2:5]}


def zero_row(gen: torch.Generator) -> Arguments:
    """Of `rms_norm`: one of the tokens is all zeros."""
    arguments = rows(gen)
    arguments["x"][2] = 0.0
    return arguments


def summed(gen: torch.Generator) -> Arguments:
    """Of `add_rms_norm`: five tokens."""
    two = {"x": 4 * randn(gen, 5, 12), "residual": 8 * randn(gen, 5, 12)}
    return two | {name: value for name, value in rows(gen).items() if name != "x"}


def cancelled(gen: torch.Generator) -> Arguments:
    """Of `add_rms_norm`: the sum of one token is all zeros."""
    arguments = summed(gen)
    arguments["residual"][2] = -arguments["x"][2]
    return arguments


def heads_at(positions: Sequence[int], theta: float = 1e4, head_dim: int = 16) -> Make:
    """Of `rope`: six heads for each position."""
    return lambda gen: {
        "x": randn(gen, len(positions), 6, head_dim),
        "positions": torch.tensor(positions),
        "theta": theta,
    }


def key_heads(gen: torch.Generator) -> Arguments:
    """Of `rope`: four of twelve heads, a view that is not contiguous."""
    arguments = heads_at([5, 6, 0, 90])(gen)
    return arguments | {"x": torch.cat((arguments["x"],) * 2, dim=1)[:, 4:8]}


def fused(num_heads: int = 6, num_kv_heads: int = 2) -> Make:
    """Of `split_qkv`; heads of unequal size: one norm over all of them gives other numbers."""

    def make(gen: torch.Generator) -> Arguments:
        num_all = num_heads + 2 * num_kv_heads
        heads = randn(gen, 5, num_all, 8) * (1 + torch.arange(num_all))[:, None]
        return {
            "qkv": heads.flatten(1),
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "q_weight": torch.rand(8, generator=gen) + 0.5,
            "k_weight": torch.rand(8, generator=gen) + 2.0,
            "eps": 1e-6,
        }

    return make


def mlp(gen: torch.Generator) -> Arguments:
    """Of `swiglu`: eight inputs, twelve units."""
    return {
        "x": randn(gen, 5, 8),
        "gate_up_weight": randn(gen, 24, 8),
        "down_weight": randn(gen, 8, 12),
    }


def valves(*gates: float, value: float) -> Make:
    """Of `swiglu`: gates of these sizes for four units, and the value of each unit."""
    return lambda gen: {
        "x": torch.cat(
            (
                torch.tensor(list(islice(cycle(gates), 20))).reshape(5, 4),
                torch.full((5, 4), value),
            ),
            dim=-1,
        ),
        "gate_up_weight": torch.eye(8),
        "down_weight": randn(gen, 8, 4),
    }


def scaled(make: Make, factor: float, eps: float = 1e-6, names: tuple[str, ...] = ("x",)) -> Make:
    """The same arguments, those named multiplied, and another eps."""

    def made(gen: torch.Generator) -> Arguments:
        arguments = make(gen)
        return arguments | {name: factor * arguments[name] for name in names} | {"eps": eps}

    return made


def in_dtype(dtype: torch.dtype, make: Make) -> Make:
    """The same arguments with every floating-point tensor in `dtype`."""

    def made(gen: torch.Generator) -> Arguments:
        found = make(gen).items()
        return {name: value.to(dtype) if _is_float(value) else value for name, value in found}

    return made


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def with_gaps(make: Make, *names: str) -> Make:
    """The same arguments, those named as every second column of a wider tensor."""
    return lambda gen: {k: strided(v) if k in names else v for k, v in make(gen).items()}


def transposed(make: Make, name: str) -> Make:
    """The same arguments, one as the transpose of a product, as `layers.linear.matmul` gives it."""
    return lambda gen: {k: v.T.contiguous().T if k == name else v for k, v in make(gen).items()}


def alone(make: Make, *names: str) -> Callable[[Mine, torch.Generator], tuple[Any, Any]]:
    """The results of the second token in a step, and when it comes alone; `names` have its rows."""

    def pair(function: Mine, gen: torch.Generator) -> tuple[Any, Any]:
        arguments = make(gen)
        single = function(**{k: v[1:2].clone() if k in names else v for k, v in arguments.items()})
        together = function(**arguments)
        if isinstance(together, tuple):
            return tuple(part[1:2] for part in together), single
        return together[1:2], single

    return pair


def per_head(rms_norm: Mine, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    """Four heads for each token at once, and one head after the other."""
    heads, weight = randn(gen, 3, 4, 12), torch.rand(12, generator=gen) + 0.5
    one_by_one = [rms_norm(head, weight, 1e-6) for head in heads.unbind(1)]
    return rms_norm(heads, weight, 1e-6), torch.stack(one_by_one, dim=1)
