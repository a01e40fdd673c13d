"""Chapter 04: top-k and top-p."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]
_INF = float("inf")


def _filtered(logits: Tensor, top_ks: Tensor, top_ps: Tensor) -> Tensor:
    out = torch.full_like(logits, -_INF)
    rows = zip(logits, top_ks.tolist(), top_ps.tolist(), strict=True)
    for index, (row, k, p) in enumerate(rows):
        order = row.argsort(descending=True, stable=True).tolist()
        kth_value = row[order[k - 1]] if 0 < k < len(order) else -_INF
        allowed = [token_id for token_id in order if row[token_id] >= kth_value]
        probs = row[allowed].softmax(-1).tolist()
        for place, token_id in enumerate(allowed):
            if p < 1 and sum(probs[:place]) >= p:
                break
            out[index, token_id] = row[token_id]
    return out


def _asked(top_ks: Sequence[int], top_ps: Sequence[float], spread: float = 3.0) -> _Make:
    """Random rows of 13 logits whose mean is not 0, one for each k and p."""

    def made(gen: torch.Generator) -> Arguments:
        logits = spread * torch.randn(len(top_ks), 13, generator=gen) - 1.0
        return {"logits": logits, "top_ks": torch.tensor(top_ks), "top_ps": torch.tensor(top_ps)}

    return made


def _hand_row(k: int, p: float) -> Callable[[], Arguments]:
    """Probabilities 0.1, 0.5, 0.3, 0.1, as logits."""
    return lambda: {
        "logits": torch.tensor([[0.1, 0.5, 0.3, 0.1]]).log(),
        "top_ks": torch.tensor([k]),
        "top_ps": torch.tensor([p]),
    }


def _hand_kept(*token_ids: int) -> Tensor:
    kept = torch.full((1, 4), -_INF)
    kept[0, list(token_ids)] = torch.tensor([[0.1, 0.5, 0.3, 0.1]]).log()[0, list(token_ids)]
    return kept


def _tied(gen: torch.Generator) -> Arguments:
    """Three tokens share the second place, and two the first."""
    del gen
    logits = torch.tensor([[1.0, 4.0, 2.0, 2.0, -3.0, 2.0], [5.0, 0.0, 5.0, -1.0, 3.0, 2.0]])
    return {"logits": logits, "top_ks": torch.tensor([2, 1]), "top_ps": torch.ones(2)}


def _long_tail(gen: torch.Generator) -> Arguments:
    """In float32 the probabilities before the last ones sum up to exactly 1, or more."""
    logits = torch.randn(3, 40, generator=gen) - 40.0 * (torch.arange(40) % 3 == 1)
    return {"logits": logits, "top_ks": torch.tensor([0, 40, 0]), "top_ps": torch.ones(3)}


def _banned(gen: torch.Generator) -> Arguments:
    arguments = _asked([0, 8, 12], [0.7, 1.0, 0.9])(gen)
    arguments["logits"][:, [1, 2, 6, 8, 9, 11]] = -_INF
    return arguments


def _wide(gen: torch.Generator) -> Arguments:
    """300 tokens: more than any limit that a small vocabulary hides."""
    logits = 3.0 * torch.randn(3, 300, generator=gen)
    top_ps = torch.tensor([1.0, 0.9995, 0.98])
    return {"logits": logits, "top_ks": torch.tensor([100, 0, 250]), "top_ps": top_ps}


def _reached_exactly(filter_logits: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """How many of equals are kept: which ones is nobody's business, but no more than needed."""
    del gen
    found = []
    for size, p in ((2, 0.5), (4, 0.4), (4, 0.5), (4, 0.75)):
        out = filter_logits(torch.zeros(1, size), torch.tensor([0]), torch.tensor([p]))
        found.append(torch.isfinite(out).sum())
    return torch.stack(found), torch.tensor([1, 2, 2, 3])


def _strided_rows(gen: torch.Generator) -> Arguments:
    arguments = _asked([3, 0, 5], [0.6, 0.8, 1.0])(gen)
    return arguments | {"logits": strided(arguments["logits"])}


