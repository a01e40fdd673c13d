"""Chapter 02, attention: grouped-query heads, one causal mask, many requests laid end to end.

Rows of `q` are the tokens of this step. Rows of `k` and `v` are all tokens of a request that are
known by now: those that were cached before, then those of this step.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from minivllm.course.errors import ExerciseNotStarted


def attend(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """What each query reads: the values it sees, weighted by how well their keys match it.

    A score is the dot product of query and key, divided by the root of `head_dim`. The weights of
    a row are the softmax of the scores it sees. A row that sees nothing is 0. Computed in float32,
    given back in the dtype of `q`.

    Args:
        q: `[num_queries, num_heads, head_dim]`.
        k: `[num_keys, num_kv_heads, head_dim]`; of 6 query heads and 2 KV heads, the query heads
            0, 1, 2 read KV head 0, and 3, 4, 5 read KV head 1.
        v: As `k`.
        visible: `[num_queries, num_keys]`, bool: whether this query sees this key.
    """
    raise ExerciseNotStarted("ch02.attend")


def causal_mask(num_queries: int, num_keys: int, window: int | None = None) -> Tensor:
    """Which keys each query of a request sees: `[num_queries, num_keys]`, bool.

    The queries are the request's last tokens. A token sees itself and those before it; with a
    window, only the last `window` of these, itself included.

    Args:
        num_queries: Tokens of this step: from 1 up to `num_keys`.
        num_keys: All tokens known by now: cached before, and of this step.
        window: At least 1; `None` is no limit.
    """
    raise ExerciseNotStarted("ch02.causal_mask")


def packed_mask(query_start_loc: Tensor, seq_lens: Tensor) -> Tensor:
    """Which keys each row of a whole step sees: `[num_tokens, sum of seq_lens]`, bool.

    Rows are the step's tokens, request after request; columns are all requests' keys, in the same
    order. Within a request it is `causal_mask`; no row sees another request.

    Args:
        query_start_loc: `[num_reqs + 1]`; request `i` has the rows from `[i]` up to `[i + 1]`,
            one at least.
        seq_lens: `[num_reqs]`: how many keys each request has.
    """
    raise ExerciseNotStarted("ch02.packed_mask")


def packed_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    window: int | None = None,
) -> Tensor:
    """Attention of a whole step, as `q`: each request's queries over its own keys.

    Where prompts are long, make no tensor larger than twice the scores of the largest request, all
    heads together. You may call `attend` and `causal_mask`, or PyTorch's
    `F.scaled_dot_product_attention`.

    Args:
        q: `[num_tokens, num_heads, head_dim]`; rows from `query_start_loc[-1]` on are padding,
            hold anything, even NaN, and give 0.
        k: `[num_keys, num_kv_heads, head_dim]`: the first request's keys, then the second's, and
            so on; rows from the sum of `seq_lens` on are padding and hold anything.
        v: As `k`.
        query_start_loc: As in `packed_mask`.
        seq_lens: As in `packed_mask`.
        window: As in `causal_mask`.
    """
    raise ExerciseNotStarted("ch02.packed_attention")


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    raise ExerciseNotStarted("ch02.detective")
