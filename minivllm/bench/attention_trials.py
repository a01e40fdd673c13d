"""Trials of attention: decode over a paged cache, and causal prefill (W3).

PyTorch's ways can't read pages. Here they find keys and values side by side, head by head, as suits
them best; in an engine they would have to gather them first.
Next file to read: `small_trials.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.bench.flash_ways import flash_decode, flash_prefill
from minivllm.bench.trial import OURS, Call, Trial, num_input_sets
from minivllm.kernels.flash_attention import flash_attention
from minivllm.kernels.paged_decode import paged_decode
from minivllm.kernels.paged_prefill import paged_prefill

NAIVE, SDPA = "naive torch, contiguous", "SDPA, contiguous"
PAGED = f"{OURS}, paged, block 16"


@dataclass(frozen=True, kw_only=True)
class Heads:
    """The heads of a layer, and where they are computed."""

    num_heads: int
    num_kv_heads: int = 8
    head_dim: int = 128
    device: str = "cuda"
    dtype: torch.dtype = torch.bfloat16

    def __str__(self) -> str:
        """Query and KV heads."""
        return f"{self.num_heads}/{self.num_kv_heads}"

    def random(self, *shape: int) -> Tensor:
        """Random numbers where the heads are."""
        return torch.randn(shape, device=self.device, dtype=self.dtype)

    @property
    def token_bytes(self) -> int:
        """A token's key and value."""
        return 2 * self.num_kv_heads * self.head_dim * self.dtype.itemsize


@dataclass(frozen=True, kw_only=True)
class Decode:
    """One query each of requests with equally many cached tokens."""

    heads: Heads
    num_reqs: int
    num_tokens: int
    block_size: int = 16


@dataclass(frozen=True, kw_only=True)
class Prefill:
    """A whole prompt."""

    heads: Heads
    num_tokens: int


QWEN3_06B = Heads(num_heads=16)
MINIVLLM = Heads(num_heads=32)  # the repository that this course grew from, its two scripts

DECODE_GRID = [
    *(
        Decode(heads=QWEN3_06B, num_reqs=num_reqs, num_tokens=num_tokens, block_size=block_size)
        for num_reqs, num_tokens in (
            (1, 1024), (1, 32_768), (8, 4096), (64, 1024), (256, 1024), (256, 4096)
        )
        for block_size in (16, 256)
    ),
    *(
        Decode(heads=MINIVLLM, num_reqs=num_reqs, num_tokens=num_tokens)
        for num_reqs, num_tokens in ((1, 512), (16, 256), (4, 2048))
    ),
]  # fmt: skip
PREFILL_GRID = [
    *(Prefill(heads=QWEN3_06B, num_tokens=num_tokens) for num_tokens in (1024, 4096, 16_384)),
    Prefill(heads=MINIVLLM, num_tokens=1024),
]


