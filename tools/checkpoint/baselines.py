"""What the checkpoint is compared with: n-gram models, and the training text itself.

Both work on rows of token ids as numpy arrays, and know nothing of stories.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_TABLE_BITS = 24
_LAST_BITS = np.uint64((1 << _TABLE_BITS) - 1)
_PRIME = np.uint64(0x9E3779B97F4A7C15)


class NGramModel:
    """Witten-Bell: an order backs off to the next lower one, the more so the less it has seen.

        P(w | context) = (count(context, w) + kinds * P(w | shorter context)) / (total + kinds)

    where `kinds` is how many different tokens followed the context, and `total` how many did in
    all; below the unigram stands the uniform distribution.

    Source: Witten & Bell, The zero-frequency problem, IEEE Trans. Inf. Theory 37(4), 1991.
    """

    def __init__(self, rows: Array, order: int) -> None:
        """Count the spans of up to `order` tokens in `rows`; no span reaches over a row's end."""
        self._vocab_size = int(rows.max()) + 1
        self._spans: list[tuple[Array, Array]] = []  # of each length: sorted keys, counts
        for length in range(1, order + 1):
            self._spans.append(np.unique(self._keys(rows, length), return_counts=True))

    def loss(self, rows: Array) -> float:
        """Nats per token, for all tokens of a row but the first ones of a whole span."""
        order = len(self._spans)
        probs = np.array(1 / self._vocab_size)
        for length in range(1, order + 1):
            keys = self._keys(rows[:, order - length :], length)
            counts = _lookup(*self._spans[length - 1], keys)
            totals, kinds = self._followers(length, keys // self._vocab_size)
            mixed = (counts + kinds * probs) / np.maximum(totals + kinds, 1)
            probs = np.where(totals > 0, mixed, probs)  # a context never seen says nothing
        return float(-np.log(probs).mean())

    def _keys(self, rows: Array, length: int) -> Array:
        """Each span as one number: its tokens as digits."""
        width = rows.shape[1] - length + 1
        keys = np.zeros((len(rows), width), np.int64)
        for i in range(length):
            keys = keys * self._vocab_size + rows[:, i : i + width]
        return keys.ravel()

    def _followers(self, length: int, contexts: Array) -> tuple[Array, Array]:
        """How many tokens followed each context, and how many different ones."""
        keys, counts = self._spans[length - 1]
        known, first = np.unique(keys // self._vocab_size, return_index=True)
        totals = np.add.reduceat(counts, first)
        kinds = np.diff(np.append(first, len(keys)))
        return _lookup(known, totals, contexts), _lookup(known, kinds, contexts)


def _lookup(keys: Array, values: Array, wanted: Array) -> Array:
    """The value of each wanted key, 0 where there is none; `keys` ascend."""
    places = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


def span_hashes(tokens: Array, length: int) -> Array:
    """A 64-bit hash of each span of `length` tokens, by doubling.

        H(2n, i) = H(n, i) * p**n + H(n, i + n)

    so spans of 100 tokens take ten passes over the text instead of a hundred.
    """
    total = tokens.astype(np.uint64)[: len(tokens) - length + 1] * np.uint64(0)
    power, block, block_length = np.full(1, _PRIME), tokens.astype(np.uint64) + np.uint64(1), 1
    offset, left = 0, length
    while left:
        if left & 1:
            total = total * power + block[offset : offset + len(total)]
            offset += block_length
        left >>= 1
        block = block[:-block_length] * power + block[block_length:]
        power, block_length = power * power, 2 * block_length
    return total


def longest_copies(rows: Array, samples: Sequence[Sequence[int]]) -> dict[str, float]:
    """How long a span of tokens the samples share with the rows.

    Returns:
        The longest span of all; and for the median sample a length that it reaches, which is
        exact only for the longest: lengths are doubled first, and then the last interval halved.
    """
    text = rows[:, :-1].ravel()
    reached = np.zeros(len(samples), np.int64)

    def copied(length: int) -> bool:
        hits = _samples_with_a_copy(text, samples, length)
        reached[hits] = np.maximum(reached[hits], length)
        return any(hits)

    too_long = 1
    while copied(too_long):
        too_long *= 2
    longest = too_long // 2
    while too_long - longest > 1:
        middle = (longest + too_long) // 2
        longest, too_long = (middle, too_long) if copied(middle) else (longest, middle)
    return {"samples": len(samples), "longest": longest, "median": float(np.median(reached))}


def _samples_with_a_copy(text: Array, samples: Sequence[Sequence[int]], length: int) -> list[bool]:
    """Which samples have a span of `length` tokens that stands in `text`."""
    of_samples = [
        span_hashes(np.asarray(s), length) if len(s) >= length else np.zeros(0, np.uint64)
        for s in samples
    ]
    wanted = np.unique(np.concatenate(of_samples))
    if not len(wanted):
        return [False] * len(samples)
    # Nearly all spans of the text are told apart by their last bits alone: one look-up each.
    possible = np.zeros(1 << _TABLE_BITS, bool)
    possible[wanted & _LAST_BITS] = True
    hashes = span_hashes(text, length)
    found = np.intersect1d(hashes[possible[hashes & _LAST_BITS]], wanted)
    return [bool(np.isin(hashes, found).any()) for hashes in of_samples]
