"""Chapter 01: layers in which a part's output is lost, and the question where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.course.checks.material_ch01 import Mine, add_norm
from minivllm.course.declare import Detective


def run_layers(x: Tensor, layers: Sequence[Any], last_weight: Tensor, eps: float) -> Tensor:
    """A stack of layers, each with its two parts and their two norms: the listing."""
    residual = torch.zeros_like(x)
    for attention, attention_weight, mlp, mlp_weight in layers:
        x, residual = add_norm(x, residual, attention_weight, eps)
        x, _ = add_norm(attention(x), residual, mlp_weight, eps)
        x = mlp(x)
    x, _ = add_norm(x, residual, last_weight, eps)
    return x


def attention_is_lost(stack: Mine) -> bool:
    """Whether the result of a stack without MLPs is the same with and without attention."""
    x, weight = torch.tensor([[1.0, 7.0]]), torch.ones(2)
    results = []
    for strength in (0.0, 3.0):
        layer = (lambda y, s=strength: s * y.flip(-1), weight, torch.zeros_like, weight)
        results.append(stack(x, [layer, layer], weight, 1e-6))
    return torch.equal(*results)


detective = Detective(
    id="ch01.detective",
    listing=run_layers,
    culprit="add_norm(attention(x)",
    fix="        x, residual = add_norm(attention(x), residual, mlp_weight, eps)",
    shows_bug=attention_is_lost,
    reasons={
        "a": "the residual begins with zeros, so the embeddings are lost",
        "b": "the norms stand before the parts; they belong behind them",
        "c": "the new residual is dropped, so what attention adds reaches the MLP and no further",
        "d": "the residual is added twice at the end",
    },
    right="c",
    explain={
        "a": "the first add_norm adds x, the embeddings, to those zeros and keeps the sum",
        "b": "Qwen3 norms what each part reads; the sum itself is never normed on its way up",
        "d": "x is the last MLP's output there: the residual is added once",
    },
    lines={
        "zeros_like": "the first add_norm adds the embeddings to these zeros",
        "attention_weight, eps": "both results are kept: the normed rows and the new sum",
        "mlp(x)": "the MLP reads normed rows; its output is added by the next add_norm",
        "last_weight, eps)": "after the last norm nobody needs the residual any more",
        "for attention": "each layer has two parts and two weights",
    },
    hints=(
        "Follow the residual from line to line. Every part's output must get into it.",
        "Each add_norm gives two results. Where is the second one kept, and where is it not?",
        "Take MLPs that give zeros: the result then has to be the norm of x plus the attention.",
    ),
    look_at="which of the results is thrown away: follow the residual from line to line",
    try_it="write down x and residual after each line, for MLPs that give zeros",
)
