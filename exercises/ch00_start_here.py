"""Chapter 00, start here: one warm-up function."""

from __future__ import annotations

from minivllm.course.errors import ExerciseNotStarted


def blocks_needed(num_tokens: int, block_size: int) -> int:
    """How many blocks of `block_size` slots it takes to store `num_tokens` tokens.

    A block may be partly filled; a token never lies in two blocks. Use whole numbers only: a
    float is exact no further than 2**53.

    Args:
        num_tokens: 0 or more.
        block_size: 1 or more.
    """
    raise ExerciseNotStarted("ch00.blocks_needed")
