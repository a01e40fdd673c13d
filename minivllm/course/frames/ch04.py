"""Chapter 04: what the bar chart of the next token shows, and how many tokens two loops compute.

Plain Python, so that a test can work each number out by hand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Bar:
    """One token of the chart.

    Attributes:
        token: Its text.
        before: Its probability in the model's own distribution.
        after: Its probability of being drawn; 0 if it is ruled out.
        ruled_out_by: "greedy", "top-k", "top-p", or empty.
    """

    token: str
    before: float
    after: float
    ruled_out_by: str


def frames(logits: Mapping[str, float], temperature: float, top_k: int, top_p: float) -> list[Bar]:
    """A bar for each token, the most likely first.

    Args:
        logits: Token -> logit.
        temperature: 0 leaves the most likely token only.
        top_k: How many tokens are kept, with all that tie with the last of them; 0 is all.
        top_p: The sum that the kept tokens reach; 1 is all.
    """
    ranked = sorted(logits.items(), key=lambda item: -item[1])
    values = [value for _, value in ranked]
    before = _softmax(values)
    if temperature == 0:
        marks = ["", *["greedy"] * (len(values) - 1)]
        scaled = values
    else:
        scaled = [value / temperature for value in values]
        marks = _marks(scaled, top_k, top_p)
    after = _softmax([x if not mark else -math.inf for x, mark in zip(scaled, marks, strict=True)])
    tokens = [token for token, _ in ranked]
    return [Bar(*row) for row in zip(tokens, before, after, marks, strict=True)]


def computed_tokens(num_prompt_tokens: int, num_new_tokens: int) -> tuple[list[int], list[int]]:
    """Tokens computed in each step: by the naive loop, and by one with a cache."""
    naive = [num_prompt_tokens + step for step in range(num_new_tokens)]
    cached = [num_prompt_tokens] + [1] * (num_new_tokens - 1)
    return naive, cached


def _softmax(values: list[float]) -> list[float]:
    exponentials = [math.exp(value - max(values)) for value in values]
    return [x / sum(exponentials) for x in exponentials]


def _marks(descending: list[float], top_k: int, top_p: float) -> list[str]:
    kth_value = descending[top_k - 1] if 0 < top_k < len(descending) else -math.inf
    kept = [value for value in descending if value >= kth_value]
    marks, total = [], 0.0
    for prob in _softmax(kept):
        marks.append("top-p" if total >= top_p and top_p < 1 else "")
        total += prob
    return marks + ["top-k"] * (len(descending) - len(kept))
