"""Chapter 03's modules: attention with normalised heads, and the decoder layer."""

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
    LAYER_NORMS,
    OWN_CONFIG,
    Tiny,
    fill,
    in_order,
    new_cache,
    random_tensors,
    shapes_of_attention,
    steps,
    tiny_arch,
)
from minivllm.course.declare import (
    Exercise,
    Output,
    Property,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided
from minivllm.layers.rotary import RotaryEmbedding
from minivllm.parallel import TensorParallel

Lengths = tuple[int, ...]


# --- attention -----------------------------------------------------------------------------------


def _run_attention(
    cls: Any, x: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Any]:
    module = cls(tiny.arch, ReferenceAttention(), TensorParallel())
    if (problem := fill(module, tiny.tensors)) != FITS:
        return problem, torch.zeros_like(x)
    rotary = RotaryEmbedding(tiny.arch.rope, tiny.arch.head_dim)
    cache, parts, rows = new_cache(tiny.arch, lengths), [], []
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


def _attention_case(
    gen: torch.Generator,
    lengths: Lengths = (1, 5, 9),
    first: Lengths | None = None,
    scale: float = 1.0,
    **config: Any,
) -> Arguments:
    arch = tiny_arch(**config)
    x = scale * torch.randn(sum(lengths), arch.hidden_size, generator=gen)
    tiny = Tiny(arch, random_tensors(shapes_of_attention(arch), gen))
    return {"x": x, "lengths": lengths, "first": first, "tiny": tiny}


def _attention_by_hand() -> Arguments:
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


def _attention_in_two_steps(run: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    a = _attention_case(gen, lengths=(6, 9))
    once = run(**a)[1]
    return run(**(a | {"first": (5, 4)}))[1], once


attention = Exercise(
    id="ch03.attention",
    names=("Attention",),
    outputs=(Output("parameters"), Output("out", axes="token hidden")),
    oracle=_attention_oracle,
    run=_run_attention,
    cases=(
        by_hand(
            "a token alone gives its own value",
            _attention_by_hand,
            expected=(FITS, torch.tensor([[10.0, 5.0]])),
        ),
        sampled("three requests, random weights", _attention_case),
        adversarial(
            "later steps see the cache",
            partial(_attention_case, lengths=(6, 9), first=(5, 4)),
            look_at="what is handed to self.attn, and in which order",
        ),
        adversarial(
            "eps is that of the config",
            partial(_attention_case, scale=1e-2, **OWN_CONFIG),
            look_at="the second argument of the two RMSNorm",
            try_it="print(arch.rms_norm_eps): nothing but that value belongs there",
        ),
        adversarial(
            "biases where the config has them",
            partial(_attention_case, qkv_bias=True, o_bias=True),
            look_at="bias= of the two linear layers: arch.qkv_bias and arch.o_bias",
        ),
        adversarial(
            "rows that are not contiguous",
            lambda gen: (a := _attention_case(gen)) | {"x": strided(a["x"])},
        ),
    ),
    properties=(
        Property(
            "one step or two, the result is the same",
            _attention_in_two_steps,
            look_at="what is handed to self.attn, and in which order",
        ),
    ),
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


# --- decoder layer -------------------------------------------------------------------------------


class _Half(nn.Module):
    """A stand-in for attention or MLP: not linear, and it uses all that it is handed."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, size), requires_grad=False)

    def forward(self, x: Tensor, *more: Any) -> Tensor:
        out = torch.tanh(x @ self.weight.T)
        if more:  # of attention: cos and sin, the cache, the metadata
            (cos, sin), kv_cache, attn_metadata = more
            out = out * cos + sin + kv_cache / attn_metadata
        return out


_COS_SIN, _CACHE, _METADATA = (torch.tensor(0.75), torch.tensor(0.5)), torch.tensor(3.0), 4.0


def _run_layer(
    cls: Any, x: Tensor, norms: Tensor, w_attn: Tensor, w_mlp: Tensor, eps: float
) -> tuple[str, Any]:
    size = x.shape[1]
    layer = cls(tiny_arch(hidden_size=size, rms_norm_eps=eps), _Half(size), _Half(size))
    tensors = {"self_attn.weight": w_attn, "mlp.weight": w_mlp}
    tensors |= {f"{n}.weight": w for n, w in zip(LAYER_NORMS, norms, strict=True)}
    if (problem := fill(layer, tensors)) != FITS:
        return problem, torch.zeros_like(x)
    with torch.no_grad():
        return FITS, layer(x, _COS_SIN, _CACHE, _METADATA)


def _layer_oracle(
    x: Tensor, norms: Tensor, w_attn: Tensor, w_mlp: Tensor, eps: float
) -> tuple[str, Tensor]:
    first = torch.tanh(dense_qwen3.rms_norm(x, norms[0], eps) @ w_attn.T) * 0.75 + 0.5 + 0.75
    x = x + first
    return FITS, x + torch.tanh(dense_qwen3.rms_norm(x, norms[1], eps) @ w_mlp.T)


def _layer_case(gen: torch.Generator, scale: float = 2.0, eps: float = 1e-6) -> Arguments:
    x = scale * torch.randn(7, 12, generator=gen)
    norms = torch.rand(2, 12, generator=gen) + 0.5
    w_attn, w_mlp = torch.randn(2, 12, 12, generator=gen).unbind()
    return {"x": x, "norms": norms, "w_attn": w_attn, "w_mlp": w_mlp, "eps": eps}


def _layer_by_hand() -> Arguments:
    zero, norms = torch.zeros(2, 2), torch.ones(2, 2)
    return {
        "x": torch.tensor([[3.0, 4.0]]),
        "norms": norms,
        "w_attn": zero,
        "w_mlp": zero,
        "eps": 0.0,
    }


decoder_layer = Exercise(
    id="ch03.decoder_layer",
    names=("DecoderLayer",),
    outputs=(Output("parameters"), Output("out", axes="token hidden")),
    oracle=_layer_oracle,
    run=_run_layer,
    cases=(
        by_hand(
            "1.25 is added to 3 and to 4",
            _layer_by_hand,
            expected=(FITS, torch.tensor([[4.25, 5.25]])),
        ),
        sampled("random rows and weights", _layer_case),
        adversarial(
            "a large stream stays large",
            partial(_layer_case, scale=300.0),
            look_at="what the results are added to: the stream itself, never its norm",
        ),
        adversarial(
            "eps is that of the config",
            partial(_layer_case, scale=0.1, eps=0.05),
            look_at="the second argument of the two RMSNorm",
            try_it="print(arch.rms_norm_eps): nothing but that value belongs there",
        ),
    ),
    package="minivllm.models.qwen3.Qwen3DecoderLayer",
    hints=(
        "The stream is only ever added to. What does each half read, and what is its result added "
        "to?",
        "Two lines of the same form: the stream, plus a half of the block applied to a norm of the "
        "stream. The second line starts from what the first one gives.",
        "Let attention give zeros: then the layer must give x + mlp(norm(x)), with the norm that "
        "comes second. Now let the MLP give zeros instead.",
    ),
    look_at="what each half reads, and what its result is added to",
    try_it="both halves give 0: x must come out as it went in",
)
