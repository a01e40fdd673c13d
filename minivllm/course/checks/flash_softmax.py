"""Chapter 05: the running maximum and sum of a row."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import (
    Exercise,
    Output,
    Rules,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Arguments

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]
HIDDEN = -math.inf


def _stream(scores: Tensor, tile: int) -> Iterator[Tensor]:
    """The tiles, one by one; each is poisoned when the next one comes."""
    for part in scores.split(tile, dim=-1):
        buffer = part.clone()
        yield buffer
        buffer.fill_(math.nan)


def _streamed(max_and_sum: _Mine, scores: Tensor, tile: int) -> Any:
    return max_and_sum(_stream(scores, tile))


def _whole(scores: Tensor, tile: int) -> tuple[Tensor, Tensor]:
    row_max = scores.amax(-1)
    return row_max, safe_exp(scores.logsumexp(-1) - row_max)


def safe_exp(x: Tensor) -> Tensor:
    """`exp`, and 0 for the NaN of `-inf - -inf`."""
    return torch.exp(x).nan_to_num(0.0)


def _rows(num_rows: int, num_keys: int, tile: int, scale: float = 1.0, shift: float = 0.0) -> _Make:
    def made(gen: torch.Generator) -> Arguments:
        scores = scale * torch.randn(num_rows, num_keys, generator=gen) + shift
        return {"scores": scores, "tile": tile}

    return made


def _ramp(slope: float) -> _Make:
    """Scores that rise from key to key, or fall."""

    def made(gen: torch.Generator) -> Arguments:
        noise = torch.rand(3, 22, generator=gen)
        return {"scores": slope * torch.arange(22) - 11 * slope + noise, "tile": 4}

    return made


def _with_hidden(gen: torch.Generator) -> Arguments:
    """Rows whose first tile, middle tile, last tile or whole is hidden, and one with holes."""
    scores = torch.randn(6, 15, generator=gen)
    for row, places in enumerate(((0, 4), (4, 12), (12, 15), (0, 15), (0, 9))):
        scores[row, slice(*places)] = HIDDEN
    scores[5, ::3] = HIDDEN
    return {"scores": scores, "tile": 4}


def _far_apart(gen: torch.Generator) -> Arguments:
    """Rows around 200, 0, -200 and -20,000: no number suits them all."""
    heights = torch.tensor([200.0, 0.0, -200.0, -20_000.0])
    return {"scores": torch.randn(4, 22, generator=gen) + heights[:, None], "tile": 4}


def _equal_scores(gen: torch.Generator) -> Arguments:
    """Whole numbers from 0 to 3: the maximum is often there twice, in a tile and in two tiles."""
    scores = torch.randint(4, (5, 18), generator=gen).float()
    scores[:, 1] = scores[:, 0]
    return {"scores": scores, "tile": 4}


def _hidden_for_all(gen: torch.Generator) -> Arguments:
    """The second of four tiles is hidden in every row."""
    scores = torch.randn(3, 16, generator=gen)
    scores[:, 4:8] = HIDDEN
    return {"scores": scores, "tile": 4}


def _hand_rows() -> Arguments:
    return {"scores": torch.tensor([[1.0, 2.0, 4.0, 1.0, 8.0]]).log(), "tile": 2}


max_and_sum = Exercise(
    id="ch05.max_and_sum",
    run=_streamed,
    outputs=(
        Output("row_max", axes="row", dtype=torch.float32),
        Output("row_sum", axes="row", dtype=torch.float32),
    ),
    oracle=_whole,
    cases=(
        by_hand(
            "ln of 1, 2 | 4, 1 | 8: the maximum is ln 8, the sum 16 / 8",
            _hand_rows,
            (torch.tensor([math.log(8)]), torch.tensor([2.0])),
        ),
        sampled("random rows, a whole number of tiles", _rows(7, 20, 4, scale=3.0)),
        sampled("a last tile that is narrower", _rows(5, 23, 4, scale=3.0)),
        adversarial("one tile holds the whole row", _rows(3, 9, 16)),
        adversarial("tiles of one score", _rows(3, 9, 1, scale=2.0)),
        adversarial("the maximum grows from tile to tile", _ramp(2.0)),
        adversarial("the maximum is in the first tile", _ramp(-2.0)),
        adversarial("scores of 200 do not overflow", _rows(4, 22, 4, shift=200.0)),
        adversarial("scores of -200 do not vanish", _rows(4, 22, 4, shift=-200.0)),
        adversarial(
            "rows around 200 and around -20,000",
            _far_apart,
            look_at="what is subtracted from a row: its own maximum, which begins at -inf",
        ),
        adversarial(
            "equal scores count each time",
            _equal_scores,
            look_at="what a tile adds: exp(0) = 1 for each score that equals the maximum",
            try_it="tiles [0, 0] and [0]: the maximum is 0, the sum 3",
        ),
        adversarial(
            "hidden tiles, and a row with nothing else",
            _with_hidden,
            look_at="what is subtracted where the maximum is still -inf: -inf - -inf is NaN",
            try_it="one row, tiles [-inf, -inf] and [0, 0]: the maximum is 0, the sum 2",
        ),
        adversarial(
            "a tile that is hidden in every row, and more after it",
            _hidden_for_all,
            look_at="a hidden tile: it adds 0, and the tiles after it count",
            try_it="tiles [0], [-inf] and [0]: the maximum is 0, the sum 2",
        ),
        adversarial("a long row", _rows(6, 96, 8, scale=3.0)),
    ),
    rules=Rules(max_elements=lambda a: 2 * len(a["scores"]) * a["tile"], on="a long row"),
    hints=(
        "When a tile brings a larger maximum, what was summed up before was measured against a "
        "smaller one. By which factor is it too large now?",
        "Per tile: the new maximum (torch.maximum, amax), then the old sum times "
        "exp(old maximum - new maximum), then the tile's own exponentials. Where the maximum is "
        "-inf, subtract 0 instead.",
        "Scores ln 1, ln 2, then ln 4, ln 1. After the first tile: maximum ln 2, sum 1/2 + 1. The "
        "second brings ln 4: the old sum becomes 3/4, and 1 + 1/4 come on top: 2.",
    ),
    look_at="for each tile: the new maximum, the factor of the old sum, what the tile adds",
    try_it="tiles [0] and [ln 2]: the maximum is ln 2 and the sum 1/2 + 1",
)
