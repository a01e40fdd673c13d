"""What the checks of chapter 02 are made of: right answers, inputs, and the planted bug.

The right answers go query by query and head by head, over the keys that a query sees and no other:
there is no mask in them, and nothing is repeated. What comes in float16 is computed in float32.
Next file to read: `attention_batches.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided

Make = Callable[[torch.Generator], Arguments]
Mine = Callable[..., Any]


# --- right answers -------------------------------------------------------------------------------


def read(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """Attention, one query head at a time."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    group_size = q.shape[1] // k.shape[1]
    out = torch.zeros(q.shape, dtype=dtype)
    for row, head in torch.cartesian_prod(*map(torch.arange, q.shape[:2])).tolist():
        seen = visible[row]
        if bool(seen.any()):
            keys, values = (x[seen, head // group_size].to(dtype) for x in (k, v))
            weights = (keys @ q[row, head].to(dtype) / q.shape[-1] ** 0.5).softmax(0)
            out[row, head] = weights @ values
    return out.to(q.dtype)


def seen_keys(num_queries: int, num_keys: int, window: int | None) -> Tensor:
    """The causal mask, place by place."""

    def sees(query: int, key: int) -> bool:
        return key <= query and (window is None or query - key < window)

    first = num_keys - num_queries
    return torch.tensor([[sees(first + i, j) for j in range(num_keys)] for i in range(num_queries)])


# --- inputs of `attend` --------------------------------------------------------------------------


def heads(
    num_heads: int = 6,
    num_kv_heads: int = 2,
    num_queries: int = 5,
    num_keys: int = 7,
) -> Make:
    """Random heads of 16, and a random mask in which each query sees something."""

    def make(gen: torch.Generator) -> Arguments:
        visible = torch.rand(num_queries, num_keys, generator=gen) < 0.6
        visible[:, 2] |= ~visible.any(1)
        return {
            "q": torch.randn(num_queries, num_heads, 16, generator=gen),
            "k": torch.randn(num_keys, num_kv_heads, 16, generator=gen),
            "v": torch.randn(num_keys, num_kv_heads, 16, generator=gen),
            "visible": visible,
        }

    return make


def causal(num_queries: int, num_keys: int) -> Make:
    """Random heads under a causal mask: a prompt, a chunk, or a decode step."""

    def make(gen: torch.Generator) -> Arguments:
        arguments = heads(num_queries=num_queries, num_keys=num_keys)(gen)
        return arguments | {"visible": seen_keys(num_queries, num_keys, None)}

    return make


def with_scores(lowest: float, highest: float, dtype: torch.dtype = torch.float32) -> Make:
    """Keys along one direction: scores spread between two numbers, by up to 5 % more or less."""

    def make(gen: torch.Generator) -> Arguments:
        arguments = heads(num_queries=4, num_keys=9)(gen)
        scores = torch.linspace(lowest, highest, 9)[torch.randperm(9, generator=gen)]
        direction = torch.randn(16, generator=gen).sign() / 4  # of length 1
        factors = 0.95 + 0.1 * torch.rand(4, 6, 1, generator=gen)
        arguments["q"] = 4 * factors * direction
        arguments["k"] = scores[:, None, None] * direction + 0 * arguments["k"]
        floats = {name: arguments[name].to(dtype) for name in ("q", "k", "v")}
        return arguments | floats

    return make


def far_below_zero(gen: torch.Generator) -> Arguments:
    """Scores below -20,000 and a mask; whole numbers, so that no right answer rounds them."""
    arguments = heads(num_queries=4, num_keys=9)(gen)
    direction = torch.randn(16, generator=gen).sign() / 4
    scores = -20_000 - torch.randperm(9, generator=gen).float()
    return arguments | {
        "q": (4 * direction).expand(4, 6, 16).clone(),
        "k": (scores[:, None, None] * direction).expand(9, 2, 16).clone(),
    }


def loud_hidden_key(gen: torch.Generator) -> Arguments:
    """A key that no query sees, with scores far above all others, and large values."""
    arguments = causal(4, 9)(gen)
    arguments["q"] = arguments["q"].abs()
    arguments["k"][3] = 60.0
    arguments["v"][3] = 1e4
    arguments["visible"][:, 3] = False
    return arguments


def blind_row(gen: torch.Generator) -> Arguments:
    """One query that sees nothing, as in a padding row."""
    arguments = heads()(gen)
    arguments["visible"][2] = False
    return arguments


def in_dtype(dtype: torch.dtype, make: Make) -> Make:
    """The same with q, k and v in another dtype."""

    def cast(gen: torch.Generator) -> Arguments:
        arguments = make(gen)
        return arguments | {name: arguments[name].to(dtype) for name in ("q", "k", "v")}

    return cast


def with_gaps(make: Make) -> Make:
    """The same as views into other memory: heads first, NaN between; and a mask on its side."""

    def make_views(gen: torch.Generator) -> Arguments:
        arguments = make(gen)
        heads_first = {
            name: arguments[name].transpose(0, 1).contiguous() for name in ("q", "k", "v")
        }
        views = {name: strided(x).transpose(0, 1) for name, x in heads_first.items()}
        if "visible" in arguments:
            views["visible"] = arguments["visible"].T.contiguous().T
        return arguments | views

    return make_views


# --- properties of `attend` ----------------------------------------------------------------------


def query_alone(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Some of the rows in one call, and all."""
    q, k, v, visible = heads()(gen).values()
    return mine(q[1:3], k, v, visible[1:3]), mine(q, k, v, visible)[1:3]


def keys_reordered(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Keys, values and the mask's columns in another order."""
    q, k, v, visible = heads()(gen).values()
    order = torch.randperm(len(k), generator=gen)
    return mine(q, k[order], v[order], visible[:, order]), mine(q, k, v, visible)


def group_alone(mine: Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """One KV head with the query heads that read it, and all heads."""
    q, k, v, visible = heads()(gen).values()
    return mine(q[:, 3:], k[:, 1:], v[:, 1:], visible), mine(q, k, v, visible)[:, 3:]


# --- the planted bug -----------------------------------------------------------------------------


def attend_step(q: Tensor, k: Tensor, v: Tensor, num_cached: int) -> Tensor:
    """Attention of one request's new tokens; `num_cached` of its keys were there before."""
    group_size = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(group_size, dim=1) for x in (k, v))
    scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
    visible = torch.ones(scores.shape[1:], dtype=torch.bool)
    visible = visible.tril(len(k) if num_cached else 0)  # later steps see the whole cache
    weights = scores.masked_fill(~visible, float("-inf")).softmax(dim=-1)
    return torch.einsum("hqk,khd->qhd", weights, v)


def chunks_differ(function: Callable[..., Tensor]) -> bool:
    """Whether a prompt in two chunks gives something else than in one piece."""
    gen = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(6, n, 8, generator=gen) for n in (4, 2, 2))
    whole = function(q, k, v, 0)
    first, second = function(q[:3], k[:3], v[:3], 0), function(q[3:], k, v, 3)
    return not torch.allclose(torch.cat((first, second)), whole, atol=1e-5)
