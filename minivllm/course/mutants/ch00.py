"""Chapter 00: the ways of rounding a division that are not rounding up."""

from __future__ import annotations

import math

import numpy as np

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


@mutant(
    "blocks_needed.floor_of_float",
    "block_size - 1 added, then a float: / and int",
    look_at="the operator /, which makes a float: a float is exact no further than 2**53",
)
def _floor_of_float(num_tokens: int, block_size: int) -> int:
    return int((num_tokens + block_size - 1) / block_size)


@mutant(
    "blocks_needed.numpy_ceil",
    "the quotient rounded up by numpy, which gives a float of its own",
    look_at="the type: // of two ints gives an int",
)
def _numpy_ceil(num_tokens: int, block_size: int) -> np.float64:
    return np.float64(math.ceil(num_tokens / block_size))


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
        "blocks_needed.rest_added",
        "the full blocks plus the tokens that are left over",
        (_RIGHT, "num_tokens // block_size + num_tokens % block_size"),
        look_at="what is left over: however many tokens, they need one block",
    ),
    edit(
        "blocks_needed.rest_above_one",
        "no block for a single token that is left over",
        (_RIGHT, "num_tokens // block_size + (num_tokens % block_size > 1)"),
        look_at="when there is one block more: as soon as a token is left over",
    ),
    edit(
        "blocks_needed.slots",
        "the slots in all blocks, not the blocks",
        (_RIGHT, f"{_RIGHT} * block_size"),
        look_at="what is counted: blocks",
    ),
    edit(
        "blocks_needed.free_slots",
        "the slots that stay free",
        (_RIGHT, "-num_tokens % block_size"),
        look_at="what is counted: blocks",
    ),
    edit(
        "blocks_needed.blocks_of_four",
        "blocks of 4, whatever block_size is",
        (_RIGHT, "(num_tokens + 3) // 4"),
        look_at="the argument block_size: 4 is only the example's",
        try_it="blocks_needed(7, 1): 7",
    ),
    edit(
        "blocks_needed.three_added",
        "3 added before dividing, whatever block_size is",
        ("num_tokens + block_size - 1", "num_tokens + 3"),
        look_at="what is added: 3 is right for blocks of 4 only",
        try_it="blocks_needed(1, 16): 1",
    ),
    edit(
        "blocks_needed.below_zero",
        "minus the right number",
        (_RIGHT, "-num_tokens // block_size"),
        look_at="the sign: - comes before //, so this rounds up, but below zero",
    ),
    edit(
        "blocks_needed.negative",
        "minus the floor of minus the quotient",
        (_RIGHT, "-(-num_tokens // block_size)"),
        equivalent="because -(-a // b) rounds up, for whole numbers of any size",
    ),
]
