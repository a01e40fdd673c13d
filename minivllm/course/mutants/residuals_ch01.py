"""Chapter 01: what goes wrong in a norm with a residual.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

from torch import Tensor

from minivllm.course.declare import edit, mutant

_READS_SUM = "what is normed: the norm reads x + residual"
_SUM_BACK = "what is returned second: x + residual itself, before norm and weight"
_EPS_OF_SUM = "x = [[1e-3, 7e-3]], residual 0, eps 1e-5: sqrt(25e-6 + 1e-5) is 5.9e-3"
_ADD = "residual = x + residual"
_BOTH = "rms_norm(residual, weight, eps), residual"


@mutant(
    "add_rms_norm.no_upcast",
    "the squares of the sum taken in the dtype of x",
    look_at="the dtype in which the squares are taken: 300 * 300 is beyond float16",
)
def _add_no_upcast(
    x: Tensor, residual: Tensor, weight: Tensor, eps: float
) -> tuple[Tensor, Tensor]:
    total = x + residual
    mean_square = total.square().mean(dim=-1, keepdim=True)
    return weight * total * (mean_square + eps).rsqrt(), total


ADD_RMS_NORM = [
    edit(
        "add_rms_norm.residual_order",
        "the normed rows given back as the new residual, too",
        (_BOTH, "(normed := rms_norm(residual, weight, eps)), normed"),
        look_at="the second result: the sum before the norm",
    ),
    edit(
        "add_rms_norm.swapped",
        "the new residual first, the normed rows second",
        (_BOTH, "residual, rms_norm(residual, weight, eps)"),
        look_at="the order of the two results: the normed rows, then the sum",
    ),
    edit(
        "add_rms_norm.old_residual",
        "the old residual given back",
        (_ADD, "total = x + residual"),
        (_BOTH, "rms_norm(total, weight, eps), residual.clone()"),
        look_at=_SUM_BACK,
    ),
    edit(
        "add_rms_norm.norm_of_x",
        "x normed instead of the sum",
        (_BOTH, "rms_norm(x, weight, eps), residual"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.no_add",
        "x alone: nothing added",
        (_ADD, "residual = x.clone()"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.twice",
        "x added twice",
        (_ADD, "residual = x + x + residual"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.minus", "x subtracted", (_ADD, "residual = residual - x"), look_at=_READS_SUM
    ),
    edit(
        "add_rms_norm.norm_then_add",
        "the norm of x added to the residual",
        (_BOTH, "rms_norm(x, weight, eps) + residual - x, residual"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.post_norm",
        "the normed rows added to the residual once more",
        (_BOTH, "rms_norm(residual, weight, eps) + residual, residual"),
        look_at="the first result: the norm of the sum, and nothing added to it",
    ),
    edit(
        "add_rms_norm.inplace",
        "the right numbers, the sum written over residual",
        (_ADD, "residual += x"),
        look_at="+= and add_: they write into the tensor that the caller still has",
    ),
    edit(
        "add_rms_norm.inplace_x",
        "the right numbers, the sum written over x",
        (_ADD, "residual = x.add_(residual)"),
        look_at="+= and add_: they write into the tensor that the caller still has",
    ),
    edit(
        "add_rms_norm.no_eps",
        "no eps in the norm",
        ("weight, eps)", "weight, 0.0)"),
        look_at="the eps that reaches the norm: it is an argument",
        try_it=_EPS_OF_SUM,
    ),
    edit(
        "add_rms_norm.wrong_eps",
        "eps always 1e-6",
        ("weight, eps)", "weight, 1e-6)"),
        look_at="the eps that reaches the norm: it is an argument",
        try_it=_EPS_OF_SUM,
    ),
    edit(
        "add_rms_norm.no_weight",
        "a weight of ones",
        ("residual, weight, eps", "residual, torch.ones_like(weight), eps"),
        look_at="whether weight reaches the norm",
        try_it="x [[1, 3]], residual [[0, 4]], weight [1, 2], eps 0: normed is [[0.2, 2.8]]",
    ),
    edit(
        "add_rms_norm.float32_residual",
        "a new residual in float32",
        (_BOTH, "rms_norm(residual, weight, eps), residual.float()"),
        look_at="the last line: both results in x.dtype",
    ),
    edit(
        "add_rms_norm.only_normed",
        "only the normed rows",
        (_BOTH, "rms_norm(residual, weight, eps)"),
    ),
    edit(
        "add_rms_norm.float32_both",
        "both results in float32",
        (_ADD, "residual = x.float() + residual.float()"),
        (_BOTH, "rms_norm(residual, weight.float(), eps), residual"),
        look_at="the last line: both results in x.dtype",
    ),
    edit(
        "add_rms_norm.library_no_eps",
        "F.rms_norm without eps, which then takes one of its own",
        (_BOTH, "F.rms_norm(residual, weight.shape, weight), residual"),
        look_at="F.rms_norm(..., eps): without it, eps is torch.finfo(x.dtype).eps",
        try_it=_EPS_OF_SUM,
    ),
    edit(
        "add_rms_norm.norm_then_sum",
        "x normed first, then added to the residual: the order of older models",
        (_ADD, "normed = rms_norm(x, weight, eps)"),
        (_BOTH, "normed, normed + residual"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.norm_then_sum_last",
        "the sum of the residual and the normed x, given back twice",
        (_ADD, "residual = residual + rms_norm(x, weight, eps)"),
        (_BOTH, "residual, residual.clone()"),
        look_at=_READS_SUM,
    ),
    edit(
        "add_rms_norm.normed_added",
        "the old residual plus the normed rows as the new residual",
        (_ADD, "total = x + residual"),
        (_BOTH, "(normed := rms_norm(total, weight, eps)), normed + residual"),
        look_at=_SUM_BACK,
    ),
    edit(
        "add_rms_norm.x_back",
        "x given back as the new residual",
        (_BOTH, "rms_norm(residual, weight, eps), x.clone()"),
        look_at=_SUM_BACK,
    ),
    edit(
        "add_rms_norm.weighted_sum",
        "the sum times weight as the new residual",
        (_BOTH, "rms_norm(residual, weight, eps), residual * weight"),
        look_at=_SUM_BACK,
    ),
    edit(
        "add_rms_norm.layer_norm",
        "LayerNorm instead of RMSNorm",
        (_BOTH, "F.layer_norm(residual, weight.shape, weight, None, eps), residual"),
        look_at="the norm: RMSNorm subtracts no mean",
    ),
    _add_no_upcast,
]
