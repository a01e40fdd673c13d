"""The widget of chapter 01: a key and a query, turned by RoPE, pair by pair, as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Dial:
    """One pair of elements, as a dial with two hands that both pointed right before the turn.

    Attributes:
        key, query: Where the hands point, in radians, counter-clockwise, from 0 up to a full turn.
        between: How far the query is ahead of the key, in radians: whole turns count.
        period: Tokens to a full turn.
    """

    key: float
    query: float
    between: float
    period: float


@dataclass(frozen=True, kw_only=True)
class Frame:
    """All dials of a head, and the part of the score that each of them gives.

    Attributes:
        dials: The fastest first.
        score: The mean over the dials of the cosine between their hands; 1 if all agree.
    """

    dials: tuple[Dial, ...]
    score: float


def frames(position: int, distance: int, theta: float, head_dim: int = 16) -> Frame:
    """The dials for a key at `position` and a query `distance` tokens after it."""
    dials = []
    for pair in range(head_dim // 2):
        speed = theta ** (-2 * pair / head_dim)
        dial = Dial(
            key=position * speed % math.tau,
            query=(position + distance) * speed % math.tau,
            between=distance * speed,
            period=math.tau / speed,
        )
        dials.append(dial)
    score = sum(math.cos(dial.between) for dial in dials) / len(dials)
    return Frame(dials=tuple(dials), score=score)
