"""The widget of chapter 03: the tensors of a layer land in its fused parameters, one after another.

Plain data, no torch: what each row of each parameter holds after every copy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby


@dataclass(frozen=True, kw_only=True)
class Piece:
    """Rows `start` up to `stop` that hold the same tensor; `None` if nothing was written."""

    start: int
    stop: int
    tensor: str | None


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The state after one copy.

    Attributes:
        tensor: Which tensor was copied.
        parameter: Into which parameter.
        start, stop: Its rows there.
        pieces: Parameter -> what its rows hold, from the top down.
    """

    tensor: str
    parameter: str
    start: int
    stop: int
    pieces: Mapping[str, tuple[Piece, ...]]

    @property
    def num_unwritten(self) -> int:
        """Rows that hold nothing yet, of all parameters."""
        pieces = (piece for row in self.pieces.values() for piece in row)
        return sum(piece.stop - piece.start for piece in pieces if piece.tensor is None)


def frames(
    parts: Mapping[str, Mapping[str, int]], order: Sequence[str], *, start_moves: bool = True
) -> list[Frame]:
    """A frame for each tensor.

    Args:
        parts: Fused parameter -> its parts and their rows, from the top down.
        order: The tensors in the order in which the files give them.
        start_moves: Whether each part begins where the one before it ends; if not, all of them
            begin at row 0, which is the mistake to look at.
    """
    rows: dict[str, list[str | None]] = {p: [None] * sum(s.values()) for p, s in parts.items()}
    places = {}
    for parameter, sizes in parts.items():
        start = 0
        for tensor, size in sizes.items():
            places[tensor] = parameter, start, start + size
            start += size if start_moves else 0
    found = []
    for tensor in order:
        parameter, start, stop = places[tensor]
        rows[parameter][start:stop] = [tensor] * (stop - start)
        pieces = {name: _pieces(held) for name, held in rows.items()}
        frame = Frame(tensor=tensor, parameter=parameter, start=start, stop=stop, pieces=pieces)
        found.append(frame)
    return found


def _pieces(rows: Sequence[str | None]) -> tuple[Piece, ...]:
    """Runs of equal rows: `[q, q, k, None]` -> q at 0-2, k at 2-3, nothing at 3-4."""
    pieces, start = [], 0
    for tensor, run in groupby(rows):
        stop = start + len(list(run))
        pieces.append(Piece(start=start, stop=stop, tensor=tensor))
        start = stop
    return tuple(pieces)
