"""Compares what came back with what is right, and says how far apart they may be.

The right answer is computed in float64. How far a float32 answer may be from it is not a constant:
a right float32 implementation is asked too, and its own error, with some room, is what is allowed.
Next file to read: `diagnose.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

Problem = Literal["type", "shape", "dtype", "device", "nonfinite", "value"]

ROOM_FLOAT32 = 4.0  # times the reference's own error: another right order of sums may cost more
ROOM_LOW_PRECISION = 2.0
ULPS = 8.0  # of the largest value in a row; below this, a reference is right by luck
ULPS_LOW_PRECISION = 1.0


@dataclass(frozen=True, kw_only=True)
class Mismatch:
    """The first thing that is wrong with a value.

    Attributes:
        problem: What.
        got: What came back.
        expected: What is right; of a tensor, in float64.
        wrong: Of tensors of equal shape: the places that are wrong.
        allowed: The largest difference that is allowed, over all places.
    """

    problem: Problem
    got: Any
    expected: Any
    wrong: Tensor | None = None
    allowed: float = 0.0


def allowed_error(expected: Tensor, reference: Tensor) -> Tensor:
    """How far from `expected` each place may be, judged by a right answer in the dtype of the case.

    Args:
        expected: The right answer, in float64.
        reference: A right answer in the precision that is being checked.
    """
    if not reference.is_floating_point():
        return torch.zeros_like(expected)
    is_low = torch.finfo(reference.dtype).bits < 32
    room, ulps = (ROOM_LOW_PRECISION, ULPS_LOW_PRECISION) if is_low else (ROOM_FLOAT32, ULPS)
    exact, found = finite(expected), reference.to(torch.float64)
    error = torch.where(torch.isfinite(expected), found - expected, 0.0).abs()
    assert bool(torch.isfinite(error).all()), "the reference overflows: give it another"
    largest_error = error.max().item() if error.numel() else 0.0
    size = exact.abs().amax(-1, keepdim=True) if exact.dim() and exact.numel() else exact.abs()
    return (room * largest_error + ulps * torch.finfo(reference.dtype).eps * size).expand_as(exact)


def finite(x: Tensor) -> Tensor:
    """A copy with 0 for what is NaN or infinite."""
    return torch.nan_to_num(x, nan=0.0, posinf=0.0, neginf=0.0)


def unexpected_nonfinite(got: Tensor, expected: Tensor) -> Tensor:
    """Where NaN or infinity came instead of a number.

    Where -inf is a right answer somewhere (a token that may not be drawn), it is an ordinary wrong
    one elsewhere.
    """
    bad = ~torch.isfinite(got) & torch.isfinite(expected)
    if bool(torch.isneginf(expected).any()):
        bad &= ~torch.isneginf(got)
    return bad


def wrong_places(got: Tensor, expected: Tensor, allowed: Tensor) -> Tensor:
    """Where two tensors of the same shape differ: NaN is equal to NaN, and infinity to itself."""
    if not expected.is_floating_point():
        return got != expected
    found = got.to(torch.float64)
    is_same = (found == expected) | (found.isnan() & expected.isnan())
    return ~(is_same | ((found - expected).abs() <= allowed))


def compare_tensor(
    got: Any, expected: Tensor, allowed: Tensor, dtypes: tuple[torch.dtype, ...]
) -> Mismatch | None:
    """What is wrong with `got`, the coarsest first; `None` if nothing is.

    Args:
        got: What the learner's code gave.
        expected: The right answer, in float64, or an integer tensor.
        allowed: Of each place; unused for integers.
        dtypes: Those that are right; empty if any will do.
    """
    if not isinstance(got, Tensor):
        return Mismatch(problem="type", got=got, expected=expected)
    if got.shape != expected.shape:
        return Mismatch(problem="shape", got=got, expected=expected)
    if dtypes and got.dtype not in dtypes:
        return Mismatch(problem="dtype", got=got, expected=dtypes)
    if got.device != expected.device:
        return Mismatch(problem="device", got=got, expected=expected)
    wrong = wrong_places(got, expected, allowed)
    if not bool(wrong.any()):
        return None
    is_unexpected = unexpected_nonfinite(got, expected) & wrong
    return Mismatch(
        problem="nonfinite" if bool(is_unexpected.any()) else "value",
        got=got,
        expected=expected,
        wrong=is_unexpected if bool(is_unexpected.any()) else wrong,
        allowed=allowed.max().item() if allowed.numel() else 0.0,
    )


def equal_values(got: Any, expected: Any) -> bool:
    """Whether two values of any kind are the same, types included (1 is neither True nor 1.0)."""
    if isinstance(expected, Tensor):
        is_tensor = isinstance(got, Tensor) and got.shape == expected.shape
        return is_tensor and got.dtype == expected.dtype and bool(_same_or_nan(got, expected).all())
    if type(got) is not type(expected):
        return False
    if isinstance(expected, list | tuple):
        pairs = zip(got, expected, strict=False)
        return len(got) == len(expected) and all(equal_values(a, b) for a, b in pairs)
    if isinstance(expected, dict):
        return got.keys() == expected.keys() and all(
            equal_values(got[key], expected[key]) for key in expected
        )
    if isinstance(expected, float):
        is_close = math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12)
        return is_close or (math.isnan(got) and math.isnan(expected))
    return bool(got == expected)


def _same_or_nan(a: Tensor, b: Tensor) -> Tensor:
    return (a == b) | (a.isnan() & b.isnan()) if a.is_floating_point() else a == b


def compare_value(got: Any, expected: Any) -> Mismatch | None:
    """What is wrong with a value that is no tensor."""
    if equal_values(got, expected):
        return None
    problem: Problem = "value" if type(got) is type(expected) else "type"
    return Mismatch(problem=problem, got=got, expected=expected)
