"""The widget of chapter 02: one request's mask as plain numbers, and which tokens a row sees."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One query.

    Attributes:
        position: Where it stands in its request.
        first, last: The oldest and the newest key that it sees.
    """

    position: int
    first: int
    last: int

    @property
    def num_seen(self) -> int:
        """How many keys it sees."""
        return self.last - self.first + 1


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The mask of a request in one step.

    Attributes:
        kind: "prefill", "chunk" or "decode".
        num_cached: Keys that were there before this step; the first of all.
        rows: The queries, the oldest first.
    """

    kind: str
    num_cached: int
    rows: tuple[Row, ...]

    @property
    def num_keys(self) -> int:
        """All keys, cached and new."""
        return self.num_cached + len(self.rows)

    @property
    def num_seen(self) -> int:
        """Places of the mask that are visible."""
        return sum(row.num_seen for row in self.rows)


def frames(queries: int, cached_tokens: int, window: int | None = None) -> Frame:
    """The mask of `queries` new tokens after `cached_tokens` that are known already."""
    rows = []
    for position in range(cached_tokens, cached_tokens + queries):
        first = 0 if window is None else max(0, position - window + 1)
        rows.append(Row(position=position, first=first, last=position))
    if cached_tokens == 0:
        kind = "prefill"
    else:
        kind = "decode" if queries == 1 else "chunk"
    return Frame(kind=kind, num_cached=cached_tokens, rows=tuple(rows))
