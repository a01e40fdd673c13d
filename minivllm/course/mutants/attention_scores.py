"""Chapter 02: what goes wrong between queries, keys and values.

Most are changes to the solution's text.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.declare import edit, mutant

_SCALE = " * q.shape[-1] ** -0.5"
_SCORES = 'torch.einsum("qhd,khd->hqk", q.float(), k)' + _SCALE
_KEYS = "k = k.float().repeat_interleave(group_size, dim=1)"
_VALUES = "v = v.float().repeat_interleave(group_size, dim=1)"
_HIDDEN = 'scores.masked_fill(~visible, float("-inf"))'
_WEIGHTS = f"weights = {_HIDDEN}.softmax(dim=-1)"
_BLIND = "weights = weights.masked_fill(~visible, 0.0)"
_OUT = 'torch.einsum("hqk,khd->qhd", weights, v)'
_TO_DTYPE = ".to(q.dtype)"

_SCALE_ADVICE = "the factor on the scores: head_dim ** -0.5, once"
_HALF_ADVICE = "the dtype of the scores: near 60, float16 has steps of 1/32"
_HIDE_FIRST = "the order: hide scores first (-inf), then take the softmax"


@mutant(
    "attend.exp_over_sum",
    "a softmax without the maximum taken off first",
    look_at="the softmax: exp(95) is beyond float32, exp(-110) is 0 in it",
)
def _exp_over_sum(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * q.shape[-1] ** -0.5
    weights = scores.masked_fill(~visible, float("-inf")).exp()
    weights = weights / weights.sum(-1, keepdim=True)
    return torch.einsum("hqk,khd->qhd", weights.nan_to_num(0.0), v).to(q.dtype)


@mutant(
    "attend.inplace",
    "the right numbers, but the queries are scaled in place",
    look_at="the operation on q that ends in an underscore",
)
def _inplace(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q.mul_(q.shape[-1] ** -0.5).float(), k)
    weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    weights = weights.masked_fill(~visible, 0.0)
    return torch.einsum("hqk,khd->qhd", weights, v).to(q.dtype)


@mutant("attend.sdpa_call", "the right numbers, from PyTorch's own attention")
def _sdpa_call(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    q32, k32, v32 = (x.float().transpose(0, 1) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q32, k32, v32, attn_mask=visible, enable_gqa=True)
    return out.transpose(0, 1).masked_fill(~visible.any(1)[:, None, None], 0.0).to(q.dtype)


ATTEND = [
    _exp_over_sum,
    _inplace,
    _sdpa_call,
    edit(
        "attend.tile",
        "KV heads tiled (0, 1, 0, 1, ...) instead of repeated (0, 0, ..., 1, 1)",
        (_KEYS, "k = k.float().repeat(1, group_size, 1)"),
        (_VALUES, "v = v.float().repeat(1, group_size, 1)"),
        look_at="the line that makes more KV heads: neighbours share one",
        try_it="torch.tensor([0, 1]).repeat(3), and the same with repeat_interleave",
    ),
    edit(
        "attend.tile_keys",
        "keys tiled (0, 1, 0, 1, ...), values repeated (0, 0, ..., 1, 1)",
        (_KEYS, "k = k.float().repeat(1, group_size, 1)"),
    ),
    edit(
        "attend.tile_values",
        "values tiled (0, 1, 0, 1, ...), keys repeated (0, 0, ..., 1, 1)",
        (_VALUES, "v = v.float().repeat(1, group_size, 1)"),
    ),
    edit(
        "attend.first_kv_head",
        "all query heads read KV head 0",
        (_KEYS, "k = k[:, :1].float().expand(-1, q.shape[1], -1)"),
        (_VALUES, "v = v[:, :1].float().expand(-1, q.shape[1], -1)"),
        look_at="which KV head a query head reads: head // group_size",
    ),
    edit(
        "attend.group_is_num_kv_heads",
        "each KV head repeated as often as there are KV heads",
        ("q.shape[1] // k.shape[1]", "k.shape[1]"),
        look_at="the size of a group: query heads divided by KV heads",
    ),
    edit(
        "attend.no_scale",
        "scores that are not divided by the root of head_dim",
        (_SCALE, ""),
        look_at=_SCALE_ADVICE,
    ),
    edit(
        "attend.scale_dmodel",
        "scores divided by the root of num_heads * head_dim",
        (_SCALE, " * (q.shape[1] * q.shape[-1]) ** -0.5"),
        look_at=_SCALE_ADVICE,
    ),
    edit(
        "attend.scale_twice",
        "scores divided by head_dim: scaled twice, or without the root",
        (_SCALE, " / q.shape[-1]"),
        look_at=_SCALE_ADVICE,
    ),
    edit(
        "attend.scale_up",
        "scores multiplied by the root of head_dim",
        (_SCALE, " * q.shape[-1] ** 0.5"),
        look_at=_SCALE_ADVICE,
    ),
    edit(
        "attend.scale_after_softmax",
        "the factor on the weights instead of the scores",
        (_SCALE, ""),
        (_WEIGHTS, f"{_WEIGHTS} * q.shape[-1] ** -0.5"),
        look_at=_SCALE_ADVICE,
    ),
    edit(
        "attend.softmax_dim",
        "a softmax over the queries",
        ("softmax(dim=-1)", "softmax(dim=1)"),
        look_at="the axis of the softmax: a query's weights over its keys sum to 1",
    ),
    edit(
        "attend.softmax_heads",
        "a softmax over the heads",
        ("softmax(dim=-1)", "softmax(dim=0)"),
        look_at="the axis of the softmax: a query's weights over its keys sum to 1",
    ),
    edit(
        "attend.view_no_transpose",
        "heads and queries mixed up: a reshape where a transpose is due",
        (_OUT, 'torch.einsum("hqk,khd->hqd", weights, v).reshape(q.shape)'),
        look_at="the last step: [heads, queries, dim] needs a transpose, not a reshape",
        try_it="torch.arange(6).view(2, 3).T, and torch.arange(6).view(2, 3).reshape(3, 2)",
    ),
    edit(
        "attend.view_queries",
        "heads of q made with a reshape where a transpose is due",
        (
            'torch.einsum("qhd,khd->hqk", q.float(), k)',
            'torch.einsum("hqd,khd->hqk", q.float().reshape(q.shape[1], len(q), -1), k)',
        ),
        look_at="the shape of q: [queries, heads, dim] to [heads, queries, dim] is a transpose",
    ),
    edit(
        "attend.values_are_keys",
        "the keys read as values",
        (_OUT, 'torch.einsum("hqk,khd->qhd", weights, k)'),
        look_at="what the weights are multiplied with",
    ),
    edit(
        "attend.fp16_softmax",
        "scores in the dtype of q instead of float32",
        (_WEIGHTS, _WEIGHTS.replace("scores.", "scores.to(q.dtype).")),
        (_OUT, _OUT.replace("weights", "weights.float()")),
        look_at=_HALF_ADVICE,
    ),
    edit(
        "attend.half_product",
        "scores from a product in the dtype of q, made float32 too late",
        (
            'torch.einsum("qhd,khd->hqk", q.float(), k)',
            'torch.einsum("qhd,khd->hqk", q, k.to(q.dtype)).float()',
        ),
        same_as="attend.fp16_softmax",
    ),
    edit(
        "attend.all_half",
        "everything computed in the dtype of q",
        (_KEYS, _KEYS.replace(".float()", "")),
        (_VALUES, _VALUES.replace(".float()", "")),
        ("q.float(), k", "q, k"),
        same_as="attend.fp16_softmax",
    ),
    edit(
        "attend.stays_float32",
        "the right numbers, in float32 whatever q is",
        (_TO_DTYPE, ""),
        look_at="the dtype of what is returned: that of q",
    ),
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
]
