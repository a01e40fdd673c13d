"""Chapter 02: what goes wrong in the mask of a whole step."""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.checks.attention_batches import spans
from minivllm.course.checks.attention_material import seen_keys
from minivllm.course.declare import edit, mutant

_OWNER_OF_ROW = "owner_of_row = requests.repeat_interleave(query_start_loc.diff())"
_OWNER_OF_KEY = "owner_of_key = requests.repeat_interleave(seq_lens)"
_SAME = "(owner_of_row[:, None] == owner_of_key)"
_CAUSAL = "(keys <= rows[:, None])"
_ROWS = "(num_cached - first_rows)[owner_of_row]"
_KEYS = "keys = torch.arange(len(owner_of_key)) - first_keys[owner_of_key]"
_CACHED = "num_cached = seq_lens - query_start_loc.diff()"


@mutant(
    "packed_mask.columns_at_rows",
    "each request's mask put at the column that has the number of its first row",
    look_at="where a request's columns begin: at the sum of the seq_lens before it",
)
def _columns_at_rows(query_start_loc: Tensor, seq_lens: Tensor) -> Tensor:
    mask = torch.zeros(int(query_start_loc[-1]), int(seq_lens.sum()), dtype=torch.bool)
    for rows, keys in spans(query_start_loc, seq_lens):
        num_keys = keys.stop - keys.start
        seen = seen_keys(rows.stop - rows.start, num_keys, None)
        mask[rows, rows.start : rows.start + num_keys] = seen
    return mask


PACKED_MASK = [
    _columns_at_rows,
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
        look_at="the comparison of positions: a row sees its own token, and none that comes later",
    ),
    edit(
        "packed_mask.minus1",
        "no row sees its own token",
        (_CAUSAL, "(keys < rows[:, None])"),
        look_at="the comparison of positions: a row sees its own token, and none that comes later",
    ),
    edit(
        "packed_mask.tril_transposed",
        "later tokens instead of earlier ones",
        (_CAUSAL, "(keys >= rows[:, None])"),
        look_at="the direction of the comparison: a key's position is at most the row's",
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
        look_at="a chunk after cached tokens: its first rows must not see its last",
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
        look_at="what True means: this row sees this key",
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
    edit(
        "packed_mask.boundary_to_the_left",
        "the first row and key of a request taken for the last of the one before",
        (
            _OWNER_OF_ROW,
            "owner_of_row = torch.bucketize(torch.arange(int(query_start_loc[-1])), "
            "query_start_loc[1:])",
        ),
        (
            _OWNER_OF_KEY,
            "owner_of_key = torch.bucketize(torch.arange(int(seq_lens.sum())), seq_lens.cumsum(0))",
        ),
        look_at="whose the first row of a request is: searchsorted and bucketize need right=True",
        try_it="torch.bucketize(torch.tensor(1), torch.tensor([1, 3])), then with right=True",
    ),
    edit(
        "packed_mask.last_left_out",
        "the last request left out",
        (_SAME, f"{_SAME} & (owner_of_key < len(requests) - 1)"),
        look_at="the loop: query_start_loc has one more number than there are requests",
    ),
    edit(
        "packed_mask.eight_requests",
        "requests after the eighth left out",
        (_SAME, f"{_SAME} & (owner_of_key < 8)"),
        look_at="how many requests there are: len(seq_lens)",
    ),
    edit(
        "packed_mask.floats",
        "the right mask as 0.0 and 1.0",
        (f"{_SAME} & {_CAUSAL}", f"({_SAME} & {_CAUSAL}).float()"),
        look_at="the dtype: bool",
    ),
    edit(
        "packed_mask.all_keys_from_zero",
        "columns for the longest request only, shared by all",
        (_OWNER_OF_KEY, "owner_of_key = torch.zeros(int(seq_lens.max()), dtype=torch.int64)"),
        (f"{_SAME} & {_CAUSAL}", _CAUSAL),
        look_at="the columns: each request has its own, one after the other",
    ),
    edit(
        "packed_mask.columns_twice",
        "columns for seq_lens and for the new tokens, which seq_lens counts already",
        (_OWNER_OF_ROW, f"{_OWNER_OF_ROW}\n    seq_lens = seq_lens + query_start_loc.diff()"),
        look_at="the columns: seq_lens counts cached and new tokens together",
    ),
]
