"""Chapter 02: what goes wrong with keys that a query may not see.

All are changes to the solution's text. Next file to read: `attention_masks.py`.
"""

from __future__ import annotations

from minivllm.course.declare import edit

_HIDDEN = 'scores.masked_fill(~visible, float("-inf"))'
_WEIGHTS = f"weights = {_HIDDEN}.softmax(dim=-1)"
_BLIND = "weights = weights.masked_fill(~visible, 0.0)"
_HIDE_FIRST = "the order: hide scores first (-inf), then take the softmax"

HIDDEN = [
    edit(
        "attend.no_mask",
        "every query sees every key",
        (_WEIGHTS, "weights = scores.softmax(dim=-1)"),
        (_BLIND, "weights = weights"),
        look_at="where visible is used",
    ),
    edit(
        "attend.mask_inverted",
        "the keys that are hidden, seen; and those that are seen, hidden",
        (_HIDDEN, 'scores.masked_fill(visible, float("-inf"))'),
        (_BLIND, "weights = weights.masked_fill(visible, 0.0)"),
        look_at="what True means: this query sees this key",
    ),
    edit(
        "attend.mask_mul",
        "hidden weights set to 0 after the softmax: the rest no longer sums to 1",
        (_WEIGHTS, "weights = scores.softmax(dim=-1)"),
        look_at=_HIDE_FIRST,
        try_it="the sum of a row's weights",
    ),
    edit(
        "attend.mask_mul_divided",
        "hidden weights set to 0 after the softmax, the rest divided by its sum",
        (_WEIGHTS, "weights = scores.softmax(dim=-1)"),
        (
            _BLIND,
            f"{_BLIND}\n    weights = (weights / weights.sum(-1, keepdim=True)).nan_to_num(0.0)",
        ),
        look_at=_HIDE_FIRST,
        try_it="torch.tensor([200., 1., 2.]).softmax(0): what is left for the last two?",
    ),
    edit(
        "attend.zero_fill",
        "hidden scores set to 0 instead of -inf",
        ('float("-inf")', "0.0"),
        (_BLIND, "weights = weights"),
        look_at="what hidden scores are filled with: exp(0) is 1",
    ),
    edit(
        "attend.scores_times_mask",
        "scores times the mask, a hidden one being 0, and no weight taken away",
        (_HIDDEN, "(scores * visible)"),
        (_BLIND, "weights = weights"),
        same_as="attend.zero_fill",
    ),
    edit(
        "attend.small_fill",
        "hidden scores set to -100, which is more than some real scores",
        ('float("-inf")', "-100.0"),
        (_BLIND, "weights = weights.masked_fill(~visible.any(1)[:, None], 0.0)"),
        look_at="what hidden scores are filled with: real scores may be below -100",
    ),
    edit(
        "attend.small_fill_10_000",
        "hidden scores set to -10,000, which is more than some real scores",
        ('float("-inf")', "-10_000.0"),
        (_BLIND, "weights = weights.masked_fill(~visible.any(1)[:, None], 0.0)"),
        look_at="what hidden scores are filled with: real scores may be lower; only -inf is safe",
    ),
    edit(
        "attend.nan_rows",
        "NaN in a row that sees nothing",
        (_BLIND, "weights = weights"),
        look_at="the row that sees nothing: its softmax is 0 / 0",
        try_it="torch.full((3,), -torch.inf).softmax(0)",
    ),
    edit(
        "attend.uniform_rows",
        "in a row that sees nothing, the mean of all values",
        ('float("-inf")', "torch.finfo(scores.dtype).min"),
        (_BLIND, "weights = weights"),
        look_at="the row that sees nothing: equal scores, however low, give equal weights",
        try_it="torch.full((3,), -1e30).softmax(0)",
    ),
    edit(
        "attend.dtype",
        "a mask to add, made by multiplying with -inf: 0 * -inf is NaN",
        (_HIDDEN, '(scores + ~visible * float("-inf"))'),
        look_at="how -inf gets into the scores: 0 * -inf is NaN",
        try_it="torch.tensor([False, True]) * -torch.inf",
    ),
    edit(
        "attend.bool_added",
        "the mask added to the scores as 0 and 1",
        (_HIDDEN, "(scores + visible)"),
        (_BLIND, "weights = weights"),
        look_at="how the mask gets into the scores: a hidden one must become -inf",
    ),
    edit(
        "attend.left_pad",
        "keys that no query sees, seen by all: padding is not hidden",
        (_WEIGHTS, f"visible = visible | ~visible.any(0)\n    {_WEIGHTS}"),
        look_at="columns that are hidden from every row",
    ),
    edit(
        "attend.own_mask",
        "a causal mask of your own instead of the one that is given",
        (
            _WEIGHTS,
            "visible = torch.ones_like(visible).tril(len(k) - len(q))\n    " + _WEIGHTS,
        ),
        look_at="visible: it comes as an argument, and need not be a triangle",
    ),
    edit(
        "attend.first_row_mask",
        "the first query's mask used for all queries",
        (_WEIGHTS, f"visible = visible[:1].expand_as(visible)\n    {_WEIGHTS}"),
    ),
    edit(
        "attend.visible_inplace",
        "the right numbers, but visible is turned over in place",
        (_HIDDEN, 'scores.masked_fill(visible.logical_not_(), float("-inf"))'),
        (_BLIND, "weights = weights.masked_fill(visible, 0.0)"),
        look_at="the operation on visible that ends in an underscore",
        try_it="call it twice with the same visible, and compare",
    ),
]
