"""Chapter 05, flash attention: the softmax of a row that is never there as a whole.

`row_max`, `row_sum` and `acc` are the running state of a row of scores. `acc` is the sum of the
values, each weighted by `exp(score - row_max)`; divided by `row_sum` it is the row's output.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from minivllm.course.errors import ExerciseNotStarted  # noqa: F401

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
    # SOLUTION BEGIN
    row_max, row_sum = torch.tensor(-math.inf), torch.tensor(0.0)
    for scores in tiles:
        old_max, row_max = row_max, torch.maximum(row_max, scores.amax(-1))
        shift = torch.where(row_max.isneginf(), 0.0, row_max)
        row_sum = row_sum * torch.exp(old_max - shift)
        row_sum = row_sum + torch.exp(scores - shift[:, None]).sum(-1)
    return row_max, row_sum
    # SOLUTION END


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
    # SOLUTION BEGIN
    new_max = torch.maximum(row_max, scores.amax(-1))
    shift = torch.where(new_max.isneginf(), 0.0, new_max)
    correction = torch.exp(row_max - shift)
    weights = torch.exp(scores - shift[..., None])
    new_sum = row_sum * correction + weights.sum(-1)
    new_acc = acc * correction[..., None] + weights @ values.float()
    return new_max, new_sum, new_acc
    # SOLUTION END


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
    # SOLUTION BEGIN
    num_heads, num_queries, head_dim = q.shape
    out, lse = torch.empty_like(q), torch.empty(num_heads, num_queries, device=q.device)
    for start in range(0, num_queries, tiles[0]):
        rows = slice(start, min(start + tiles[0], num_queries))
        queries = q[:, rows].float() * head_dim**-0.5
        last_seen = offset + torch.arange(rows.start, rows.stop, device=q.device)[:, None]
        acc = torch.zeros_like(queries)
        row_max, row_sum = torch.full_like(acc[..., 0], -math.inf), torch.zeros_like(acc[..., 0])
        num_seen = min(k.shape[1], offset + rows.stop)
        for first in range(0, num_seen, tiles[1]):
            keys, values = (x[:, first : first + tiles[1]].float() for x in (k, v))
            keys, values = (x.repeat_interleave(num_heads // len(k), 0) for x in (keys, values))
            places = first + torch.arange(keys.shape[1], device=q.device)
            scores = (queries @ keys.mT).masked_fill(places > last_seen, -math.inf)
            row_max, row_sum, acc = add_tile(row_max, row_sum, acc, scores, values)
        # The largest weight is 1, so a sum is at least 1, or 0 where nothing was seen.
        out[:, rows] = acc / row_sum.clamp(min=1.0)[..., None]
        lse[:, rows] = row_max + row_sum.log()
    return out, lse
    # SOLUTION END


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
    # SOLUTION BEGIN
    lse = torch.logaddexp(lse_a, lse_b)
    shift = torch.where(lse.isneginf(), 0.0, lse)
    weight_a, weight_b = torch.exp(lse_a - shift), torch.exp(lse_b - shift)
    out = weight_a[..., None] * out_a.float() + weight_b[..., None] * out_b.float()
    return out.to(out_a.dtype), lse
    # SOLUTION END


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    # SOLUTION BEGIN
    return 14, "b"
    # SOLUTION END
