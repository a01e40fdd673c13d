"""Chapter 02: what goes wrong in the causal mask, of one request and of a whole step."""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.declare import edit, mutant

_QUERIES = "queries = torch.arange(num_keys - num_queries, num_keys)[:, None]"
_SEES = "visible = keys <= queries"
_WINDOW = "visible &= keys > queries - window"
_SEE_SELF = "the comparison on the diagonal: a token sees itself, and none that comes later"
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
    ),
    edit(
        "causal_mask.window_falsy",
        "a window of 1 taken for no window",
        ("if window is not None:", "if window is not None and window > 1:"),
    ),
]

_OWNER_OF_ROW = "owner_of_row = requests.repeat_interleave(query_start_loc.diff())"
_SAME = "(owner_of_row[:, None] == owner_of_key)"
_CAUSAL = "(keys <= rows[:, None])"
_ROWS = "(num_cached - first_rows)[owner_of_row]"
_KEYS = "keys = torch.arange(len(owner_of_key)) - first_keys[owner_of_key]"
_CACHED = "num_cached = seq_lens - query_start_loc.diff()"

PACKED_MASK = [
    edit(
        "packed_mask.cross_seq",
        "rows see other requests' keys up to their own position",
        (f"{_SAME} & {_CAUSAL}", _CAUSAL),
        look_at="the condition that row and key belong to the same request",
    ),
    edit(
        "packed_mask.one_sequence",
        "the step taken for one long request",
        (
            f"{_SAME} & {_CAUSAL}",
            "torch.ones(len(rows), len(keys)).tril(len(keys) - len(rows)) > 0",
        ),
        look_at="the condition that row and key belong to the same request",
    ),
    edit(
        "packed_mask.earlier_requests",
        "rows see all requests before their own, too",
        (_SAME, "(owner_of_row[:, None] >= owner_of_key)"),
        (_CAUSAL, "((keys <= rows[:, None]) | (owner_of_row[:, None] > owner_of_key))"),
        look_at="the condition that row and key belong to the same request",
    ),
    edit(
        "packed_mask.no_offset",
        "a request's rows stand at 0, 1, 2, ... whatever is cached",
        (_CACHED, "num_cached = 0 * seq_lens"),
        look_at="the position of a row: the request's cached tokens come before it",
    ),
    edit(
        "packed_mask.whole_request",
        "rows see all of their own request, later tokens included",
        (f"{_SAME} & {_CAUSAL}", _SAME),
        look_at="the second condition: no key after the row's own position",
        try_it="print the positions of rows and keys: both begin at 0, and seq_lens counts all",
    ),
    edit(
        "packed_mask.plus1",
        "each row sees one token too many: the one after it",
        (_CAUSAL, "(keys <= rows[:, None] + 1)"),
    ),
    edit(
        "packed_mask.minus1",
        "no row sees its own token",
        (_CAUSAL, "(keys < rows[:, None])"),
    ),
    edit(
        "packed_mask.tril_transposed",
        "later tokens instead of earlier ones",
        (_CAUSAL, "(keys >= rows[:, None])"),
    ),
    edit(
        "packed_mask.row_numbers",
        "the row's number taken for its position in the request",
        ("torch.arange(len(owner_of_row)) + " + _ROWS, "torch.arange(len(owner_of_row))"),
        look_at="where a row stands: its number minus its request's first row, plus what is cached",
    ),
    edit(
        "packed_mask.rows_not_reset",
        "rows counted through the step: the request's first row is not taken off",
        (_ROWS, "num_cached[owner_of_row]"),
        look_at="where a row stands: its number minus its request's first row, plus what is cached",
    ),
    edit(
        "packed_mask.column_numbers",
        "the column's number taken for the key's position in its request",
        (_KEYS, "keys = torch.arange(len(owner_of_key))"),
        look_at="where a key stands: its column minus its request's first column",
    ),
    edit(
        "packed_mask.keys_start_at_rows",
        "keys taken to begin where the request's rows begin",
        (_KEYS, "keys = torch.arange(len(owner_of_key)) - first_rows[owner_of_key]"),
        look_at="where a request's keys begin: at the sum of the seq_lens before it",
    ),
    edit(
        "packed_mask.ends_for_starts",
        "the running sum of seq_lens taken for where keys begin: it is where they end",
        ("seq_lens.cumsum(0) - seq_lens", "seq_lens.cumsum(0)"),
        same_as="packed_mask.whole_request",
    ),
    edit(
        "packed_mask.seq_lens_are_cached",
        "seq_lens taken for the cached tokens, without the new ones",
        (_CACHED, "num_cached = seq_lens"),
        same_as="packed_mask.whole_request",
    ),
    edit(
        "packed_mask.prefill_only_new",
        "rows see their request's new tokens and none that was cached",
        (_CAUSAL, _CAUSAL + " & (keys >= num_cached[owner_of_key])"),
        look_at="the columns of a request's cached tokens: all its rows see them",
    ),
    edit(
        "packed_mask.only_if_prefill",
        "causal for whole prompts only: with cached tokens, rows see their whole request",
        (_CAUSAL, f"({_CAUSAL} | (num_cached > 0)[owner_of_key])"),
    ),
    edit(
        "packed_mask.first_offset",
        "the first request's cached tokens taken for everyone's",
        (_CACHED, "num_cached = (seq_lens - query_start_loc.diff())[0]"),
        look_at="how many tokens are cached: each request has its own number",
    ),
    edit(
        "packed_mask.inverted",
        "True for what is hidden",
        (f"{_SAME} & {_CAUSAL}", f"~({_SAME} & {_CAUSAL})"),
    ),
    edit(
        "packed_mask.integers",
        "the right mask as 0 and 1",
        (f"{_SAME} & {_CAUSAL}", f"({_SAME} & {_CAUSAL}).int()"),
        look_at="the dtype: bool",
    ),
    edit(
        "packed_mask.new_keys_only",
        "a column for each new token only",
        (_OWNER_OF_ROW, f"{_OWNER_OF_ROW}\n    seq_lens = query_start_loc.diff()"),
        look_at="the columns: seq_lens says how many each request has",
    ),
    edit(
        "packed_mask.per_request_rows",
        "a row for every key: the whole requests' mask",
        (_OWNER_OF_ROW, "owner_of_row = requests.repeat_interleave(seq_lens)"),
        look_at="the rows: query_start_loc says how many each request has",
    ),
]
