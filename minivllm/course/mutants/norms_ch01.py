"""Chapter 01: what goes wrong in a norm, and in a norm with a residual.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.declare import edit, mutant

_MEAN = "x32.square().mean(dim=-1, keepdim=True)"
_ROOT = "torch.rsqrt(mean_square + eps)"
_RETURN = "weight * (x32 * torch.rsqrt(mean_square + eps)).to(x.dtype)"
_ADD = "residual = x + residual"
_BOTH = "rms_norm(residual, weight, eps), residual"


@mutant("rms_norm.inplace", "the right numbers, written over x")
def _inplace(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    scale = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + eps)
    return x.copy_((x.float() * scale).to(x.dtype) * weight)


@mutant("rms_norm.library", "PyTorch's own rms_norm, called")
def _library(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


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
    return weight * total * torch.rsqrt(mean_square + eps), total


RMS_NORM = [
    edit(
        "rms_norm.no_eps",
        "eps left out",
        (" + eps", ""),
        look_at="the root: eps belongs to the mean of the squares",
    ),
    edit("rms_norm.eps_out", "eps added after the root", (_ROOT, "1 / (mean_square.sqrt() + eps)")),
    edit("rms_norm.eps_squared", "eps squared under the root", ("+ eps", "+ eps**2")),
    edit("rms_norm.wrong_eps", "eps always 1e-6, whatever is given", ("+ eps", "+ 1e-6")),
    edit("rms_norm.layer_norm_eps", "eps always 1e-5, whatever is given", ("+ eps", "+ 1e-5")),
    edit("rms_norm.sum", "the sum of the squares instead of their mean", ("mean(dim", "sum(dim")),
    edit(
        "rms_norm.center",
        "the mean subtracted first, as LayerNorm does",
        ("x32 = x.float()", "x32 = x.float() - x.float().mean(dim=-1, keepdim=True)"),
    ),
    edit(
        "rms_norm.std",
        "divided by the standard deviation, as in LayerNorm",
        (_MEAN, "x32.var(dim=-1, keepdim=True, correction=0)"),
        look_at="the mean of the squares: no mean is subtracted before",
    ),
    edit(
        "rms_norm.axis",
        "the mean over the tokens instead of the elements",
        (_MEAN, "x32.square().mean(dim=0, keepdim=True)"),
        look_at="the axis of the mean: -1 lies within a token",
    ),
    edit("rms_norm.all_axes", "one mean over all tokens together", (_MEAN, "x32.square().mean()")),
    edit(
        "rms_norm.no_upcast",
        "the squares taken in the dtype of x",
        ("x.float()", "x"),
        look_at="the dtype in which the squares are taken: 300 * 300 is beyond float16",
        try_it="torch.tensor(300., dtype=torch.float16) ** 2",
    ),
    edit("rms_norm.no_downcast", "the right numbers, left in float32", (".to(x.dtype)", "")),
    edit("rms_norm.plus_one", "times 1 + weight, as in Gemma", ("weight * (", "(1 + weight) * (")),
    edit("rms_norm.no_weight", "not multiplied by weight", ("weight * (x32", "(x32")),
    edit(
        "rms_norm.no_root",
        "divided by the mean square, no root",
        (_ROOT, "1 / (mean_square + eps)"),
    ),
    edit("rms_norm.times", "multiplied by the root instead of divided", ("rsqrt", "sqrt")),
    edit(
        "rms_norm.no_keepdim",
        "the mean without keepdim",
        (", keepdim=True", ""),
        look_at="the shape of the mean: [5, 12] needs [5, 1], not [5]",
    ),
    edit(
        "rms_norm.l1",
        "the mean of the absolute values instead of the root mean square",
        (_RETURN, "weight * (x32 / (x32.abs().mean(dim=-1, keepdim=True) + eps)).to(x.dtype)"),
    ),
    edit(
        "rms_norm.weight_first",
        "the weight multiplied in before the norm",
        ("x32 = x.float()", "x32 = x.float() * weight"),
        ("weight * (x32", "(x32"),
    ),
    edit("rms_norm.identity", "x, unchanged", (_RETURN, "x.clone()")),
    _inplace,
    _library,
]

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
    ),
    edit(
        "add_rms_norm.old_residual",
        "the old residual given back",
        (_ADD, "total = x + residual"),
        (_BOTH, "rms_norm(total, weight, eps), residual.clone()"),
    ),
    edit(
        "add_rms_norm.norm_of_x",
        "x normed instead of the sum",
        (_BOTH, "rms_norm(x, weight, eps), residual"),
    ),
    edit("add_rms_norm.no_add", "x alone: nothing added", (_ADD, "residual = x.clone()")),
    edit("add_rms_norm.twice", "x added twice", (_ADD, "residual = x + x + residual")),
    edit("add_rms_norm.minus", "x subtracted", (_ADD, "residual = residual - x")),
    edit(
        "add_rms_norm.norm_then_add",
        "the norm of x added to the residual",
        (_BOTH, "rms_norm(x, weight, eps) + residual - x, residual"),
        look_at="what is normed: the sum, not x",
    ),
    edit(
        "add_rms_norm.post_norm",
        "the normed rows added to the residual once more",
        (_BOTH, "rms_norm(residual, weight, eps) + residual, residual"),
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
        look_at="add_: it writes into the tensor that the caller still has",
    ),
    edit("add_rms_norm.no_eps", "no eps in the norm", ("weight, eps)", "weight, 0.0)")),
    edit("add_rms_norm.wrong_eps", "eps always 1e-6", ("weight, eps)", "weight, 1e-6)")),
    edit(
        "add_rms_norm.no_weight",
        "a weight of ones",
        ("residual, weight, eps", "residual, torch.ones_like(weight), eps"),
    ),
    edit(
        "add_rms_norm.float32_residual",
        "a new residual in float32",
        (_BOTH, "rms_norm(residual, weight, eps), residual.float()"),
    ),
    edit(
        "add_rms_norm.only_normed",
        "only the normed rows",
        (_BOTH, "rms_norm(residual, weight, eps)"),
    ),
    _add_no_upcast,
]
