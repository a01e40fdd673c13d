"""Chapter 02: what goes wrong between queries, keys and values: heads, scale, axes, dtypes.

Most are changes to the solution's text. Next file to read: `attention_hidden.py`.
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
_OUT = 'torch.einsum("hqk,khd->qhd", weights, v)'
_TO_DTYPE = ".to(q.dtype)"

_NEIGHBOURS = "the line that makes more KV heads: neighbours share one"
_TRY_REPEAT = "torch.tensor([0, 1]).repeat(3), and the same with repeat_interleave"
_SCALE_ADVICE = "the factor on the scores: head_dim ** -0.5, once"
_TRY_SHAPE = "print(q.shape): head_dim is the last of the three"
_HALF_ADVICE = "the dtype of the scores: near 60, float16 has steps of 1/32"


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


SCORES = [
    _exp_over_sum,
    _inplace,
    _sdpa_call,
    edit(
        "attend.tile",
        "KV heads tiled (0, 1, 0, 1, ...) instead of repeated (0, 0, ..., 1, 1)",
        (_KEYS, "k = k.float().repeat(1, group_size, 1)"),
        (_VALUES, "v = v.float().repeat(1, group_size, 1)"),
        look_at=_NEIGHBOURS,
        try_it=_TRY_REPEAT,
    ),
    edit(
        "attend.tile_keys",
        "keys tiled (0, 1, 0, 1, ...), values repeated (0, 0, ..., 1, 1)",
        (_KEYS, "k = k.float().repeat(1, group_size, 1)"),
        look_at=_NEIGHBOURS,
        try_it=_TRY_REPEAT,
    ),
    edit(
        "attend.tile_values",
        "values tiled (0, 1, 0, 1, ...), keys repeated (0, 0, ..., 1, 1)",
        (_VALUES, "v = v.float().repeat(1, group_size, 1)"),
        look_at=_NEIGHBOURS,
        try_it=_TRY_REPEAT,
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
        "attend.scale_num_heads",
        "scores divided by the root of num_heads",
        (_SCALE, " * q.shape[1] ** -0.5"),
        look_at=_SCALE_ADVICE,
        try_it=_TRY_SHAPE,
    ),
    edit(
        "attend.scale_num_queries",
        "scores divided by the root of num_queries",
        (_SCALE, " * len(q) ** -0.5"),
        look_at=_SCALE_ADVICE,
        try_it=_TRY_SHAPE,
    ),
    edit(
        "attend.scale_num_keys",
        "scores divided by the root of num_keys",
        (_SCALE, " * len(k) ** -0.5"),
        look_at=_SCALE_ADVICE,
        try_it=_TRY_SHAPE,
    ),
    edit(
        "attend.scale_of_64",
        "scores divided by 8, which is right for a head_dim of 64",
        (_SCALE, " / 8"),
        look_at=_SCALE_ADVICE,
        try_it=_TRY_SHAPE,
    ),
    edit(
        "attend.scale_of_4",
        "scores divided by 2, which is right for a head_dim of 4",
        (_SCALE, " / 2"),
        look_at=_SCALE_ADVICE,
        try_it=_TRY_SHAPE,
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
        "attend.heads_first",
        "heads as the first axis, queries as the second",
        (_OUT, 'torch.einsum("hqk,khd->hqd", weights, v)'),
        look_at="the axes of what is returned: queries first, as in q",
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
]