def _filter_alone(filter_logits: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    arguments = _asked([3, 0, 5, 9], [1.0, 0.8, 0.7, 0.95])(gen)
    alone = [filter_logits(**{k: v[i : i + 1] for k, v in arguments.items()}) for i in range(4)]
    return filter_logits(**arguments), torch.cat(alone)


filter_logits = Exercise(
    id="ch04.filter_logits",
    outputs=Output("logits", axes="row token"),
    oracle=_filtered,
    cases=(
        by_hand("top-k: 2 of 0.1, 0.5, 0.3, 0.1", _hand_row(2, 1.0), _hand_kept(1, 2)),
        by_hand("top-p: 0.6 of 0.1, 0.5, 0.3, 0.1", _hand_row(0, 0.6), _hand_kept(1, 2)),
        by_hand("top-p: 0.4 needs one token", _hand_row(0, 0.4), _hand_kept(1)),
        sampled("random rows, top-k alone", _asked([1, 3, 0, 12, 5], [1.0] * 5)),
        sampled("random rows, top-p alone", _asked([0] * 5, [0.3, 0.6, 1.0, 0.9, 0.99])),
        sampled(
            "random rows, top-k and top-p", _asked([4, 3, 0, 12, 7], [0.8, 0.9, 0.5, 1.0, 0.7])
        ),
        adversarial(
            "all that tie with the k-th are kept",
            _tied,
            look_at="the comparison with the k-th value: a token equal to it stays",
            try_it="logits 4, 2, 2, 1 and k = 2: three tokens are kept",
        ),
        adversarial(
            "a k above the vocabulary keeps all",
            _asked([13, 14, 4000], [1.0, 1.0, 0.8]),
            look_at="the place of the k-th value: there are only vocab_size places",
        ),
        adversarial(
            "p = 1 keeps even what float32 rounds away",
            _long_tail,
            look_at="p = 1: sums of float32 probabilities may reach 1 before the last token",
            try_it="logits 0, 0, -40 and p = 1: nothing is dropped",
        ),
        adversarial("a tiny p keeps the most likely token", _asked([0, 5, 0], [1e-6, 1e-4, 0.01])),
        adversarial(
            "p counts what top-k has left",
            _asked([2, 3, 4], [0.7, 0.65, 0.6], 0.5),
            look_at="the softmax of top-p: it is over the tokens that top-k has left",
            try_it="probs 0.4, 0.3, 0.3, k = 1, p = 0.5: one token has all of the mass",
        ),
        adversarial("large logits, as after a low temperature", _asked([0, 7], [0.9, 0.8], 90.0)),
        adversarial("tokens that are -inf already stay so", _banned),
        adversarial(
            "a vocabulary of 300 tokens",
            _wide,
            look_at="any fixed number: k may be 250, and p = 0.9995 is not 1",
            try_it="300 random logits and k = 100: 100 tokens are kept",
        ),
        adversarial("rows that are not contiguous", _strided_rows),
    ),
    properties=(
        Property("batch mates do not matter", _filter_alone),
        Property(
            "top-p keeps no more than it needs",
            _reached_exactly,
            look_at="the comparison with p: a sum that is p already needs no further token",
            try_it="two equal logits and p = 0.5: one token is kept; four and p = 0.4: two",
        ),
    ),
    package="minivllm.sample.logits.apply_top_k_top_p",
    hints=(
        "Both filters speak of the most likely tokens, so both need the logits of a row in order. "
        "What do you need, besides the sorted values, to get back to vocabulary order?",
        "sort gives values and ids. gather reads the k-th value of each row. For top-p, compare "
        "the sum before a token (cumsum less the token's own share) with p. scatter undoes a sort.",
        "Probabilities 0.5, 0.3, 0.1, 0.1: the sums before are 0, 0.5, 0.8, 0.9. With p = 0.6 the "
        "tokens with the sums 0 and 0.5 are kept: the second is the one that crosses.",
    ),
    look_at="the k-th value, the sums compared with p, and the way back to vocabulary order",
    try_it="probs 0.1, 0.5, 0.3, 0.1 as logs, k = 0, p = 0.6: the tokens 1 and 2 are kept",
)
