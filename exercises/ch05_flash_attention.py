"""Chapter 05, flash attention: the softmax of a row that is never there as a whole.

`row_max`, `row_sum` and `acc` are the running state of a row of scores. `acc` is the sum of the
values, each weighted by `exp(score - row_max)`; divided by `row_sum` it is the row's output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from minivllm.course.errors import ExerciseNotStarted

State = tuple[Tensor, Tensor, Tensor]
AddTile = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], State]


def max_and_sum(tiles: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The maximum of each row, and its sum of `exp(score - maximum)`: both `[num_rows]`, float32.

    The tiles of a row come one after another, once. A tile's memory is used again for the next
    one, so what you need of it must be worked out while it is there.

    Args:
        tiles: Each `[num_rows, tile]`, float32; the last may be narrower. A hidden score is -inf,
            and so may be all scores of a tile. A row with nothing but hidden scores has the
            maximum -inf and the sum 0.
    """
    raise ExerciseNotStarted("ch05.max_and_sum")


def add_tile(
    row_max: Tensor, row_sum: Tensor, acc: Tensor, scores: Tensor, values: Tensor
) -> State:
    """The state `(row_max, row_sum, acc)` after one more tile of keys; all float32.

    What was summed up so far was measured against the old maximum. It is rescaled to the new one,
    then the tile is added. Nothing is divided yet.

    Args:
        row_max: `[..., num_queries]`; -inf where nothing has been seen.
        row_sum: `[..., num_queries]`.
        acc: `[..., num_queries, head_dim]`. None of the three is changed.
        scores: `[..., num_queries, tile]`, float32; -inf where hidden, perhaps for a whole row.
        values: `[..., tile, head_dim]`, float32 or float16; computed with in float32.
    """
    raise ExerciseNotStarted("ch05.add_tile")


def flash_forward(
    q: Tensor, k: Tensor, v: Tensor, offset: int, tiles: tuple[int, int], add_tile: AddTile
) -> tuple[Tensor, Tensor]:
    """Causal attention tile by tile: the output, and the log-sum-exp of each row of scores.

    Key j has position j, query i has position `offset + i`; a query sees the keys up to its own
    position. So `offset` is 0 for a whole prompt, more for a later chunk of one, and negative if
    the keys begin later than the queries: a query that sees nothing gets the output 0 and the
    log-sum-exp -inf. A tile of keys that no query of its tile sees is skipped: not even read.

    Args:
        q: `[num_heads, num_queries, head_dim]`; a score is `q @ k * head_dim**-0.5`.
        k: `[num_kv_heads, num_keys, head_dim]`, in the dtype of `q`; `num_keys` may be 0. Query
            heads `0 .. num_heads / num_kv_heads - 1` use KV head 0, and so on.
        v: Like `k`.
        offset: The position of the first query.
        tiles: Queries and keys of a tile. No length need be a multiple of them.
        add_tile: The exercise before this one; called with a leading axis for the heads.

    Returns:
        The output, in the shape and dtype of `q`, and `[num_heads, num_queries]`, float32. All is
        computed in float32. For a prompt no tensor on the way may be larger than twice `q`.
    """
    raise ExerciseNotStarted("ch05.flash_forward")


def merge(out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp over all keys, from those over two halves of them.

    Args:
        out_a: `[..., num_queries, head_dim]`: a finished output, divided by its sum.
        lse_a: `[..., num_queries]`, float32; -inf where the half holds no key that the query sees.
            The output is 0 there, and so is the merged one where both halves are empty.
        out_b: Like `out_a`.
        lse_b: Like `lse_a`.

    Returns:
        The output in the dtype of `out_a`, computed in float32, and the log-sum-exp.
    """
    raise ExerciseNotStarted("ch05.merge")


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    raise ExerciseNotStarted("ch05.detective")
