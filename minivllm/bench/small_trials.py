"""Trials of the small kernels of a decode step, at the sizes of Qwen3-0.6B.

Their inputs are small, and in a step the kernel before has just left them in the L2 cache; only the
weights of a matrix product come from memory.
Next file to read: `kernels.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.bench.attention_trials import QWEN3_06B, Heads
from minivllm.bench.trial import OURS, Call, Trial, num_input_sets
from minivllm.counter_random import gumbel
from minivllm.kernels.few_rows_matmul import few_rows_matmul
from minivllm.kernels.qk_norm_rope import qk_norm_rope_cache_write, rotary_ref
from minivllm.kernels.rms_norm import add_rms_norm, add_rms_norm_ref, rms_norm, rms_norm_ref
from minivllm.kernels.sample import sample, sample_ref
from minivllm.kernels.silu_and_mul import silu_and_mul, silu_and_mul_ref

TORCH = "torch"
HIDDEN, INTERMEDIATE, VOCAB = 1024, 3072, 151_936
EPS = 1e-6
ROWS = (1, 32, 256)
FEW_ROWS = (1, 2, 4, 8, 16)
PRODUCTS = {  # in_features, out_features
    "o": (2048, HIDDEN),
    "down": (INTERMEDIATE, HIDDEN),
    "qkv": (HIDDEN, 4096),
    "gate_up": (HIDDEN, 2 * INTERMEDIATE),
    "lm_head": (HIDDEN, VOCAB),
}


def product_trial(
    heads: Heads, name: str, num_rows: int, sizes: tuple[int, int], num_sets: int | None = None
) -> Trial:
    """`x @ weight.T` for a few rows, beside `F.linear`."""
    in_features, out_features = sizes
    weight_bytes = in_features * out_features * heads.dtype.itemsize
    row_bytes = num_rows * (in_features + out_features) * heads.dtype.itemsize
    x = heads.random(num_rows, in_features)
    weights = [
        heads.random(out_features, in_features) * in_features**-0.5
        for _ in range(num_sets or num_input_sets(weight_bytes))
    ]

    def expected() -> Tensor:
        # Piece by piece: the output head in float64 would fill more than a gigabyte.
        pieces = [x.double() @ piece.double().t() for piece in weights[0].split(8192)]
        return torch.cat(pieces, dim=1)

    return Trial(
        labels={"operation": f"product {name}, {in_features} to {out_features}", "rows": num_rows},
        num_bytes=weight_bytes + row_bytes,
        ways={
            OURS: [partial(few_rows_matmul, x, weight) for weight in weights],
            TORCH: [partial(F.linear, x, weight) for weight in weights],
        },
        pick=_all,
        expected=expected,
    )


def norm_trial(heads: Heads, num_rows: int, size: int = HIDDEN) -> Trial:
    """RMSNorm."""
    x, weight = heads.random(num_rows, size), heads.random(size)
    arguments = (x, weight, EPS)
    return _row_trial(
        {"operation": "rms_norm", "rows": num_rows},
        2 * x.nbytes,
        {OURS: partial(rms_norm, *arguments), TORCH: partial(rms_norm_ref, *arguments)},
        lambda: _exact_norm(x.double(), weight),
    )


def add_norm_trial(heads: Heads, num_rows: int, size: int = HIDDEN) -> Trial:
    """The residual sum and RMSNorm."""
    x, residual = heads.random(num_rows, size), heads.random(num_rows, size)
    weight = heads.random(size)
    arguments = (x, residual, weight, EPS)
    ways = {
        OURS: lambda: add_rms_norm(*arguments).normed,
        TORCH: lambda: add_rms_norm_ref(*arguments).normed,
    }
    return _row_trial(
        {"operation": "add_rms_norm", "rows": num_rows},
        4 * x.nbytes,
        ways,
        lambda: _exact_norm((x + residual).double(), weight),
    )


def silu_trial(heads: Heads, num_rows: int, size: int = INTERMEDIATE) -> Trial:
    """The activation of the feed-forward network."""
    gate_up = heads.random(num_rows, 2 * size)

    def expected() -> Tensor:
        gate, up = gate_up.double().chunk(2, dim=-1)
        return F.silu(gate) * up

    ways = {OURS: partial(silu_and_mul, gate_up), TORCH: partial(silu_and_mul_ref, gate_up)}
    return _row_trial(
        {"operation": "silu_and_mul", "rows": num_rows}, 1.5 * gate_up.nbytes, ways, expected
    )


def heads_trial(heads: Heads, num_rows: int) -> Trial:
    """Norm, rotation and cache write of the heads; the queries are compared."""
    num_kv_heads, head_dim = heads.num_kv_heads, heads.head_dim
    qkv = heads.random(num_rows, (heads.num_heads + 2 * num_kv_heads) * head_dim)
    weights = heads.random(head_dim), heads.random(head_dim)
    angles = torch.rand(num_rows, 1, head_dim // 2, device=heads.device) * 6
    cos = torch.cat([angles.cos(), angles.cos()], -1).to(heads.dtype)
    sin = torch.cat([-angles.sin(), angles.sin()], -1).to(heads.dtype)
    key_cache, value_cache = heads.random(2, num_rows, 16, num_kv_heads, head_dim)
    slots = torch.randperm(16 * num_rows, device=heads.device)[:num_rows]

    def by_operators() -> Tensor:
        q, k, v = qkv.unflatten(1, (-1, head_dim)).split(
            [heads.num_heads, num_kv_heads, num_kv_heads], dim=1
        )
        q, k = rms_norm_ref(q, weights[0], EPS), rms_norm_ref(k, weights[1], EPS)
        key_cache.flatten(0, 1)[slots] = rotary_ref(k, cos, sin)
        value_cache.flatten(0, 1)[slots] = v
        return rotary_ref(q, cos, sin)

    arguments = (
        qkv, *weights, cos, sin, EPS, key_cache, value_cache, slots, heads.num_heads
    )  # fmt: skip

    def expected() -> Tensor:
        q = qkv.double()[:, : heads.num_heads * head_dim].unflatten(1, (heads.num_heads, head_dim))
        q = _exact_norm(q, weights[0])
        return q * cos.double() + q.roll(head_dim // 2, dims=-1) * sin.double()

    return _row_trial(
        {"operation": "qk_norm_rope_cache_write", "rows": num_rows},
        2 * qkv.nbytes + cos.nbytes + sin.nbytes,
        {OURS: partial(qk_norm_rope_cache_write, *arguments), TORCH: by_operators},
        expected,
    )


def sample_trial(heads: Heads, num_rows: int, vocab_size: int = VOCAB) -> Trial:
    """A token of each row by temperature.

    What is compared is the token's score, as two scores that are nearly equal may change places:
    its logit and its own noise, which must be the largest there is.
    """
    logits = heads.random(num_rows, vocab_size)
    temperatures = torch.full((num_rows,), 0.6, device=heads.device)
    seeds = torch.arange(num_rows, device=heads.device)
    positions = torch.full_like(seeds, 7)
    arguments = (logits, temperatures, seeds, positions)

    def scores() -> Tensor:
        noise = gumbel(seeds, positions, vocab_size).double()
        return logits.double() + temperatures.double()[:, None] * noise

    trial = _row_trial(
        {"operation": "sample", "rows": num_rows},
        logits.nbytes,
        {OURS: partial(sample, *arguments), TORCH: partial(sample_ref, *arguments)},
        lambda: scores().amax(-1),
    )
    return replace(trial, pick=lambda token_ids: scores().gather(1, token_ids[:, None])[:, 0])


def small_trials() -> Iterator[partial[Trial]]:
    """What builds each trial."""
    for name, sizes in PRODUCTS.items():
        yield from (partial(product_trial, QWEN3_06B, name, rows, sizes) for rows in FEW_ROWS)
    for build in (norm_trial, add_norm_trial, heads_trial, silu_trial, sample_trial):
        yield from (partial(build, QWEN3_06B, rows) for rows in ROWS)


def _row_trial(
    labels: Mapping[str, str | int],
    num_bytes: float,
    ways: Mapping[str, Call],
    expected: Callable[[], Tensor],
) -> Trial:
    """A trial of one set of inputs, compared as a whole."""
    return Trial(
        labels=labels,
        num_bytes=num_bytes,
        ways={name: [call] for name, call in ways.items()},
        pick=_all,
        expected=expected,
    )


def _all(result: Tensor) -> Tensor:
    return result


def _exact_norm(x: Tensor, weight: Tensor) -> Tensor:
    """RMSNorm of rows in float64."""
    return weight.double() * x * (x.square().mean(-1, keepdim=True) + EPS).rsqrt()
