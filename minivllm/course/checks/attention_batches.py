"""What the checks of chapter 02 are made of, for whole steps: several requests, laid end to end.

A step is written as pairs of (queries, keys): (5, 5) is a prompt, (3, 8) a chunk, (1, 9) a decode.
Next file to read: `ch02.py`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from minivllm.course.checks.attention_material import Make, Mine, read, seen_keys
from minivllm.course.exercise import Arguments

Step = Sequence[tuple[int, int]]

MIXED: Step = ((3, 8), (1, 9), (5, 5), (1, 1), (2, 6))
DECODES: Step = ((1, 7), (1, 1), (1, 12), (1, 4))
# The scores of the largest request are more than all rows, and less than all requests padded to it.
LARGE: Step = ((24, 40), (20, 33), (18, 36), *8 * ((1, 3),))


def _starts(lens: Sequence[int]) -> list[int]:
    return list(accumulate(lens, initial=0))


def spans(query_start_loc: Tensor, seq_lens: Tensor) -> list[tuple[slice, slice]]:
    """For each request: its rows, and its keys."""
    rows, keys = query_start_loc.tolist(), _starts(seq_lens.tolist())
    return [
        (slice(rows[i], rows[i + 1]), slice(keys[i], keys[i + 1])) for i in range(len(seq_lens))
    ]


# --- right answers -------------------------------------------------------------------------------


def block_mask(query_start_loc: Tensor, seq_lens: Tensor) -> Tensor:
    """A causal mask for each request, put into its own corner."""
    mask = torch.zeros(int(query_start_loc[-1]), int(seq_lens.sum()), dtype=torch.bool)
    for rows, keys in spans(query_start_loc, seq_lens):
        mask[rows, keys] = seen_keys(rows.stop - rows.start, keys.stop - keys.start, None)
    return mask


def read_all(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    window: int | None = None,
) -> Tensor:
    """Each request's attention; 0 where there is none."""
    out = torch.zeros_like(q)
    for rows, keys in spans(query_start_loc, seq_lens):
        visible = seen_keys(rows.stop - rows.start, keys.stop - keys.start, window)
        out[rows] = read(q[rows], k[keys], v[keys], visible)
    return out


# --- inputs --------------------------------------------------------------------------------------


def metadata(step: Step, dtype: torch.dtype = torch.int64) -> Arguments:
    """What the engine says of a step: where each request's rows begin, and how long it is."""
    queries, keys = zip(*step, strict=True)
    return {
        "query_start_loc": torch.tensor(_starts(queries), dtype=dtype),
        "seq_lens": torch.tensor(keys, dtype=dtype),
    }


def random_step(gen: torch.Generator) -> Step:
    """Two to five requests of 1 to 9 tokens, some of them new."""
    keys = torch.randint(1, 10, (int(torch.randint(2, 6, (1,), generator=gen)),), generator=gen)
    return [(int(torch.randint(1, n + 1, (1,), generator=gen)), n) for n in keys.tolist()]


def some_mask(gen: torch.Generator) -> Arguments:
    """Queries, keys and, every other time, a window, for `causal_mask`."""
    num_keys = int(torch.randint(6, 14, (1,), generator=gen))
    num_queries = int(torch.randint(2, num_keys, (1,), generator=gen))
    window = int(torch.randint(2, num_keys, (1,), generator=gen)) if num_keys % 2 else None
    return {"num_queries": num_queries, "num_keys": num_keys, "window": window}


def batch(
    step: Step,
    window: int | None = None,
    padding: int = 0,
    heads: tuple[int, int, int] = (6, 2, 8),
) -> Make:
    """Random heads for a step, with int32 metadata as the engine's; padding may be NaN.

    `heads` is how many query heads, how many KV heads, and their size.
    """
    num_heads, num_kv_heads, head_dim = heads

    def make(gen: torch.Generator) -> Arguments:
        places = metadata(step, torch.int32)
        num_tokens, num_keys = int(places["query_start_loc"][-1]), int(places["seq_lens"].sum())

        def rows(number: int, heads: int) -> Tensor:
            x = torch.full((number + padding, heads, head_dim), math.nan)
            x[:number] = torch.randn(number, heads, head_dim, generator=gen)
            return x

        q = rows(num_tokens, num_heads)
        q[num_tokens : num_tokens + padding // 2] = 7.0  # the other half stays NaN
        k, v = rows(num_keys, num_kv_heads), rows(num_keys, num_kv_heads)
        return {"q": q, "k": k, "v": v, **places, "window": window}

    return make


def random_batch(gen: torch.Generator) -> Arguments:
    """A random step."""
    return batch(random_step(gen))(gen)


def largest_scores(arguments: Arguments) -> int:
    """Twice the scores of the largest request: room for the step's output and some copies."""
    pairs = spans(arguments["query_start_loc"], arguments["seq_lens"])
    areas = ((rows.stop - rows.start) * (keys.stop - keys.start) for rows, keys in pairs)
    return int(2 * arguments["q"].shape[1] * max(areas))


# --- properties ----------------------------------------------------------------------------------


def chunk_of_prompt(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """The mask of a chunk, and the last rows of the whole prompt's."""
    return mine(4, 11, None), mine(11, 11, None)[-4:]


def wide_window(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """A window as long as the request, and none."""
    return mine(4, 11, 11), mine(4, 11, None)


def one_of_mask(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """The third request's corner of a step's mask, and its mask alone."""
    alone = mine(*metadata(MIXED[2:3]).values())
    rows, keys = spans(*metadata(MIXED).values())[2]
    return mine(*metadata(MIXED).values())[rows, keys], alone


def alone(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Each request in a step of its own, and all in one step."""
    q, k, v, query_start_loc, seq_lens, _ = batch(MIXED)(gen).values()
    parts = []
    for (rows, keys), pair in zip(spans(query_start_loc, seq_lens), MIXED, strict=True):
        parts.append(mine(q[rows], k[keys], v[keys], *metadata([pair]).values(), None))
    return torch.cat(parts), mine(q, k, v, query_start_loc, seq_lens, None)


def chunked(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """A prompt in three chunks, and in one piece."""
    q, k, v, query_start_loc, seq_lens, _ = batch([(9, 9)])(gen).values()
    parts = []
    for first, end in ((0, 4), (4, 8), (8, 9)):
        places = metadata([(end - first, end)]).values()
        parts.append(mine(q[first:end], k[:end], v[:end], *places, None))
    return torch.cat(parts), mine(q, k, v, query_start_loc, seq_lens, None)
