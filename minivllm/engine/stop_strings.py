"""Stop strings: where a growing text meets one, and which of its last characters may begin one.

The rule is that of someone who reads character by character and stops as soon as what was read ends
in a stop string; if it ends in several, the longest counts. So the same text ends at the same place
however it was cut into tokens.
Next file to read: `logprobs.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Match(NamedTuple):
    """`text[start:end]` is a stop string."""

    start: int
    end: int


def find_stop_string(text: str, stop_strings: Sequence[str], read_until: int) -> Match | None:
    """The match in `text` that is complete first, among those that end after `read_until`."""
    matches = []
    for stop_string in stop_strings:
        # Not before this place: a match from further left would end within what was read.
        start = text.find(stop_string, max(0, read_until - len(stop_string) + 1))
        if start >= 0:
            matches.append(Match(start, start + len(stop_string)))
    return min(matches, key=lambda match: (match.end, match.start), default=None)


def num_held_characters(text: str, stop_strings: Sequence[str]) -> int:
    """Length of the longest end of `text` that a stop string starts with.

    >>> num_held_characters("Well, <|", ["<|user|>", ", or"])
    2
    """
    longest = max(len(stop_string) for stop_string in stop_strings) - 1
    for length in range(min(longest, len(text)), 0, -1):
        if any(stop_string.startswith(text[-length:]) for stop_string in stop_strings):
            return length
    return 0