class PagedInputs:
    """Sets of requests, with equally many tokens each, in one cache with shuffled blocks."""

    def __init__(
        self, heads: Heads, num_sets: int, num_reqs: int, num_tokens: int, block_size: int
    ) -> None:
        self._num_tokens = num_tokens
        per_request = -(-num_tokens // block_size)
        num_blocks = num_sets * num_reqs * per_request
        shape = (num_blocks, block_size, heads.num_kv_heads, heads.head_dim)
        self.caches = heads.random(*shape), heads.random(*shape)
        shuffled = torch.randperm(num_blocks, device=heads.device, dtype=torch.int32)
        self.tables = shuffled.view(num_sets, num_reqs, per_request)
        self.seq_lens = torch.full_like(self.tables[0, :, 0], num_tokens)

    def contiguous(self, index: int) -> tuple[Tensor, Tensor]:
        """Keys and values of a set's requests, each `[num_reqs, num_kv_heads, num_tokens, D]`."""
        key, value = (
            cache[self.tables[index].long()].flatten(1, 2)[:, : self._num_tokens].transpose(1, 2)
            for cache in self.caches
        )
        return key.contiguous(), value.contiguous()


def decode_trial(case: Decode, num_sets: int | None = None) -> Trial:
    """A decode step's attention; `num_sets` of inputs, or as many as the L2 cache asks for."""
    heads, num_tokens = case.heads, case.num_tokens
    num_bytes = case.num_reqs * num_tokens * heads.token_bytes
    num_sets = num_sets or num_input_sets(num_bytes)
    inputs = PagedInputs(heads, num_sets, case.num_reqs, num_tokens, case.block_size)
    q = heads.random(num_sets, case.num_reqs, heads.num_heads, heads.head_dim)
    scale = heads.head_dim**-0.5
    ways: dict[str, list[Call]] = {
        OURS: [
            partial(
                paged_decode, q[i], *inputs.caches, inputs.tables[i], inputs.seq_lens, scale=scale
            )
            for i in range(num_sets)
        ]
    }
    ways |= flash_decode(q, inputs.caches, inputs.tables, inputs.seq_lens)
    if case.block_size == 16:  # PyTorch's ways know no blocks: once is enough
        contiguous = [inputs.contiguous(i) for i in range(num_sets)]
        for name, attend in ((NAIVE, naive_attention), (SDPA, sdpa)):
            ways[name] = [
                partial(_decode_by, attend, q[i], *contiguous[i]) for i in range(num_sets)
            ]
    some = sorted({0, case.num_reqs - 1})

    def expected() -> Tensor:
        key, value = inputs.contiguous(0)
        return torch.stack([exact_rows(q[0, i, :, None], key[i], value[i])[:, 0] for i in some])

    return Trial(
        labels={
            "heads": str(heads),
            "requests": case.num_reqs,
            "tokens": num_tokens,
            "block": case.block_size,
        },
        num_bytes=num_bytes,
        ways=ways,
        pick=lambda out: out[some],
        expected=expected,
    )


def prefill_trial(case: Prefill, num_sets: int | None = None) -> Trial:
    """Causal attention over one prompt; `num_sets` as in `decode_trial`."""
    heads, num_tokens = case.heads, case.num_tokens
    q_bytes = num_tokens * heads.num_heads * heads.head_dim * heads.dtype.itemsize
    num_bytes = 2 * q_bytes + num_tokens * heads.token_bytes
    num_sets = num_sets or num_input_sets(num_bytes)
    inputs = PagedInputs(heads, num_sets, num_reqs=1, num_tokens=num_tokens, block_size=16)
    q = heads.random(num_sets, num_tokens, heads.num_heads, heads.head_dim)
    starts = torch.tensor([0, num_tokens], device=heads.device, dtype=torch.int32)
    settings: dict[str, Any] = {"max_query_len": num_tokens, "scale": heads.head_dim**-0.5}
    contiguous = [inputs.contiguous(i) for i in range(num_sets)]
    tokens_first = [
        tuple(x[0].transpose(0, 1).contiguous() for x in key_value) for key_value in contiguous
    ]
    ways: dict[str, list[Call]] = {
        f"{OURS}, contiguous": [
            partial(_first_of, flash_attention, q[i], *tokens_first[i], starts, starts, **settings)
            for i in range(num_sets)
        ],
        PAGED: [
            partial(
                paged_prefill, q[i], *inputs.caches, inputs.tables[i], starts, inputs.seq_lens,
                **settings,
            )
            for i in range(num_sets)
        ],
    }  # fmt: skip
    ways |= flash_prefill(q, tokens_first)
    for name, attend in ((NAIVE, naive_attention), (SDPA, sdpa)):
        ways[name] = [partial(_prefill_by, attend, q[i], *contiguous[i]) for i in range(num_sets)]
    some = sorted({0, 1, num_tokens // 2, num_tokens - 1})

    def expected() -> Tensor:
        key, value = contiguous[0][0][0], contiguous[0][1][0]
        rows = [exact_rows(q[0, i][:, None], key[:, : i + 1], value[:, : i + 1]) for i in some]
        return torch.stack([row[:, 0] for row in rows])

    return Trial(
        labels={"heads": str(heads), "tokens": num_tokens},
        num_bytes=num_bytes,
        num_flops=2 * num_tokens**2 * heads.head_dim * heads.num_heads,  # the causal half
        ways=ways,
        pick=lambda out: out[some],
        expected=expected,
    )


def naive_attention(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    """Attention as the formula says; `q` is `[B, H, Q, D]`, `k` and `v` `[B, H_kv, N, D]`.

    Query heads of a group are rows of one product, so that no key is copied.
    """
    num_queries, num_keys = q.shape[2], k.shape[2]
    rows = q.unflatten(1, (k.shape[1], -1)).flatten(2, 3)
    scores = (rows @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5
    if is_causal:
        unseen = torch.ones(num_queries, num_keys, dtype=torch.bool, device=q.device).triu(1)
        scores.unflatten(2, (-1, num_queries)).masked_fill_(unseen, float("-inf"))
    out: Tensor = (scores.softmax(-1) @ v).unflatten(2, (-1, num_queries)).flatten(1, 2)
    return out


def sdpa(q: Tensor, k: Tensor, v: Tensor, is_causal: bool) -> Tensor:
    """PyTorch's own attention, by whichever of its kernels it chooses."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, enable_gqa=True)


def exact_rows(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attention in float64 over all keys; `q` is `[H, Q, D]`, `k` and `v` `[H_kv, N, D]`."""
    group_size = len(q) // len(k)
    k, v = (x.double().repeat_interleave(group_size, dim=0) for x in (k, v))
    scores = q.double() @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    out: Tensor = scores.softmax(-1) @ v
    return out


def _decode_by(attend: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Tensor = attend(q[:, :, None], k, v, is_causal=False)
    return out[:, :, 0]


def _prefill_by(attend: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Tensor = attend(q.transpose(0, 1)[None], k, v, is_causal=True)
    return out[0].transpose(0, 1)


def _first_of(attend: Any, *args: Any, **settings: Any) -> Tensor:
    """The output of an operation that gives the log-sum-exp as well."""
    out: Tensor = attend(*args, **settings)[0]
    return out


def attention_trials() -> Iterator[partial[Trial]]:
    """What builds each trial: one exists at a time, as some fill gigabytes."""
    yield from (partial(decode_trial, case) for case in DECODE_GRID)
    yield from (partial(prefill_trial, case) for case in PREFILL_GRID)
