"""What the kernel tests share: parameters in pairs, batches in pages, and the exact answer.

The exact answer is attention in float64, request by request, over keys and values that were never
in a page. How close a kernel must come depends on its dtype: `assert_close` measures what plain
PyTorch loses in that dtype, and allows three times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations, product
from typing import Any

import pytest
import torch
from torch import Tensor

NAN = float("nan")

# Architecture, head_dim and dtype of what is compiled for GPUs that are not here. Float32, which is
# for checking and takes the compiler longest, once per width of tile; float16 is bfloat16's twin.
COMPILED_HEADS = [
    *product((80, 90), (64, 80, 96, 128, 256), (torch.bfloat16,)),
    (80, 64, torch.float32),
    (90, 128, torch.float32),
    (80, 256, torch.float32),
]


def dtypes() -> list[torch.dtype]:
    """Those that are computed right here: the interpreter's bfloat16 is not."""
    half = [torch.float16, torch.bfloat16] if torch.cuda.is_available() else [torch.float16]
    return [torch.float32, *half]


def pairwise(**choices: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrize a test so that any two values of different parameters meet at least once.

    `pairwise(a=range(5), b=range(5), c=range(5))` runs 25 times or a few more, instead of 125.
    """
    rows = list(product(*choices.values()))
    pairs_of = {row: set(combinations(enumerate(row), 2)) for row in rows}
    missing = set().union(*pairs_of.values())
    chosen = []
    while missing:
        chosen.append(max(rows, key=lambda row: len(pairs_of[row] & missing)))
        missing -= pairs_of[chosen[-1]]
    return pytest.mark.parametrize(
        tuple(choices), chosen, ids=lambda value: str(value).removeprefix("torch.")
    )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Requests whose queries are the last of their tokens, with all tokens in a paged cache."""

    q: Tensor
    key_cache: Tensor
    value_cache: Tensor
    block_table: Tensor
    query_start_loc: Tensor
    seq_lens: Tensor
    queries: list[Tensor]  # the same once more, request by request
    keys: list[Tensor]
    values: list[Tensor]
    scale: float

    @property
    def max_query_len(self) -> int:
        return max(len(q) for q in self.queries)

    def assert_close(self, out: Tensor, **rules: Any) -> None:
        """Compare each row with the exact answer; `rules` are those of `attend`."""
        requests = list(zip(self.queries, self.keys, self.values, strict=True))
        exact, lse = zip(*(attend(*each, self.scale, **rules) for each in requests), strict=True)
        rough = [attend(*each, self.scale, **rules, is_rough=True)[0] for each in requests]
        assert out.dtype == self.q.dtype
        assert out.is_contiguous()
        largest_score = torch.cat(lse, dim=1).nan_to_num(neginf=0.0).abs().max()  # about
        assert_close(out, torch.cat(exact), torch.cat(rough), float(largest_score))


def batch(
    query_lens: Sequence[int],
    seq_lens: Sequence[int],
    *,
    head_dim: int = 64,
    num_kv_heads: int = 1,
    group_size: int = 2,
    block_size: int = 16,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    layout: str = "apart",
    scores: str = "random",
    first_block: int = 1,
    seed: int = 0,
) -> Batch:
    """Random requests in shuffled pages; every slot, block and margin without a token is NaN.

    Args:
        query_lens: Queries per request.
        seq_lens: Keys per request, those of the queries last.
        head_dim: Elements per head.
        num_kv_heads: Heads of keys and values.
        group_size: Query heads per KV head.
        block_size: Tokens per page.
        dtype: Of queries, keys and values.
        device: Where they are.
        layout: How the caches lie in memory, a name of `LAYOUTS`.
        scores: How a query's scores run along the keys, a name of `SCORES`.
        first_block: No request owns a block below it.
        seed: Other numbers, another shuffle.
    """
    random = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random)

    direction = torch.nn.functional.normalize(normal(head_dim), dim=0)
    queries, keys, values = [], [], []
    for query_len, seq_len in zip(query_lens, seq_lens, strict=True):
        q = normal(query_len, num_kv_heads * group_size, head_dim)
        k = normal(seq_len, num_kv_heads, head_dim)
        if scores != "random":
            q = 0.1 * q + head_dim**0.5 * direction
            k = 0.1 * k + SCORES[scores](torch.arange(float(seq_len)))[:, None, None] * direction
        queries.append(q.to(device, dtype))
        keys.append(k.to(device, dtype))
        values.append(normal(seq_len, num_kv_heads, head_dim).to(device, dtype))
    table = shuffled_table(seq_lens, block_size, first_block, random)
    num_blocks = first_block + sum(-(-seq_len // block_size) for seq_len in seq_lens) + 2
    shape = (num_blocks, block_size, num_kv_heads, head_dim)
    return Batch(
        q=with_margin(torch.cat(queries)),
        key_cache=paged(keys, table, shape, layout),
        value_cache=paged(values, table, shape, layout),
        block_table=table.to(device),
        query_start_loc=start_loc(query_lens, device),
        seq_lens=torch.tensor(seq_lens, dtype=torch.int32, device=device),
        queries=queries,
        keys=keys,
        values=values,
        scale=head_dim**-0.5,
    )


def start_loc(lens: Sequence[int], device: str, *, first: int = 0) -> Tensor:
    """`[3, 2] -> [0, 3, 5]`, or from `first` on."""
    return torch.tensor(list(accumulate(lens, initial=first)), dtype=torch.int32, device=device)


def shuffled_table(
    seq_lens: Sequence[int], block_size: int, first_block: int, random: torch.Generator
) -> Tensor:
    """A block table in which block 0 is nobody's, and stands wherever a request needs no more."""
    num_blocks = [-(-seq_len // block_size) for seq_len in seq_lens]
    table = torch.zeros(len(seq_lens), max(num_blocks) + 1, dtype=torch.int32)
    shuffled = torch.randperm(sum(num_blocks) + 2, generator=random).int() + first_block
    for row, block_ids in zip(table, shuffled.split([*num_blocks, 2]), strict=False):
        row[: len(block_ids)] = block_ids
    return table


def paged(requests: list[Tensor], table: Tensor, shape: tuple[int, ...], layout: str) -> Tensor:
    """A cache that holds each request's heads where its row of `table` says."""
    cache = LAYOUTS[layout](shape, requests[0])
    for heads, block_ids in zip(requests, table.tolist(), strict=True):
        for block_id, block in zip(block_ids, heads.split(shape[1]), strict=False):
            cache[block_id, : len(block)] = block
    return cache


def permuted(shape: tuple[int, ...], order: tuple[int, ...], like: Tensor) -> Tensor:
    """NaN of this shape, whose axis `order[0]` is the outermost in memory."""
    memory = like.new_full([shape[axis] for axis in order], NAN)
    return memory.permute([order.index(axis) for axis in range(len(shape))])


# What a query's score for the key at each position is, about; "random" is the other choice.
SCORES: dict[str, Callable[[Tensor], Tensor]] = {
    "growing": lambda positions: positions / 2,  # a new maximum in every tile
    "falling": lambda positions: 60 - positions / 2,  # the first key outweighs all
    "all_negative": lambda positions: -100 - positions % 7,  # e^-100 is 0 in float32
    "large": lambda positions: 200 + positions % 7,  # e^200 is more than float32 holds
    "one_peak": lambda positions: 30.0 * (positions == 35),
}

# Blocks, slots, heads and dims of a cache in memory, all of it NaN.
LAYOUTS: dict[str, Callable[[tuple[int, ...], Tensor], Tensor]] = {
    "apart": lambda shape, like: like.new_full(shape, NAN),
    "key_and_value": lambda shape, like: like.new_full((2, *shape), NAN)[1],
    "key_or_value": lambda shape, like: like.new_full((shape[0], 2, *shape[1:]), NAN)[:, 1],
    "heads_before_slots": lambda shape, like: permuted(shape, (0, 2, 1, 3), like),
    "slots_last": lambda shape, like: permuted(shape, (0, 2, 3, 1), like),
    "margin": lambda shape, like: with_margin(like.new_full(shape, NAN)),
}


def with_margin(heads: Tensor) -> Tensor:
    """The same heads, `[..., num_heads, head_dim]`, with NaN after each head and each last one."""
    *outer, num_heads, head_dim = heads.shape
    memory = heads.new_full((*outer, num_heads + 1, head_dim + 8), NAN)
    memory[..., :num_heads, :head_dim] = heads
    return memory[..., :num_heads, :head_dim]


def attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float,
    *,
    is_causal: bool = True,
    sliding_window: int | None = None,
    is_rough: bool = False,
) -> tuple[Tensor, Tensor]:
    """One request's attention, query by query, and its log-sum-exp, in float64.

    If `is_rough`, in float32 instead, with weights and output rounded to q's dtype, as kernels do.
    """
    compute, store = (torch.float32, q.dtype) if is_rough else (torch.float64, torch.float64)
    group_size = q.shape[1] // k.shape[1]
    k, v = (x.to(compute).repeat_interleave(group_size, dim=1) for x in (k, v))
    out = torch.zeros(q.shape, dtype=store, device=q.device)
    lse = torch.full((q.shape[1], len(q)), -torch.inf, dtype=compute, device=q.device)
    for row, query in enumerate(q.to(compute)):
        position = len(k) - len(q) + row
        end = position + 1 if is_causal else len(k)
        begin = 0 if sliding_window is None else max(0, position - sliding_window + 1)
        if begin < end:
            scores = torch.einsum("hd,khd->hk", query, k[begin:end]) * scale
            weights = (scores - scores.amax(1, keepdim=True)).exp()
            mixed = torch.einsum("hk,khd->hd", weights.to(store).to(compute), v[begin:end])
            out[row] = mixed / weights.sum(1, keepdim=True)
            lse[:, row] = scores.logsumexp(1)
    return out, lse


def assert_close(out: Tensor, exact: Tensor, rough: Tensor, exponent: float = 0.0) -> None:
    """`out` is at most three times as far from `exact` as `rough`, the same in plain PyTorch, is.

    As `rough` may be exact by chance, two rounding steps are allowed in any case: in the dtype of
    the result, and in float32 of the largest `exponent` of an e-function on the way to it.
    """
    assert out.shape == exact.shape
    if out.numel() == 0:
        return
    steps = 2 * torch.finfo(out.dtype).eps + 2 * torch.finfo(torch.float32).eps * exponent
    allowed = 3 * (rough.double() - exact).abs().max() + steps * exact.abs().max()
    error = (out.double() - exact).abs().max()  # NaN is not at most anything
    assert error <= allowed, f"off by {error:.2e}, allowed are {allowed:.2e}"
