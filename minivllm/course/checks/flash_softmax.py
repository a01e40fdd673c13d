"""Chapter 05: the running maximum and sum of a row, and one tile more."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import (
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

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
    return row_max, _exp(scores.logsumexp(-1) - row_max)


def _exp(x: Tensor) -> Tensor:
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
            "hidden tiles, and a row with nothing else",
            _with_hidden,
            look_at="what is subtracted where the maximum is still -inf: -inf - -inf is NaN",
            try_it="one row, tiles [-inf, -inf] and [0, 0]: the maximum is 0, the sum 2",
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
    look_at="the line that takes the old sum over, and the two maxima in its exponent",
    try_it="tiles [0] and [ln 2]: the maximum is ln 2 and the sum 1/2 + 1",
)


def _softmax_so_far(
    row_max: Tensor, row_sum: Tensor, acc: Tensor, scores: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as if what was seen were one key with the score `row_max + log(row_sum)`."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    new_max = torch.cat((row_max[..., None], scores), -1).amax(-1)
    old, new = _exp(row_max - new_max), _exp(scores - new_max[..., None])
    new_acc = old[..., None] * acc + torch.einsum("...qk,...kd->...qd", new, values.to(wide))
    return new_max, old * row_sum + new.sum(-1), new_acc


def _state(
    *lead: int,
    num_queries: int = 5,
    tile: int = 4,
    scale: float = 2.0,
    shift: tuple[float, float] = (0.0, 0.0),
    dtype: torch.dtype = torch.float32,
) -> _Make:
    """A state in the middle of a row, and a tile; heads of 6.

    `shift` is added to the maximum and to the scores.
    """

    def made(gen: torch.Generator) -> Arguments:
        rows = (*lead, num_queries)
        return {
            "row_max": scale * torch.randn(rows, generator=gen) + shift[0],
            "row_sum": 1 + 3 * torch.rand(rows, generator=gen),
            "acc": 2 * torch.randn(*rows, 6, generator=gen),
            "scores": scale * torch.randn(*rows, tile, generator=gen) + shift[1],
            "values": (torch.randn(*lead, tile, 6, generator=gen) + 0.5).to(dtype),
        }

    return made


def _fresh(gen: torch.Generator) -> Arguments:
    """The first tile of a row; the last two queries see nothing of it."""
    arguments = _state(3)(gen)
    arguments["row_max"].fill_(HIDDEN)
    arguments["row_sum"].zero_()
    arguments["acc"].zero_()
    arguments["scores"][:, 3:] = HIDDEN
    arguments["scores"][:, 0, 1:] = HIDDEN
    return arguments


def _hidden_tile(gen: torch.Generator) -> Arguments:
    """Queries that have seen something before, and see nothing of this tile."""
    arguments = _state(2)(gen)
    arguments["scores"][:, 1:3] = HIDDEN
    arguments["scores"][:, 4, ::2] = HIDDEN
    return arguments


def _strided_state(gen: torch.Generator) -> Arguments:
    return {name: strided(x) for name, x in _state(2)(gen).items()}


def _hand_state() -> Arguments:
    """After the keys 1, 2 with the values 8, 4: now the keys 4, 1 with the values 2, 16."""
    return {
        "row_max": torch.tensor([[2.0]]).log(),
        "row_sum": torch.tensor([[1.5]]),
        "acc": torch.tensor([[[8.0]]]),
        "scores": torch.tensor([[[4.0, 1.0]]]).log(),
        "values": torch.tensor([[[2.0], [16.0]]]),
    }


def _start(rows: Sequence[int], head_dim: int) -> tuple[Tensor, Tensor, Tensor]:
    return torch.full(rows, HIDDEN), torch.zeros(rows), torch.zeros(*rows, head_dim)


def _at_once(add_tile: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Twelve keys in one tile, and in tiles of 3: the output and the log-sum-exp."""
    arguments = _state(2, tile=12, scale=4.0)(gen)
    scores, values = arguments["scores"], arguments["values"]
    results = []
    for tile in (3, 12):
        state = _start((2, 5), 6)
        for part, rows in zip(scores.split(tile, -1), values.split(tile, -2), strict=True):
            state = add_tile(*state, part, rows)
        results.append((state[0] + state[1].log(), state[1], state[2] / state[1][..., None]))
    return results[0], results[1]


add_tile = Exercise(
    id="ch05.add_tile",
    outputs=(
        Output("row_max", axes="head query", dtype=torch.float32),
        Output("row_sum", axes="head query", dtype=torch.float32),
        Output("acc", axes="head query dim", dtype=torch.float32),
    ),
    oracle=_softmax_so_far,
    cases=(
        by_hand(
            "ln of 1, 2, then 4, 1: the sum becomes 2, the accumulator 10",
            _hand_state,
            (torch.tensor([[4.0]]).log(), torch.tensor([[2.0]]), torch.tensor([[[10.0]]])),
        ),
        sampled("a tile in the middle of a row", _state(3)),
        sampled("one query, a wide tile", _state(2, num_queries=1, tile=17)),
        adversarial("the maximum grows", _state(2, shift=(-8.0, 3.0))),
        adversarial("the maximum stays", _state(2, shift=(12.0, 0.0))),
        adversarial("scores of 60 and more", _state(2, shift=(90.0, 95.0))),
        adversarial("all scores below -110", _state(2, shift=(-130.0, -128.0))),
        adversarial(
            "the first tile, of which some queries see nothing",
            _fresh,
            look_at="what is subtracted where the new maximum is -inf: -inf - -inf is NaN",
            try_it="row_max = -inf, scores all -inf: the state must stay -inf, 0 and 0",
        ),
        adversarial(
            "a later tile, of which some queries see nothing",
            _hidden_tile,
            look_at="a query with only -inf scores: its state must not change",
        ),
        adversarial("without an axis for heads", _state()),
        adversarial("values in float16", _state(2, tile=32, dtype=torch.float16)),
        adversarial("tensors that are not contiguous", _strided_state),
    ),
    properties=(
        Property(
            "tiles of 3 give what one tile of 12 gives",
            _at_once,
            look_at="the correction: sum and accumulator both need it, before the tile is added",
        ),
    ),
    rules=Rules(banned=("softmax", "logsumexp", "scaled_dot_product_attention")),
    hints=(
        "Three numbers belong to each query. Which of them depend on the maximum that was "
        "subtracted, and must change when it changes, even if the tile added nothing?",
        "new maximum; correction = exp of the old one minus the new one; weights = exp of the "
        "scores minus the new one. Sum and accumulator: old times correction, plus the tile's "
        "share. Where the new maximum is -inf, subtract 0.",
        "From maximum ln 2, sum 3/2, accumulator 8: the scores ln 4, ln 1 with values 2, 16 give "
        "correction 1/2, weights 1 and 1/4, sum 3/4 + 5/4, accumulator 4 + 2 + 4.",
    ),
    look_at="the correction, and each place where it must be multiplied in",
    try_it="state (0, 1, [3]), scores [ln 2], values [[6]]: (ln 2, 1.5, [7.5])",
)
