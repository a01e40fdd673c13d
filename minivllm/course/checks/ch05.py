"""Chapter 05: running maximum and sum, one tile more, the tiled forward pass, two halves merged."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.checks import flash_add_tile, flash_merge, flash_softmax
from minivllm.course.checks import flash_forward as forward_checks
from minivllm.course.checks.flash_parts import merge_outputs
from minivllm.course.declare import Detective

max_and_sum = flash_softmax.max_and_sum
add_tile = flash_add_tile.add_tile
flash_forward = forward_checks.flash_forward
merge = flash_merge.merge

LOG2_E = 1 / math.log(2)


def attend(q: Tensor, k: Tensor, v: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp; a GPU computes 2 ** x faster than e ** x = 2 ** (x * LOG2_E)."""
    queries = q * (q.shape[-1] ** -0.5 * LOG2_E)
    row_max = torch.full((len(q),), -math.inf)
    row_sum, acc = torch.zeros(len(q)), torch.zeros(len(q), v.shape[-1])
    for first in range(0, len(k), tile):
        scores = queries @ k[first : first + tile].T
        new_max = torch.maximum(row_max, scores.amax(-1))
        correction = torch.exp2(row_max - new_max)
        weights = torch.exp2(scores - new_max[:, None])
        row_sum = row_sum * correction + weights.sum(-1)
        acc = acc * correction[:, None] + weights @ v[first : first + tile]
        row_max = new_max
    lse = row_max + row_sum.log()
    return acc / row_sum[:, None], lse


def _shows_in_halves(function: Callable[..., Any]) -> bool:
    """Whether two halves, merged, differ from the whole."""
    gen = torch.Generator().manual_seed(0)
    q, k, v = (2 * torch.randn(n, 8, generator=gen) for n in (5, 12, 12))
    whole, _ = function(q, k, v, 4)
    merged, _ = merge_outputs(*function(q, k[:7], v[:7], 4), *function(q, k[7:], v[7:], 4))
    return not torch.allclose(merged, whole, atol=1e-4)


detective = Detective(
    id="ch05.detective",
    listing=attend,
    culprit="lse = row_max",
    fix="    lse = (row_max + row_sum.log2()) / LOG2_E",
    shows_bug=_shows_in_halves,
    reasons={
        "a": "the maximum is the last tile's, not that of the whole row",
        "b": "the maximum counts in powers of 2, the logarithm in powers of e",
        "c": "weights that are powers of 2 are no softmax",
        "d": "the accumulator is divided by a sum that was not rescaled",
    },
    right="b",
    explain={
        "a": "torch.maximum keeps the larger of old and new: the maximum of all tiles so far.",
        "c": "The scores are multiplied by log2(e) first, and 2 ** (x * log2(e)) is e ** x.",
        "d": "Sum and accumulator are both multiplied by the correction. The output is right.",
    },
    lines={
        "queries = q": "head_dim ** -0.5, and log2(e) so that powers of 2 can be used",
        "row_max = torch.full": "nothing has been seen: -inf is right",
        "row_sum, acc": "sums begin at 0",
        "for first": "the last slice ends where the keys end",
        "scores = ": "scores times log2(e): the factor is in the queries already",
        "new_max = ": "the maximum of all tiles so far",
        "correction = ": "scores and maxima count in powers of 2, and so does this",
        "weights = ": "2 ** (x * log2(e)) is e ** x: the weights are right",
        "row_sum = row_sum": "rescaled, then the tile is added",
        "acc = acc": "rescaled, then the tile is added",
        "row_max = new_max": "after its last use: right",
        "return": "the output is right, as the symptom says",
        "def ": "the signature is right",
        '"""': "the docstring is right, and says what the factor is for",
    },
    hints=(
        "The outputs are right, for the whole and for each half. What else goes into a merge?",
        "Try one key with score s: then the log-sum-exp must be s itself. What does it give?",
        "With one key row_sum is 1 and its logarithm 0. row_max is the score times log2(e). In "
        "which unit is it, and in which is the other summand?",
    ),
)
