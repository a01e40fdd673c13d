"""Chapter 00: one warm-up function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments

_FLOAT = "an operator that makes a float: a float is exact no further than 2**53"
_TRY_FLOAT = "print(2**60 + 1 == float(2**60 + 1))"


def _oracle(num_tokens: int, block_size: int) -> int:
    full, rest = divmod(num_tokens, block_size)
    return full + 1 if rest else full


def _random(gen: torch.Generator) -> Arguments:
    num_tokens, block_size = torch.randint(1, 200, (2,), generator=gen).tolist()
    return {"num_tokens": num_tokens, "block_size": block_size}


def _fixed(num_tokens: int, block_size: int) -> Callable[[torch.Generator], Arguments]:
    return lambda _: {"num_tokens": num_tokens, "block_size": block_size}


def _fits(blocks_needed: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    num_tokens, size = _random(gen).values()
    num_blocks = blocks_needed(num_tokens, size)
    return (num_blocks - 1) * size < num_tokens <= num_blocks * size, True


blocks_needed = Exercise(
    id="ch00.blocks_needed",
    outputs=Output("number of blocks"),
    oracle=_oracle,
    cases=(
        by_hand(
            "10 tokens in blocks of 4", lambda: {"num_tokens": 10, "block_size": 4}, expected=3
        ),
        sampled("random lengths", _random, seeds=range(11, 21)),
        adversarial("no tokens need no block", _fixed(0, 4)),
        adversarial("two full blocks need no third", _fixed(8, 4)),
        adversarial("one token needs a block", _fixed(1, 16)),
        adversarial("blocks of one slot", _fixed(7, 1)),
        adversarial(
            "exact for huge numbers: full blocks and one token",
            _fixed(2**60 + 1, 2**40),
            look_at=_FLOAT,
            try_it=_TRY_FLOAT,
        ),
        adversarial(
            "exact for huge numbers: full blocks but for one token",
            _fixed(2**60 - 1, 2**40),
            look_at=_FLOAT,
            try_it=_TRY_FLOAT,
        ),
    ),
    properties=(Property("every token has a slot, and no block is too many", _fits),),
    hints=(
        "How many blocks are full? When is there one more?",
        "`//` rounds down, and you want to round up. What could you add to the number of tokens "
        "first, so that rounding down gives the right answer?",
        "With blocks of 4, the tokens 5, 6, 7 and 8 all need 2 blocks. Adding which number brings "
        "all four of them into the range from 8 to 11?",
    ),
    look_at="how the division is rounded",
    try_it="0, 1, 4 and 5 tokens in blocks of 4: 0, 1, 1 and 2 blocks",
)
