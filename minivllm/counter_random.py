"""Random numbers without a state: each one is a function of (seed, position, token id).

A generator that hands out numbers in turn would give a request other numbers whenever its
neighbours in the batch change. Here the number is a hash of where it is used, so a request draws
the same tokens alone, in a crowd, on a CPU or on a GPU:

    key = mix64(mix64(seed + GOLDEN) + position)         64 bits, once per row
    low, high = the two halves of key
    x = mix32(token_id, low, high)                       32 bits, once per row and token
    uniform = (x // 2**9 + 0.5) / 2**23                  never 0, never 1, exact in float32

All of it is integer arithmetic modulo 2**64 or 2**32, which every device does alike. PyTorch has
no unsigned arithmetic, so the words are signed here: addition and multiplication wrap around to
the same bits, and a shift to the right has its sign bits cleared.

Sources: mix64 is SplitMix64's (Paper: Fast Splittable Pseudorandom Number Generators, OOPSLA 2014,
doi 10.1145/2714064.2660195); mix32 is Chris Wellons' lowbias32 (github.com/skeeto/hash-prospector)
with the second half of the key added between its rounds.
Next file to read: `minivllm/sample/logits.py`, which decides what may be drawn at all.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int32, Int64
from torch import Tensor


def _signed(word: int, bits: int) -> int:
    """The signed integer with the same bits as the unsigned `word`."""
    return word - (1 << bits) if word >> (bits - 1) else word


_GOLDEN = _signed(0x9E3779B97F4A7C15, 64)
_MULTIPLIERS_64 = (_signed(0xBF58476D1CE4E5B9, 64), _signed(0x94D049BB133111EB, 64))
_MULTIPLIERS_32 = (_signed(0x7FEB352D, 32), _signed(0x846CA68B, 32))


def _shift_right(x: Tensor, count: int) -> Tensor:
    """`x >> count` for the bits of an unsigned number."""
    bits = 8 * x.element_size()
    return (x >> count).bitwise_and_((1 << (bits - count)) - 1)


def _mix64(x: Int64[Tensor, " num_rows"]) -> Int64[Tensor, " num_rows"]:
    x = (x ^ _shift_right(x, 30)) * _MULTIPLIERS_64[0]
    x = (x ^ _shift_right(x, 27)) * _MULTIPLIERS_64[1]
    return x ^ _shift_right(x, 31)


def row_keys(
    seeds: Int64[Tensor, " num_rows"], positions: Int64[Tensor, " num_rows"]
) -> tuple[Int32[Tensor, " num_rows"], Int32[Tensor, " num_rows"]]:
    """The low and the high half of each row's 64-bit key."""
    keys = _mix64(_mix64(seeds + _GOLDEN) + positions)
    halves = keys.view(torch.int32).view(-1, 2)  # little-endian, as are all our devices
    return halves[:, 0], halves[:, 1]


def uniform(
    seeds: Int64[Tensor, " num_rows"], positions: Int64[Tensor, " num_rows"], vocab_size: int
) -> Float[Tensor, "num_rows {vocab_size}"]:
    """A number between 0 and 1, both excluded, for each row and token id, as float32."""
    low, high = row_keys(seeds, positions)
    token_ids = torch.arange(vocab_size, dtype=torch.int32, device=seeds.device)
    x = token_ids ^ low[:, None]
    # in place from here on: the matrix is as large as the logits
    x.bitwise_xor_(_shift_right(x, 16)).mul_(_MULTIPLIERS_32[0])
    x.add_(high[:, None])
    x.bitwise_xor_(_shift_right(x, 15)).mul_(_MULTIPLIERS_32[1])
    x.bitwise_xor_(_shift_right(x, 16))
    return _shift_right(x, 9).float().add_(0.5).mul_(2.0**-23)


def gumbel(
    seeds: Int64[Tensor, " num_rows"], positions: Int64[Tensor, " num_rows"], vocab_size: int
) -> Float[Tensor, "num_rows {vocab_size}"]:
    """Standard Gumbel noise, `-log(-log(uniform))`, between -2.82 and 16.64.

    The token with the largest sum of logit and noise is a draw from the softmax of the logits.
    A token less likely than about 2**-24 is never drawn.
    """
    return uniform(seeds, positions, vocab_size).log_().neg_().log_().neg_()
