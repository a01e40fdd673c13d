"""Chapter 02: what goes wrong in the causal mask of one request."""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.declare import edit, mutant

_QUERIES = "queries = torch.arange(num_keys - num_queries, num_keys)[:, None]"
_SEES = "visible = keys <= queries"
_WINDOW = "visible &= keys > queries - window"
_SEE_SELF = "the comparison on the diagonal: a token sees itself, and none that comes later"
_LAST_IS_LAST = "the positions of the queries: the last one stands at num_keys - 1"
_TRY_WINDOW = "causal_mask(2, 5, 3).int(): [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]"
_COUNT_WINDOW = "how many keys the window leaves: `window` of them, the token itself included"


@mutant(
    "causal_mask.additive",
    "a mask of 0 and -inf, to be added",
    look_at="the dtype: True for what is seen",
)
def _additive(num_queries: int, num_keys: int, window: int | None = None) -> Tensor:
    queries = torch.arange(num_keys - num_queries, num_keys)[:, None]
    keys = torch.arange(num_keys)
    hidden = keys > queries
    if window is not None:
        hidden |= keys <= queries - window
    return torch.zeros(num_queries, num_keys).masked_fill(hidden, float("-inf"))


CAUSAL_MASK = [
    _additive,
    edit(
        "causal_mask.no_offset",
        "queries that stand at 0, 1, 2, ... whatever is cached",
        (_QUERIES, "queries = torch.arange(num_queries)[:, None]"),
        look_at="the positions of the queries: they are the last ones, not the first",
    ),
    edit(
        "causal_mask.plus1",
        "each query sees one token too many: the one after it",
        (_SEES, "visible = keys <= queries + 1"),
        look_at=_SEE_SELF,
    ),
    edit(
        "causal_mask.minus1",
        "no query sees itself",
        (_SEES, "visible = keys < queries"),
        look_at=_SEE_SELF,
    ),
    edit(
        "causal_mask.everything",
        "every query sees every key: no mask",
        (_SEES, "visible = keys <= queries + num_keys"),
        look_at="the comparison of positions: a token sees none that comes later",
    ),
    edit(
        "causal_mask.only_if_prefill",
        "a mask for whole prompts only: with cached tokens, every query sees all",
        (_SEES, f"{_SEES} if num_queries == num_keys else keys <= queries + num_keys"),
        look_at="a chunk after cached tokens: its first queries must not see its last",
    ),
    edit(
        "causal_mask.prefill_only_new",
        "new tokens see each other, and none that was cached",
        (_SEES, "visible = (keys <= queries) & (keys >= num_keys - num_queries)"),
        look_at="the columns of the cached tokens: every query sees them",
    ),
    edit(
        "causal_mask.tril_transposed",
        "the other triangle: later tokens instead of earlier ones",
        (_SEES, "visible = keys >= queries"),
        look_at="the direction of the comparison: a key's position is at most the query's",
    ),
    edit(
        "causal_mask.inverted",
        "True for what is hidden",
        ("return visible", "return ~visible"),
        look_at="what True means: this query sees this key",
    ),
    edit(
        "causal_mask.transposed",
        "keys as rows and queries as columns",
        ("return visible", "return visible.T"),
        look_at="the axes: one row for each query",
    ),
    edit(
        "causal_mask.square",
        "the mask of the whole request, cached tokens' rows included",
        (_QUERIES, "queries = torch.arange(num_keys)[:, None]"),
        look_at="the rows: one for each query, none for cached tokens",
    ),
    edit(
        "causal_mask.uint8",
        "the right mask as 0 and 1",
        ("return visible", "return visible.to(torch.uint8)"),
        look_at="the dtype: bool",
    ),
    edit(
        "causal_mask.last_position",
        "every query at the last position",
        (_QUERIES, "queries = torch.tensor([num_keys - 1]).expand(num_queries, 1)"),
        look_at="the positions of the queries: one after the other, up to the last",
    ),
    edit(
        "causal_mask.no_window",
        "no window",
        (_WINDOW, "pass"),
        look_at="the argument window",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_plus1",
        "a window of one token too many",
        (_WINDOW, "visible &= keys >= queries - window"),
        look_at=_COUNT_WINDOW,
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_minus1",
        "a window of one token too few",
        (_WINDOW, "visible &= keys > queries - window + 1"),
        look_at=_COUNT_WINDOW,
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_alone",
        "with a window, later tokens are seen, too",
        (_WINDOW, "visible = keys > queries - window"),
        look_at="the window is a second condition: & joins it with the first",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_or",
        "with a window, every query sees every key",
        (_WINDOW, "visible |= keys > queries - window"),
        look_at="the window is a second condition: & joins it with the first",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_no_offset",
        "a window counted from the row's number, not from its position",
        (_WINDOW, "visible &= keys > queries - (num_keys - num_queries) - window"),
        look_at="the window's edge: it moves with the position of the query",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_of_the_last",
        "the last query's window used for all",
        (_WINDOW, "visible &= keys >= num_keys - window"),
        look_at="the window's edge: it moves with the position of the query",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_only_cached",
        "a window over the cached tokens only: new ones are all seen",
        (_WINDOW, "visible &= (keys > queries - window) | (keys >= num_keys - num_queries)"),
        look_at="the window's edge: it hides new tokens, too",
        try_it="causal_mask(4, 4, 2).int(): its last row is [0, 0, 1, 1]",
    ),
    edit(
        "causal_mask.window_falsy",
        "a window of 1 taken for no window",
        ("if window is not None:", "if window is not None and window > 1:"),
        look_at="the condition on window: 1 is a window, None is none",
        try_it="causal_mask(3, 7, 1).sum(1): 1, 1, 1",
    ),
    edit(
        "causal_mask.positions_plus1",
        "all queries one position too late",
        (_QUERIES, "queries = torch.arange(num_keys - num_queries + 1, num_keys + 1)[:, None]"),
        look_at=_LAST_IS_LAST,
    ),
    edit(
        "causal_mask.positions_minus1",
        "all queries one position too early",
        (_QUERIES, "queries = torch.arange(num_keys - num_queries - 1, num_keys - 1)[:, None]"),
        look_at=_LAST_IS_LAST,
    ),
    edit(
        "causal_mask.offset_is_num_queries",
        "queries that begin at position num_queries instead of behind the cached tokens",
        (_QUERIES, "queries = torch.arange(num_queries, 2 * num_queries)[:, None]"),
        look_at="the first query's position: as many tokens come before it as are cached",
    ),
    edit(
        "causal_mask.new_columns_only",
        "a column for each new token only",
        ("keys = torch.arange(num_keys)", "keys = torch.arange(num_queries)"),
        look_at="the columns: one for each key, cached or new",
    ),
    edit(
        "causal_mask.floats",
        "the right mask as 0.0 and 1.0",
        ("return visible", "return visible.float()"),
        look_at="the dtype: bool",
    ),
    edit(
        "causal_mask.window_both_sides",
        "with a window, later tokens are seen as far as earlier ones",
        (_WINDOW, "visible = (keys - queries).abs() < window"),
        look_at="the window looks back only: & joins it with the first condition",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_of_the_first",
        "the first query's window used for all",
        (_WINDOW, "visible &= keys > num_keys - num_queries - window"),
        look_at="the window's edge: it moves with the position of the query",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_before_the_cached",
        "a window counted back from the first new token, for all queries",
        (_WINDOW, "visible &= keys >= num_keys - num_queries - window"),
        look_at="the window's edge: it moves with the position of the query",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.window_only_new",
        "a window over the new tokens only: cached ones are all seen",
        (_WINDOW, "visible &= (keys > queries - window) | (keys < num_keys - num_queries)"),
        look_at="the window's edge: it hides cached tokens, too",
        try_it=_TRY_WINDOW,
    ),
    edit(
        "causal_mask.no_window_for_decode",
        "no window in a decode step",
        ("if window is not None:", "if window is not None and num_queries > 1:"),
        look_at="the special case for one query: there is none",
        try_it="causal_mask(1, 9, 4).int(): 5 zeros, 4 ones",
    ),
    edit(
        "causal_mask.no_window_for_prompt",
        "no window in a whole prompt",
        ("if window is not None:", "if window is not None and num_queries < num_keys:"),
        look_at="the special case for whole prompts: there is none",
        try_it="causal_mask(6, 6, 2).sum(1): 1, 2, 2, 2, 2, 2",
    ),
]
