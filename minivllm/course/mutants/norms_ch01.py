"""Chapter 01: what goes wrong in a norm.

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
_BACK = "the last line: the result goes back to x.dtype"
_WEIGHT = "where weight is multiplied in: after the division, once"
_ONE_WEIGHT = "x = [[1, 7]], weight [1, 2], eps 0: [[0.2, 2.8]]"
_NEW_AXES = "axis 1 of three axes is the head: use -1, which is always within a row"


@mutant(
    "rms_norm.inplace",
    "the right numbers, written over x",
    look_at="copy_, x[...] = and operations ending in _: they write into the caller's x",
    try_it="x *= 2 changes x; x = x * 2 makes a new tensor",
)
def _inplace(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    scale = torch.rsqrt(x.float().square().mean(dim=-1, keepdim=True) + eps)
    return x.copy_((x.float() * scale).to(x.dtype) * weight)


@mutant(
    "rms_norm.inplace_float32",
    "the right numbers, written over x where x is float32",
    look_at="*= and x.float(): x.float() of a float32 tensor IS x; write f = f * ...",
    try_it="f = x.float(); print(f is x)",
)
def _inplace_float32(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    wide = x.float()
    wide *= torch.rsqrt(wide.square().mean(dim=-1, keepdim=True) + eps)
    return weight * wide.to(x.dtype)


@mutant(
    "rms_norm.two_axes",
    "x taken to have exactly two axes",
    look_at="n, size = x.shape: x may have one axis or three; size is x.shape[-1]",
    try_it="x of shape [3, 4, 12]",
)
def _two_axes(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    _, size = x.shape
    mean_square = x.float().square().sum(-1, keepdim=True) / size
    return weight * (x.float() * torch.rsqrt(mean_square + eps)).to(x.dtype)


@mutant(
    "rms_norm.view",
    "rows laid out by view, which needs memory without gaps",
    look_at="view: -1 as the axis of the mean needs none; reshape copies where it must",
    try_it="torch.zeros(5, 8, 12)[:, 2:5].view(-1, 12)",
)
def _view(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    rows = x.view(-1, x.shape[-1]).float()
    normed = rows * torch.rsqrt(rows.square().mean(-1, keepdim=True) + eps)
    return weight * normed.to(x.dtype).view(x.shape)


@mutant("rms_norm.library", "PyTorch's own rms_norm, called")
def _library(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return F.rms_norm(x, weight.shape, weight, eps)


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
    edit(
        "rms_norm.axis_one",
        "the mean over axis 1, which is a row's elements only if x has two axes",
        (_MEAN, "x32.square().mean(dim=1, keepdim=True)"),
        look_at=_NEW_AXES,
        try_it="x of shape [5, 3, 12]: there are 15 means",
    ),
    edit(
        "rms_norm.size_one",
        "divided by x.shape[1], which is the size of a row only if x has two axes",
        (_MEAN, "x32.square().sum(dim=-1, keepdim=True) / x.shape[1]"),
        look_at=_NEW_AXES,
        try_it="x of shape [5, 3, 12]: x.shape[1] is 3, x.shape[-1] is 12",
    ),
    edit("rms_norm.all_axes", "one mean over all tokens together", (_MEAN, "x32.square().mean()")),
    edit(
        "rms_norm.no_upcast",
        "the squares taken in the dtype of x",
        ("x.float()", "x"),
        look_at="the dtype in which the squares are taken: 300 * 300 is beyond float16",
        try_it="torch.tensor(300., dtype=torch.float16) ** 2",
    ),
    edit(
        "rms_norm.no_downcast",
        "the right numbers, left in float32",
        (".to(x.dtype)", ""),
        look_at=_BACK,
    ),
    edit(
        "rms_norm.only_float16",
        "the right numbers, but bfloat16 left in float32: only float16 goes back",
        (".to(x.dtype)", ".to(torch.float16 if x.dtype == torch.float16 else torch.float32)"),
        look_at=_BACK,
        try_it="x.bfloat16() in: what is y.dtype?",
    ),
    edit(
        "rms_norm.plus_one",
        "times 1 + weight, as in Gemma",
        ("weight * (", "(1 + weight) * ("),
        look_at=_WEIGHT,
        try_it=_ONE_WEIGHT,
    ),
    edit(
        "rms_norm.no_weight",
        "not multiplied by weight",
        ("weight * (x32", "(x32"),
        look_at=_WEIGHT,
        try_it=_ONE_WEIGHT,
    ),
    edit(
        "rms_norm.std_sample",
        "divided by x.std(), which subtracts the mean and divides by n - 1",
        (_MEAN, "x32.var(dim=-1, keepdim=True)"),
        look_at="the mean of the squares: no mean is subtracted, and it is divided by n",
    ),
    edit(
        "rms_norm.normalize",
        "rows of length 1 (F.normalize): divided by the root of the sum, not of the mean",
        (_RETURN, "weight * F.normalize(x32, dim=-1).to(x.dtype)"),
        look_at="F.normalize: it divides by the root of the sum of the squares, without eps",
    ),
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
        look_at=_WEIGHT,
        try_it=_ONE_WEIGHT,
    ),
    edit("rms_norm.identity", "x, unchanged", (_RETURN, "x.clone()")),
    _inplace,
    _inplace_float32,
    _two_axes,
    _view,
    _library,
]
