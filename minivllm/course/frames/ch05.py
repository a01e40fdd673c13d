"""Chapter 05: the steps of an online softmax, and how much of the table a tiled pass touches.

Plain Python, so that a test can work each number out by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The state after one tile of keys.

    Attributes:
        start, stop: The keys of the tile.
        row_max: The largest score so far.
        correction: What sum and accumulator were multiplied by; 0 for the first tile.
        row_sum: The sum of `exp(score - row_max)` so far.
        acc: The sum of the values so far, each weighted by `exp(score - row_max)`.
    """

    start: int
    stop: int
    row_max: float
    correction: float
    row_sum: float
    acc: float

    @property
    def output(self) -> float:
        """The result, if this were the last tile."""
        return self.acc / self.row_sum

    @property
    def lse(self) -> float:
        """The log-sum-exp, if this were the last tile."""
        return self.row_max + math.log(self.row_sum)


def frames(scores: Sequence[float], values: Sequence[float], tile: int) -> list[Frame]:
    """A frame for each tile of one row; each key has one number as its value."""
    row_max, row_sum, acc = -math.inf, 0.0, 0.0
    found = []
    for start in range(0, len(scores), tile):
        stop = min(start + tile, len(scores))
        new_max = max(row_max, *scores[start:stop])
        correction = math.exp(row_max - new_max)
        weights = [math.exp(score - new_max) for score in scores[start:stop]]
        row_sum = row_sum * correction + sum(weights)
        acc = acc * correction + sum(map(math.prod, zip(weights, values[start:stop], strict=True)))
        row_max = new_max
        found.append(
            Frame(
                start=start,
                stop=stop,
                row_max=row_max,
                correction=correction,
                row_sum=row_sum,
                acc=acc,
            )
        )
    return found


def visited_tiles(
    num_queries: int, num_keys: int, offset: int, tiles: tuple[int, int]
) -> list[list[bool]]:
    """For each tile of queries and each tile of keys, whether a causal pass computes it.

    Query i has position `offset + i` and sees the keys up to there.
    """
    tile_q, tile_k = tiles
    last_seen = (
        offset + min(start + tile_q, num_queries) - 1 for start in range(0, num_queries, tile_q)
    )
    return [[first <= last for first in range(0, num_keys, tile_k)] for last in last_seen]
