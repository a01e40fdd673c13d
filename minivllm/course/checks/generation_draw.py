"""Chapter 04: the draw of a token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.counter_random import uniform
from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]


class Keep:
    """Top-p with a p for each row, as `sample` is given it."""

    def __init__(self, top_ps: Sequence[float]) -> None:
        self._top_ps = top_ps

    def __call__(self, scaled: Tensor) -> Tensor:
        """The logits with -inf for what is ruled out."""
        if scaled.dtype in (torch.float16, torch.bfloat16):
            raise ValueError(f"keep wants float32 logits, not {scaled.dtype}")
        if not scaled.isfinite().all():
            raise ValueError("keep wants finite logits: was a row divided by temperature 0?")
        if len(scaled) != len(self._top_ps):
            raise ValueError(f"keep wants all {len(self._top_ps)} rows, not {len(scaled)}")
        rows = [_smallest_set(row, p) for row, p in zip(scaled, self._top_ps, strict=True)]
        return torch.stack(rows)

    def only(self, row: int) -> Keep:
        """The same for one row."""
        return Keep(self._top_ps[row : row + 1])

    def __repr__(self) -> str:
        return "top-p"


class BanBest:
    """Rules out the most likely token of each row."""

    def __call__(self, scaled: Tensor) -> Tensor:
        """The logits with -inf for the largest."""
        return scaled.scatter(-1, scaled.argmax(-1, keepdim=True), float("-inf"))

    def __repr__(self) -> str:
        return "bans the best"


def _smallest_set(row: Tensor, p: float) -> Tensor:
    if p == 1:
        return row
    order = row.argsort(descending=True, stable=True)
    probs = row.double().softmax(-1)[order]
    token_ids = order[probs.cumsum(-1) - probs < p]
    return torch.full_like(row, float("-inf")).scatter(-1, token_ids, row[token_ids])


def drawn(
    logits: Tensor,
    temperatures: Tensor,
    keep: Callable[[Tensor], Tensor],
    seeds: Tensor,
    positions: Tensor,
) -> Tensor:
    """The oracle of `sample`: one row after the other."""
    logits = logits if logits.dtype == torch.float64 else logits.float()
    divided = (
        logits / torch.where(temperatures > 0, temperatures, torch.ones_like(temperatures))[:, None]
    )
    allowed, token_ids = keep(divided), []
    for row, temperature in enumerate(temperatures.tolist()):
        if temperature == 0:
            best = logits[row].max()
            token_ids.append(logits[row].tolist().index(best.item()))
            continue
        u = uniform(seeds[row : row + 1], positions[row : row + 1], logits.shape[-1])[0]
        token_ids.append(int((allowed[row] - (-u.double().log()).log()).argmax()))
    return torch.tensor(token_ids)


def _rows(
    temperatures: Sequence[float],
    top_ps: Sequence[float] | None = None,
    spread: float = 1.5,
    dtype: torch.dtype = torch.float32,
) -> _Make:
    """Random rows of 50 logits, each with its temperature, seed and position."""

    def made(gen: torch.Generator) -> Arguments:
        num_rows = len(temperatures)
        return {
            "logits": (spread * torch.randn(num_rows, 50, generator=gen) - 2.0).to(dtype),
            "temperatures": torch.tensor(temperatures),
            "keep": Keep(top_ps or [1.0] * num_rows),
            "seeds": torch.randint(-(2**40), 2**40, (num_rows,), generator=gen),
            "positions": torch.randint(1, 5000, (num_rows,), generator=gen),
        }

    return made


def _hand_draw() -> Arguments:
    """Row 0 is greedy; row 1 is so sure that no noise can change it; row 2 has one token left."""
    return {
        "logits": torch.tensor([[1.0, 3.0, 2.0], [0.0, 0.0, 90.0], [4.0, 3.0, 2.0]]),
        "temperatures": torch.tensor([0.0, 1.0, 2.0]),
        "keep": Keep([1.0, 1.0, 0.1]),
        "seeds": torch.tensor([5, 6, 7]),
        "positions": torch.tensor([9, 9, 9]),
    }


def _equals(gen: torch.Generator) -> Arguments:
    """Greedy rows with several largest logits, and logits of 0."""
    arguments = _rows([0.0] * 6)(gen)
    arguments["logits"][:, [7, 21, 40]] = 9.0
    arguments["logits"][3:] -= 9.0
    return arguments


def _same_request(gen: torch.Generator) -> Arguments:
    """One row of logits ten times: only the position differs."""
    arguments = _rows([1.0] * 10)(gen)
    return arguments | {
        "logits": arguments["logits"][:1].expand(10, -1).contiguous(),
        "seeds": torch.full((10,), 42),
        "positions": torch.arange(100, 110),
    }


def _near_equals(gen: torch.Generator) -> Arguments:
    """The token with the smallest u and the one with the largest, 2e-5 apart after the noise."""
    arguments = _rows([0.5, 1.0, 1.0, 2.0] * 10)(gen)
    u = uniform(arguments["seeds"], arguments["positions"], 50).double()
    noise = -(-u.log()).log()
    logits = torch.full_like(noise, -20.0)
    for row, temperature in enumerate(arguments["temperatures"].tolist()):
        low, high = int(noise[row].argmin()), int(noise[row].argmax())
        logits[row, low] = temperature * (3.0 - noise[row, low])
        logits[row, high] = temperature * (3.0 - noise[row, high] + (-1) ** row * 2e-5)
    return arguments | {"logits": logits.float()}


def _nearly_one(gen: torch.Generator) -> Arguments:
    """Two unlikely tokens, 15 and 30, whose u is the largest there is: the noise is 16.64."""
    logits = torch.zeros(2, 50)
    logits[0, 15], logits[1, 30] = -9.85, -11.42  # with the noise, 1.1 above all others
    return _rows([1.0, 1.0])(gen) | {
        "logits": logits,
        "seeds": torch.tensor([301434, 152163]),
        "positions": torch.tensor([9, 9]),
    }


def _best_banned(gen: torch.Generator) -> Arguments:
    return _rows([0.0, 1.0, 0.0, 0.5, 0.0])(gen) | {"keep": BanBest()}


def _strided_logits(gen: torch.Generator) -> Arguments:
    arguments = _rows([0.0, 0.7, 1.3])(gen)
    return arguments | {"logits": strided(arguments["logits"])}


def _sample_alone(sample: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    arguments = _rows([1.0, 0.0, 0.6, 2.0, 1.0], [1.0, 1.0, 0.9, 0.8, 0.5])(gen)
    keep = arguments.pop("keep")
    alone = []
    for row in range(5):
        logits, temperatures, seeds, positions = (x[row : row + 1] for x in arguments.values())
        alone.append(sample(logits, temperatures, keep.only(row), seeds, positions))
    logits, temperatures, seeds, positions = arguments.values()
    return sample(logits, temperatures, keep, seeds, positions), torch.cat(alone)


_MIXED = [1.0, 0.0, 0.3, 2.0, 0.0, 0.8, 1.5, 1.0]

sample = Exercise(
    id="ch04.sample",
    outputs=Output("token ids", axes="row", are_ids=True),
    oracle=drawn,
    cases=(
        by_hand("greedy, sure, and one token left", _hand_draw, torch.tensor([1, 2, 0])),
        sampled("all rows greedy", _rows([0.0] * 8)),
        sampled(
            "all rows at temperature 1",
            _rows([1.0] * 8),
            look_at="the noise: -log(-log(u)) with u = uniform(seeds, positions, vocab_size)",
            try_it="u = 0.5 gives the noise 0.37, u = 0.99 gives 4.60",
        ),
        sampled("temperatures of all kinds in one batch", _rows(_MIXED)),
        sampled("the same with top-p", _rows(_MIXED, [0.5, 0.9, 0.9, 0.6, 0.4, 0.8, 0.7, 0.3])),
        adversarial(
            "temperature comes before top-p",
            _rows([3.0, 0.3, 2.5, 0.4, 3.0, 0.5], [0.6, 0.9, 0.5, 0.95, 0.7, 0.9]),
            seeds=(21, 22),
            look_at="the order: divide by the temperature, then keep, then draw",
        ),
        adversarial(
            "of equals a greedy row takes the lowest id",
            _equals,
            look_at="rows with temperature 0: no noise, and no division by the temperature",
        ),
        adversarial(
            "the same request draws anew at each position",
            _same_request,
            look_at="the noise: a function of the row's seed and of its position",
        ),
        adversarial(
            "bfloat16 logits are widened first",
            _rows([1.0, 0.7, 1.3, 1.0, 0.9, 1.0] * 40, dtype=torch.bfloat16, spread=0.3),
            look_at="the dtype in which the noise is added: bfloat16 makes equals of near ones",
        ),
        adversarial(
            "sums that are nearly equal",
            _near_equals,
            look_at="the noise: float32 from u to the sum, and nothing added to u",
            try_it="noise.half() is right to 0.001 only; u + 1e-5 moves the noise of a small u",
        ),
        adversarial(
            "u may be as near to 1 as float32 allows",
            _nearly_one,
            look_at="what keeps log away from 0: u is never 0 and never 1, so nothing has to",
            try_it="u = 1 - 2 ** -24 gives the noise 16.64",
        ),
        adversarial("temperatures as low as 0.01", _rows([0.01, 0.02, 0.0, 0.05], spread=0.02)),
        adversarial(
            "a greedy row is not filtered",
            _best_banned,
            look_at="what the greedy token is taken from: the logits, before keep",
            try_it="a keep that bans the largest logit: a row with temperature 0 takes it anyway",
        ),
        adversarial("rows that are not contiguous", _strided_logits),
    ),
    properties=(
        Property(
            "batch mates do not matter",
            _sample_alone,
            look_at="whatever is taken from the whole batch: a seed, a temperature, a maximum",
        ),
    ),
    package="minivllm.sample.sampler.Sampler",
    hints=(
        "Two answers for each row, the greedy one and the drawn one; which one counts is decided "
        "row by row. What would a division by 0 do, and how can you keep it from happening?",
        "torch.where puts 1 in place of temperature 0, and later picks greedy or drawn. None in an "
        "index makes a column of the temperatures. Two logarithms make noise from u.",
        "u = 0.5 gives the noise 0.37, u = 0.99 gives 4.60. With logits 1 and 2 and these two "
        "numbers, in this order: 1.37 against 6.60, so token 1.",
    ),
    look_at="what each row uses: its own temperature, seed and position",
    try_it="one row alone, then the same row beside another: the same token",
)
