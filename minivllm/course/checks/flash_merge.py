"""Chapter 05: two halves made one by their log-sum-exps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]


def _merged(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Each half times its share of the whole sum, `exp(lse_half - lse)`."""
    lse = torch.stack((lse_a, lse_b)).logsumexp(0)
    wide = torch.promote_types(out_a.dtype, torch.float32)
    shares = [torch.exp(x - lse).nan_to_num(0.0)[..., None] for x in (lse_a, lse_b)]
    return (shares[0] * out_a.to(wide) + shares[1] * out_b.to(wide)).to(out_a.dtype), lse


def _two_halves(scale: float = 2.0, shift: tuple[float, float] = (0.0, 0.0)) -> _Make:
    """Three heads, five queries, outputs of 4 numbers."""

    def made(gen: torch.Generator) -> Arguments:
        return {
            "out_a": torch.randn(3, 5, 4, generator=gen),
            "lse_a": scale * torch.randn(3, 5, generator=gen) + shift[0],
            "out_b": torch.randn(3, 5, 4, generator=gen) + 1,
            "lse_b": scale * torch.randn(3, 5, generator=gen) + shift[1],
        }

    return made


def _empty_halves(gen: torch.Generator) -> Arguments:
    """Queries with an empty first half, an empty second one, and nothing at all."""
    arguments = _two_halves()(gen)
    for half, rows in (("a", [0, 2]), ("b", [1, 2])):
        arguments[f"lse_{half}"][:, rows] = -math.inf
        arguments[f"out_{half}"][:, rows] = 0.0
    return arguments


def _far_apart(gen: torch.Generator) -> Arguments:
    """Queries whose log-sum-exps are around 200, 0 and -200."""
    arguments = _two_halves()(gen)
    heights = torch.tensor([200.0, 190.0, 0.0, -190.0, -200.0])
    return arguments | {name: arguments[name] + heights for name in ("lse_a", "lse_b")}


def _cancelling(gen: torch.Generator) -> Arguments:
    """Outputs around 8 and -8 with about the same weight."""
    arguments = _two_halves(scale=0.1)(gen)
    return arguments | {
        "out_a": (arguments["out_a"] + 8).half(),
        "out_b": (arguments["out_b"] - 9).half(),
    }


def _one_query(gen: torch.Generator) -> Arguments:
    return {name: x[0] for name, x in _two_halves()(gen).items()}


def _strided_halves(gen: torch.Generator) -> Arguments:
    return {name: strided(x) for name, x in _two_halves()(gen).items()}


def _hand_halves() -> Arguments:
    """The keys 1, 2 with the values 8, 4, and the keys 4, 1, 8 with 2, 16, 3."""
    return {
        "out_a": torch.tensor([[[16 / 3]]]),
        "lse_a": torch.tensor([[3.0]]).log(),
        "out_b": torch.tensor([[[48 / 13]]]),
        "lse_b": torch.tensor([[13.0]]).log(),
    }


def _other_order(merge: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    a = _empty_halves(gen)
    swapped = (a["out_b"], a["lse_b"], a["out_a"], a["lse_a"])
    return merge(*a.values()), merge(*swapped)


def _three_parts(merge: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Three parts, merged from the left and from the right."""
    a, c = _two_halves()(gen), _two_halves(shift=(5.0, -5.0))(gen)
    first, second = (a["out_a"], a["lse_a"]), (a["out_b"], a["lse_b"])
    third = (c["out_a"], c["lse_a"])
    return merge(*merge(*first, *second), *third), merge(*first, *merge(*second, *third))


merge = Exercise(
    id="ch05.merge",
    outputs=(
        Output("out", axes="head query dim"),
        Output("lse", axes="head query", dtype=torch.float32),
    ),
    oracle=_merged,
    cases=(
        by_hand(
            "sums of 3 and 13: the output is 4, the log-sum-exp ln 16",
            _hand_halves,
            (torch.tensor([[[4.0]]]), torch.tensor([[16.0]]).log()),
        ),
        sampled("random halves", _two_halves()),
        adversarial("the first half weighs nearly everything", _two_halves(shift=(30.0, 0.0))),
        adversarial("log-sum-exps of 200 do not overflow", _two_halves(shift=(200.0, 201.0))),
        adversarial("log-sum-exps of -200 do not vanish", _two_halves(shift=(-201.0, -200.0))),
        adversarial(
            "queries with log-sum-exps of 200 and of -200",
            _far_apart,
            look_at="what is subtracted: each query has its own",
        ),
        adversarial(
            "empty halves",
            _empty_halves,
            look_at="what is subtracted where both log-sum-exps are -inf",
            try_it="both outputs 0, both log-sum-exps -inf: the same comes back",
        ),
        adversarial("without an axis for heads", _one_query),
        adversarial("outputs in float16 that nearly cancel", _cancelling),
        adversarial("tensors that are not contiguous", _strided_halves),
    ),
    properties=(
        Property("the order of the halves does not matter", _other_order),
        Property("three parts: which two are merged first does not matter", _three_parts),
    ),
    hints=(
        "exp of a log-sum-exp is the sum of a half's exponentials. How much of the whole sum is in "
        "each half?",
        "The whole log-sum-exp is torch.logaddexp of both. A half's weight is exp of its own minus "
        "the whole; it needs one more axis to be multiplied with the output. -inf - -inf is NaN.",
        "Sums of 3 and 13: the weights are 3/16 and 13/16. Outputs of 16/3 and 48/13 give "
        "(16 + 48) / 16 = 4.",
    ),
    look_at="the two weights: they are positive and their sum is 1",
    try_it="lse 0 and 0: both halves weigh the same, so out is the mean and lse is ln 2",
)
