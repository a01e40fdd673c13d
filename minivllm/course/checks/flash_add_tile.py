"""Chapter 05: the state of a row after one tile more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.course.checks.flash_softmax import HIDDEN, safe_exp
from minivllm.course.declare import Exercise, Output, Property, Rules, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]


def _softmax_so_far(
    row_max: Tensor, row_sum: Tensor, acc: Tensor, scores: Tensor, values: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same as if what was seen were one key with the score `row_max + log(row_sum)`."""
    wide = torch.promote_types(scores.dtype, torch.float32)
    new_max = torch.cat((row_max[..., None], scores), -1).amax(-1)
    old, new = safe_exp(row_max - new_max), safe_exp(scores - new_max[..., None])
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


def _equal_maxima(gen: torch.Generator) -> Arguments:
    """Whole numbers from 0 to 2: the maximum is often there before, and twice in the tile."""
    arguments = _state(2)(gen)
    for name in ("row_max", "scores"):
        x = arguments[name]
        arguments[name] = torch.randint(3, x.shape, generator=gen).to(x.dtype)
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
        adversarial(
            "equal scores count each time",
            _equal_maxima,
            look_at="the weights: exp(0) = 1 for each score that equals the maximum",
            try_it="state (0, 1, [3]), scores [0, 0], values [[6], [6]]: (0, 3, [15])",
        ),
        adversarial(
            "without an axis for heads",
            _state(),
            look_at="axes counted from the left: from the right, -1 and -2, they hold for any",
        ),
        adversarial(
            "two axes before the queries",
            _state(2, 3),
            look_at="axes counted from the left: from the right, -1 and -2, they hold for any",
        ),
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
