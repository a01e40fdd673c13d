"""Chapter 03's attention: one fused product, normalised and turned heads, a paged cache."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from minivllm.attention.reference import ReferenceAttention
from minivllm.course.checks import dense_qwen3
from minivllm.course.checks.tiny_qwen3 import (
    FITS,
    LONG,
    OWN_CONFIG,
    SAME_ROWS,
    Tiny,
    fill,
    in_order,
    new_cache,
    random_tensors,
    shapes_of_attention,
    steps,
    tiny_arch,
)
from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided
from minivllm.layers.rotary import RotaryEmbedding
from minivllm.parallel import TensorParallel

Lengths = tuple[int, ...]
_PARTS = ["q_proj", "k_proj", "v_proj"]


def _problem_of(module: nn.Module, tiny: Tiny) -> str:
    """What is wrong with the parameters, or `FITS`; fills them in."""
    rows = getattr(getattr(module, "qkv_proj", None), "part_rows", None)
    if rows is None:
        return "there is no FusedLinear called qkv_proj"
    if list(rows) != _PARTS:
        return f"the parts of qkv_proj are {', '.join(rows)}"
    return fill(module, tiny.tensors)


def _run_attention(
    cls: Any, x: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Any]:
    module = cls(tiny.arch, ReferenceAttention(), TensorParallel())
    problem = _problem_of(module, tiny)
    if problem != FITS or not lengths:
        return problem, torch.zeros_like(x)
    rotary = RotaryEmbedding(tiny.arch.rope, tiny.arch.head_dim)
    cache, parts, rows = new_cache(tiny.arch, lengths, x.dtype), [], []
    with torch.no_grad():
        for step in steps(lengths, first):
            cos_sin = rotary(step.positions, x.dtype)
            parts.append(module(x[step.rows], cos_sin, cache, step.metadata))
            rows.append(step.rows)
    return FITS, in_order(parts, rows)


def _attention_oracle(
    x: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Tensor]:
    del first
    parts = [dense_qwen3.attention(part, tiny.tensors, tiny.arch) for part in x.split(lengths)]
    return FITS, torch.cat(parts)


def _case(
    gen: torch.Generator,
    lengths: Lengths = (1, 5, 9),
    first: Lengths | None = None,
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
    **config: Any,
) -> Arguments:
    arch = tiny_arch(**config)
    x = (scale * torch.randn(sum(lengths), arch.hidden_size, generator=gen)).to(dtype)
    tiny = Tiny(arch, random_tensors(shapes_of_attention(arch), gen, dtype=dtype))
    return {"x": x, "lengths": lengths, "first": first, "tiny": tiny}


def _parameters_alone() -> Arguments:
    """No request: the layers are made, and nothing is computed."""
    return _case(torch.Generator().manual_seed(0)) | {"x": torch.zeros(1, 24), "lengths": ()}


def _by_hand() -> Arguments:
    arch = tiny_arch(hidden_size=2, num_heads=2, num_kv_heads=1, head_dim=4)
    tensors = {
        "q_proj.weight": torch.ones(8, 2),
        "k_proj.weight": torch.ones(4, 2),
        "v_proj.weight": torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -1.0]]),
        "o_proj.weight": torch.tensor([[1.0] * 8, [1.0] * 4 + [0.0] * 4]),
        "q_norm.weight": torch.ones(4),
        "k_norm.weight": torch.ones(4),
    }
    x = torch.tensor([[1.0, 2.0]])
    return {"x": x, "lengths": (1,), "first": None, "tiny": Tiny(arch, tensors)}


def _in_two_steps(run: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    a = _case(gen, lengths=(6, 9))
    return run(**(a | {"first": (5, 4)})), run(**a)


_HANDED_ON = "what is handed to self.attn, and in which order"
_TRY_BIASES = "print(arch.qkv_bias, arch.o_bias): they need not be the same"

attention = Exercise(
    id="ch03.attention",
    names=("Attention",),
    outputs=(Output("parameters"), Output("out", axes="token hidden")),
    oracle=_attention_oracle,
    run=_run_attention,
    cases=(
        by_hand(
            "its parameters are those of a checkpoint",
            _parameters_alone,
            expected=(FITS, torch.zeros(1, 24)),
            look_at="names and sizes in __init__: [rows out, columns in]; head_dim is the config's",
            try_it="for n, p in module.named_parameters(): print(n, list(p.shape))",
        ),
        by_hand(
            "a token alone gives its own value",
            _by_hand,
            expected=(FITS, torch.tensor([[10.0, 5.0]])),
            look_at="the three sizes of the split, and the shape of each reshape into heads",
            try_it="v of this token is 1, 2, 3, -1, and both heads give just that",
        ),
        sampled("three requests, random weights", _case, seeds=(11, 12)),
        adversarial(
            "later steps see the cache",
            partial(_case, **SAME_ROWS),
            look_at=_HANDED_ON,
        ),
        adversarial(
            "eps is that of the config",
            partial(_case, scale=1e-2, **OWN_CONFIG),
            look_at="the second argument of the two RMSNorm",
            try_it="print(arch.rms_norm_eps): nothing but that value belongs there",
        ),
        adversarial(
            "a bias for q, k and v alone",
            partial(_case, qkv_bias=True),
            look_at="bias= of qkv_proj is arch.qkv_bias, bias= of o_proj is arch.o_bias",
            try_it=_TRY_BIASES,
        ),
        adversarial(
            "a bias for o_proj alone",
            partial(_case, o_bias=True),
            look_at="bias= of qkv_proj is arch.qkv_bias, bias= of o_proj is arch.o_bias",
            try_it=_TRY_BIASES,
        ),
        adversarial(
            "a request of 130 tokens",
            partial(_case, lengths=LONG),
            look_at="the third argument of PagedAttention: None, for every token sees all before",
            try_it="count the tokens that are right: as many as the window is long",
        ),
        adversarial(
            "bfloat16 stays bfloat16",
            partial(_case, dtype=torch.bfloat16),
            look_at="float() and to(): rows come and go in the dtype of x; layers convert inside",
            try_it="print(x.dtype, q.dtype, k.dtype, v.dtype): all the same",
        ),
        adversarial(
            "rows that are not contiguous",
            lambda gen: (a := _case(gen)) | {"x": strided(a["x"])},
        ),
    ),
    properties=(
        Property(
            "one step or two, the result is the same",
            _in_two_steps,
            look_at=_HANDED_ON,
        ),
    ),
    seconds=20.0,
    package="minivllm.models.qwen3.Qwen3Attention",
    hints=(
        "How many rows of the product belong to q, and how many to k? Work both out from the head "
        "counts and `head_dim`; the size of the residual stream plays no part in it.",
        "`split` with three sizes, then a `reshape` that puts the heads on an axis of their own. "
        "An `RMSNorm` of `head_dim` works along the last axis: normalise after the reshape, turn "
        "after that. v is neither normalised nor turned.",
        "With 6 query heads, 2 KV heads and head_dim 8 the product has 48 + 16 + 16 columns. Print "
        "the shape after each line: (T, 48), (T, 6, 8), ... and (T, 48) again before `o_proj`.",
    ),
    look_at="the three sizes of the split, and what each of q, k and v goes through after it",
    try_it="a request's first token sees only itself: if only that one is right, q or k is wrong",
)
