"""Chapter 02: what goes wrong with the padding and the dtype of a whole step's output."""

from __future__ import annotations

from minivllm.course.declare import edit

_ZEROS = "out = torch.zeros_like(q)"
_SPANS = "rows, keys = slice(first_row, end), slice(first_key, first_key + seq_len)"

PADDING = [
    edit(
        "packed_attention.padding_unwritten",
        "padding rows that are never written",
        (_ZEROS, "out = torch.empty_like(q)"),
        look_at="what the output holds before the loop: torch.empty is not zero",
    ),
    edit(
        "packed_attention.padding_copied",
        "padding rows of q given back",
        (_ZEROS, "out = q.clone()"),
        look_at="what the output holds before the loop: padding rows give 0",
    ),
    edit(
        "packed_attention.padding_cut_off",
        "padding rows left out",
        ("return out", "return out[: int(query_start_loc[-1])]"),
        look_at="the shape: a row for every row of q",
    ),
    edit(
        "packed_attention.padding_times_zero",
        "padding rows of q times 0: 0 * NaN is NaN",
        (_ZEROS, "out = 0 * q"),
        look_at="what the output holds before the loop: zeros that owe nothing to q",
    ),
    edit(
        "packed_attention.padding_is_rows",
        "padding rows taken for rows of the last request",
        (
            _SPANS,
            "end = len(q) if end == int(query_start_loc[-1]) else end\n        " + _SPANS,
        ),
        look_at="where the last request's rows end: at query_start_loc[-1], not at len(q)",
    ),
    edit(
        "packed_attention.padding_is_keys",
        "padding taken for keys of the last request",
        (
            _SPANS,
            "seq_len = len(k) - first_key if end == int(query_start_loc[-1]) else seq_len\n        "
            + _SPANS,
        ),
        look_at="where the last request's keys end: at the sum of seq_lens, not at len(k)",
    ),
    edit(
        "packed_attention.stays_float32",
        "the right numbers, in float32 whatever q is",
        (_ZEROS, "out = torch.zeros(q.shape)"),
        look_at="the dtype of what is returned: that of q",
        try_it="torch.zeros(2).dtype, whatever q is",
    ),
]
