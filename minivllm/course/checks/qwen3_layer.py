"""Chapter 03's decoder layer: two norms, two sums, and stand-ins for the halves."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from minivllm.course.checks import dense_qwen3
from minivllm.course.checks.tiny_qwen3 import FITS, LAYER_NORMS, fill, tiny_arch
from minivllm.course.declare import Exercise, Output, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments


class _Mlp(nn.Module):
    """A stand-in that is not linear."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(size, size), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x @ self.weight.T)


class _Attention(_Mlp):
    """A stand-in that uses all that it is handed, each in its own way."""

    def forward(  # type: ignore[override]
        self, x: Tensor, cos_sin: tuple[float, float], kv_cache: float, attn_metadata: float
    ) -> Tensor:
        cos, sin = cos_sin
        return super().forward(x) * cos + sin + kv_cache / attn_metadata


_COS_SIN, _CACHE, _METADATA = (0.75, 0.5), 3.0, 4.0


def _run_layer(
    cls: Any, x: Tensor | None, norms: Tensor, w_attn: Tensor, w_mlp: Tensor, eps: float
) -> tuple[str, Any]:
    size = norms.shape[1]
    arch = tiny_arch(hidden_size=size, rms_norm_eps=eps)
    layer = cls(arch, _Attention(size), _Mlp(size))
    tensors = {"self_attn.weight": w_attn, "mlp.weight": w_mlp}
    tensors |= {f"{n}.weight": w for n, w in zip(LAYER_NORMS, norms, strict=True)}
    problem = fill(layer, tensors)
    if problem != FITS or x is None:
        return problem, torch.zeros(1, size) if x is None else torch.zeros_like(x)
    with torch.no_grad():
        return FITS, layer(x, _COS_SIN, _CACHE, _METADATA)


def _layer_oracle(
    x: Tensor, norms: Tensor, w_attn: Tensor, w_mlp: Tensor, eps: float
) -> tuple[str, Tensor]:
    first = torch.tanh(dense_qwen3.rms_norm(x, norms[0], eps) @ w_attn.T) * 0.75 + 0.5 + 0.75
    x = x + first
    return FITS, x + torch.tanh(dense_qwen3.rms_norm(x, norms[1], eps) @ w_mlp.T)


def _case(
    gen: torch.Generator,
    scale: float = 2.0,
    eps: float = 1e-6,
    dtype: torch.dtype = torch.float32,
) -> Arguments:
    x = scale * torch.randn(7, 12, generator=gen)
    norms = torch.rand(2, 12, generator=gen) + 0.5
    w_attn, w_mlp = torch.randn(2, 12, 12, generator=gen).unbind()
    tensors = {"x": x, "norms": norms, "w_attn": w_attn, "w_mlp": w_mlp}
    return {name: tensor.to(dtype) for name, tensor in tensors.items()} | {"eps": eps}


def _with_weights_of_0(x: Tensor | None) -> Arguments:
    zero, norms = torch.zeros(2, 2), torch.ones(2, 2)
    return {"x": x, "norms": norms, "w_attn": zero, "w_mlp": zero, "eps": 0.0}


decoder_layer = Exercise(
    id="ch03.decoder_layer",
    names=("DecoderLayer",),
    outputs=(Output("parameters"), Output("out", axes="token hidden")),
    oracle=_layer_oracle,
    run=_run_layer,
    cases=(
        by_hand(
            "its parameters are those of a checkpoint",
            partial(_with_weights_of_0, None),
            expected=(FITS, torch.zeros(1, 2)),
            look_at="the names in __init__: two RMSNorm of hidden_size, and the two halves",
            try_it="for n, p in layer.named_parameters(): print(n, list(p.shape))",
        ),
        by_hand(
            "1.25 is added to 3 and to 4",
            partial(_with_weights_of_0, torch.tensor([[3.0, 4.0]])),
            expected=(FITS, torch.tensor([[4.25, 5.25]])),
            look_at="the sums, and the order of what attention is handed",
            try_it="attention gives 1.25 and the MLP 0 whatever they read: what is added to what?",
        ),
        sampled("random rows and weights", _case),
        adversarial(
            "a large stream stays large",
            partial(_case, scale=300.0),
            look_at="what the results are added to: the stream itself, never its norm",
        ),
        adversarial(
            "eps is that of the config",
            partial(_case, scale=0.1, eps=0.05),
            look_at="the second argument of the two RMSNorm",
            try_it="print(arch.rms_norm_eps): nothing but that value belongs there",
        ),
        adversarial(
            "bfloat16 stays bfloat16",
            partial(_case, dtype=torch.bfloat16),
            look_at="float() and to(): the stream keeps its dtype; a norm converts inside",
            try_it="print(x.dtype) before and after each sum",
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
