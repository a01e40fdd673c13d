"""Chapter 04: attention over a dense cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import poisoned, strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]


def _attended(
    q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, num_computed: Tensor
) -> Tensor:
    out, group = torch.zeros_like(q), q.shape[2] // k.shape[2]
    for row in range(len(q)):
        for i in range(q.shape[1]):
            position = int(num_computed[row]) + i
            k_cache[row, position], v_cache[row, position] = k[row, i], v[row, i]
            for head in range(q.shape[2]):
                keys = k_cache[row, : position + 1, head // group]
                values = v_cache[row, : position + 1, head // group]
                weights = (keys @ q[row, i, head] * q.shape[-1] ** -0.5).softmax(-1)
                out[row, i, head] = weights @ values
    return out


def _cache(
    num_computed: Sequence[int], num_new: int, max_len: int = 16, scale: float = 1.0
) -> _Make:
    """Six query heads on two KV heads of size 8; slots that were never written are NaN."""

    def made(gen: torch.Generator) -> Arguments:
        rows = len(num_computed)
        caches = [poisoned(rows, max_len, 2, 8) for _ in range(2)]
        for cache in caches:
            for row, length in enumerate(num_computed):
                cache[row, :length] = torch.randn(length, 2, 8, generator=gen)
        return {
            "q": scale * torch.randn(rows, num_new, 6, 8, generator=gen),
            "k": torch.randn(rows, num_new, 2, 8, generator=gen),
            "v": torch.randn(rows, num_new, 2, 8, generator=gen) + 0.5,
            "k_cache": caches[0],
            "v_cache": caches[1],
            "num_computed": torch.tensor(num_computed),
        }

    return made


def _low_precision(gen: torch.Generator) -> Arguments:
    arguments = _cache([3, 9], 3)(gen)
    return {k: v.bfloat16() if k != "num_computed" else v for k, v in arguments.items()}


def _strided_cache(gen: torch.Generator) -> Arguments:
    arguments = _cache([3, 9], 2)(gen)
    return {k: strided(v) if k != "num_computed" else v for k, v in arguments.items()}


def _hand_cache() -> Arguments:
    """Queries of 0 weigh all tokens alike: the output is the mean of the values."""
    values = torch.tensor([[1.0, 3.0, float("nan"), float("nan")]]).view(1, 4, 1, 1)
    return {
        "q": torch.zeros(1, 1, 1, 1),
        "k": torch.full((1, 1, 1, 1), 5.0),
        "v": torch.full((1, 1, 1, 1), 8.0),
        "k_cache": values.clone() + 10.0,
        "v_cache": values,
        "num_computed": torch.tensor([2]),
    }


def _hand_result() -> tuple[Tensor, Tensor, Tensor]:
    nan = float("nan")
    k_cache = torch.tensor([11.0, 13.0, 5.0, nan]).view(1, 4, 1, 1)
    return (
        torch.full((1, 1, 1, 1), 4.0),
        k_cache,
        k_cache.new_tensor([1.0, 3.0, 8.0, nan]).view(1, 4, 1, 1),
    )


def _in_pieces(cached_attention: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """A prompt of 7 at once, and as 4, 2 and 1 tokens."""
    whole = _cache([0, 0], 7)(gen)
    k_cache, v_cache = whole["k_cache"].clone(), whole["v_cache"].clone()
    pieces = []
    for start, end in ((0, 4), (4, 6), (6, 7)):
        q, k, v = (whole[name][:, start:end] for name in "qkv")
        pieces.append(cached_attention(q, k, v, k_cache, v_cache, torch.tensor([start, start])))
    return cached_attention(**whole), torch.cat(pieces, dim=1)


def _attend_alone(cached_attention: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    arguments = _cache([6, 1, 11], 2)(gen)
    alone = [
        cached_attention(**{k: v[row : row + 1].clone() for k, v in arguments.items()})
        for row in range(3)
    ]
    return cached_attention(**arguments), torch.cat(alone)


cached_attention = Exercise(
    id="ch04.cached_attention",
    outputs=(
        Output("out", axes="row token head dim"),
        Output("k_cache", axes="row slot head dim", inplace=True),
        Output("v_cache", axes="row slot head dim", inplace=True),
    ),
    oracle=_attended,
    cases=(
        by_hand("the mean of the values 1, 3 and 8 is 4", _hand_cache, _hand_result()),
        sampled(
            "prefill: an empty cache, 5 new tokens",
            _cache([0, 0, 0], 5),
            look_at="mask, heads and scale: groups of heads share a KV head, SDPA scales already",
            try_it="start = 0 and 2 new tokens: the rows of the mask are 10 and 11",
        ),
        sampled("decode: one new token, rows of all lengths", _cache([1, 9, 4, 15, 7], 1)),
        sampled("a chunk of 3 after what is there", _cache([2, 11, 5], 3)),
        adversarial("filled to the last slot", _cache([13, 13], 3)),
        adversarial("large scores", _cache([5, 2], 3, scale=60.0)),
        adversarial("tensors that are not contiguous", _strided_cache),
        adversarial(
            "bfloat16 in, bfloat16 out",
            _low_precision,
            look_at="the dtype of what is returned: that of q",
            try_it="q in bfloat16: out.dtype is torch.bfloat16",
        ),
    ),
    properties=(
        Property(
            "a prompt in pieces is the prompt at once",
            _in_pieces,
            look_at="the mask: new token i of a row sees num_computed[row] + i + 1 tokens",
        ),
        Property(
            "batch mates do not matter",
            _attend_alone,
            look_at="num_computed: each row has its own",
        ),
    ),
    hints=(
        "Each row is at another place. Which slots are written for a row with 4 tokens in the "
        "cache and 3 new ones, and how many slots may be read afterwards?",
        "Go row by row: write the slots start to end, read the slots 0 to end, and attend. A mask "
        "[num_new, end] with a diagonal at start; enable_gqa=True shares the KV heads.",
        "start = 2 and 2 new tokens: the slots 2 and 3 are written; the first query sees 3 keys, "
        "the second 4. In SDPA the heads stand before the tokens.",
    ),
    look_at="the slots that are written, those that are read, and the diagonal of the mask",
    try_it="q = 0, cached values 1 and 3, new value 8: each weight is 1/3, the output 4",
)
