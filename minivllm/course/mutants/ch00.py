"""Chapter 00: the ways of rounding a division that are not rounding up."""

from __future__ import annotations

import math

from minivllm.course.declare import edit, mutant

_RIGHT = "(num_tokens + block_size - 1) // block_size"


@mutant("blocks_needed.float_division", "a float: / instead of //")
def _float_division(num_tokens: int, block_size: int) -> float:
    return num_tokens / block_size


@mutant(
    "blocks_needed.ceil_of_float",
    "the quotient as a float, then rounded up",
    look_at="the operator /, which makes a float: a float is exact no further than 2**53",
)
def _ceil_of_float(num_tokens: int, block_size: int) -> int:
    return math.ceil(num_tokens / block_size)


@mutant("blocks_needed.float_result", "the right number as a float")
def _float_result(num_tokens: int, block_size: int) -> float:
    return float(-(-num_tokens // block_size))


@mutant("blocks_needed.round", "the quotient, rounded to the nearest")
def _round(num_tokens: int, block_size: int) -> int:
    return (2 * num_tokens + block_size) // (2 * block_size)


@mutant("blocks_needed.empty_block", "at least one block, even for no tokens")
def _empty_block(num_tokens: int, block_size: int) -> int:
    return max(1, -(-num_tokens // block_size))


MUTANTS = [
    edit("blocks_needed.floor", "only the full blocks", (_RIGHT, "num_tokens // block_size")),
    edit(
        "blocks_needed.plus_one", "always one block more", (_RIGHT, "num_tokens // block_size + 1")
    ),
    edit(
        "blocks_needed.add_size",
        "the whole block size added before dividing",
        (" - 1", ""),
        same_as="blocks_needed.plus_one",
    ),
    edit(
        "blocks_needed.modulo", "the tokens in the last block", (_RIGHT, "num_tokens % block_size")
    ),
    edit(
        "blocks_needed.swapped",
        "block size by tokens",
        (_RIGHT, "(block_size + num_tokens - 1) // max(1, num_tokens)"),
    ),
    edit("blocks_needed.tokens", "one block for each token", (_RIGHT, "num_tokens")),
    edit(
        "blocks_needed.negative",
        "minus the floor of minus the quotient",
        (_RIGHT, "-(-num_tokens // block_size)"),
        equivalent="because -(-a // b) rounds up, for whole numbers of any size",
    ),
]
