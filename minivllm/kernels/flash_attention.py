"""Flash attention: exact attention that never stores the matrix of scores.

    out[i] = sum_j softmax_j(scale * q[i] . k[j]) v[j]          over the keys j that query i sees

A program owns BLOCK_M queries of one head of one request. It walks over that request's keys in
tiles of BLOCK_N and keeps, for each query, a running output, maximum and sum (online_softmax.py).
The requests lie end to end, and each program looks up where its own begins:

    query_start_loc [0, 3, 5]    request 0 owns rows 0..2, request 1 rows 3..4
    key_start_loc   [0, 3, 9]    and keys 0..2, 3..8: request 1's queries are the last 2 of 6

Causal: a query sees the keys up to its own place. For the queries of one program that makes three
kinds of tile, of which only the one on the diagonal pays for a mask:

    keys    | seen by all queries | seen by some | seen by none |
            |      no mask        |    masked    |   skipped    |

T queries, H query heads, G query heads per KV head, D head_dim, M = BLOCK_M, N = BLOCK_N.
Bytes: each key and value is read once per M queries and head (from the L2 cache, mostly), 4 T T H D
operations, half of them for causal.
Paper: FlashAttention-2, arXiv:2307.08691, section 3. Next file to read: `paged_prefill.py`, the
same over a paged cache.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple, no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Float32, Int32
from torch import Tensor

from minivllm.kernels.common import block_of, ceil_div, dot, launch, shared_memory
from minivllm.kernels.online_softmax import (
    LN_2,
    LOG2_E,
    add_tile,
    finish_rows,
    hide_unseen,
    load_tile,
    start_rows,
    tiles_to_visit,
)

AttentionOutput = tuple[
    Float[Tensor, "num_tokens num_heads head_dim"], Float32[Tensor, "num_heads num_tokens"]
]


def flash_attention_ref(
    q: Float[Tensor, "num_tokens num_heads head_dim"],
    k: Float[Tensor, "num_keys num_kv_heads head_dim"],
    v: Float[Tensor, "num_keys num_kv_heads head_dim"],
    query_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    key_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    *,
    max_query_len: int,
    scale: float,
    is_causal: bool = True,
    sliding_window: int | None = None,
) -> AttentionOutput:
    """What `flash_attention` computes, request by request (it has no use for `max_query_len`)."""
    out = torch.zeros_like(q)
    lse = torch.full((q.shape[1], len(q)), float("-inf"), dtype=torch.float32, device=q.device)
    query_starts, key_starts = query_start_loc.tolist(), key_start_loc.tolist()
    for i in range(len(query_starts) - 1):
        rows = slice(query_starts[i], query_starts[i + 1])
        keys = slice(key_starts[i], key_starts[i + 1])
        visible = visible_keys(
            rows.stop - rows.start, keys.stop - keys.start, is_causal, sliding_window, q.device
        )
        out[rows], lse[:, rows] = attend_ref(q[rows], k[keys], v[keys], visible, scale)
    return out, lse


def visible_keys(
    query_len: int, key_len: int, is_causal: bool, sliding_window: int | None, device: torch.device
) -> Tensor:
    """Which keys each query sees, `[query_len, key_len]`; the queries stand at the last keys."""
    positions = torch.arange(key_len - query_len, key_len, device=device)[:, None]
    keys = torch.arange(key_len, device=device)[None, :]
    visible = torch.ones(query_len, key_len, dtype=torch.bool, device=device)
    if is_causal:
        visible &= keys <= positions
    if sliding_window is not None:
        visible &= keys > positions - sliding_window
    return visible


def attend_ref(
    q: Float[Tensor, "query_len num_heads head_dim"],
    k: Float[Tensor, "key_len num_kv_heads head_dim"],
    v: Float[Tensor, "key_len num_kv_heads head_dim"],
    visible: Tensor,
    scale: float,
) -> tuple[Tensor, Tensor]:
    """Attention of one request in float32, and the log-sum-exp `[num_heads, query_len]`."""
    group_size = q.shape[1] // k.shape[1]
    k = k.float().repeat_interleave(group_size, dim=1)
    v = v.float().repeat_interleave(group_size, dim=1)
    scores = torch.einsum("qhd,khd->hqk", q.float(), k) * scale
    scores = scores.masked_fill(~visible, float("-inf"))
    weights = scores.softmax(-1).nan_to_num(0.0)  # a query that sees nothing: 0 / 0
    return torch.einsum("hqk,khd->qhd", weights, v).to(q.dtype), scores.logsumexp(-1)


@triton.jit(do_not_specialize=["lse_stride_h"])
@no_type_check
def _flash_attention(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, query_start_loc_ptr, key_start_loc_ptr,
    group_size, scale_log2, sliding_window,
    q_stride_t, q_stride_h, q_stride_d, k_stride_t, k_stride_h, k_stride_d,
    v_stride_t, v_stride_h, v_stride_d, out_stride_t, out_stride_h, lse_stride_h,
    HEAD_DIM: tl.constexpr, IS_CAUSAL: tl.constexpr, HAS_WINDOW: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)  # those with most keys start first
    request = tl.program_id(2)
    query_start = tl.load(query_start_loc_ptr + request)
    query_len = tl.load(query_start_loc_ptr + request + 1) - query_start
    key_start = tl.load(key_start_loc_ptr + request)
    key_len = tl.load(key_start_loc_ptr + request + 1) - key_start
    first_row = tile * BLOCK_M
    if first_row >= query_len:
        return

    rows = first_row + tl.arange(0, BLOCK_M)
    is_row, tokens = rows < query_len, (query_start + rows).to(tl.int64)
    positions = rows + (key_len - query_len)  # of the queries among their request's keys
    q_ptr += head.to(tl.int64) * q_stride_h
    k_ptr += (head // group_size).to(tl.int64) * k_stride_h
    v_ptr += (head // group_size).to(tl.int64) * v_stride_h
    q = load_tile(q_ptr, tokens * q_stride_t, is_row, q_stride_d, HEAD_DIM, BLOCK_D, True)
    first_position = first_row + key_len - query_len
    begin, num_full, end = tiles_to_visit(
        first_position, key_len, sliding_window, IS_CAUSAL, HAS_WINDOW, BLOCK_M, BLOCK_N
    )

    acc, row_max, row_sum = start_rows(BLOCK_M, BLOCK_D)
    for HAS_MASK in tl.static_range(2):  # the tiles that all queries see, then the others
        for start in range(num_full if HAS_MASK else begin, end if HAS_MASK else num_full, BLOCK_N):
            keys = start + tl.arange(0, BLOCK_N)
            is_key, places = keys < key_len, (key_start + keys).to(tl.int64)
            k = load_tile(
                k_ptr, places * k_stride_t, is_key, k_stride_d, HEAD_DIM, BLOCK_D, HAS_MASK
            )
            v = load_tile(
                v_ptr, places * v_stride_t, is_key, v_stride_d, HEAD_DIM, BLOCK_D, HAS_MASK
            )
            scores = dot(q, tl.trans(k))
            if HAS_MASK:
                scores = hide_unseen(
                    scores, keys, is_key, positions, sliding_window, IS_CAUSAL, HAS_WINDOW
                )
            acc, row_max, row_sum = add_tile(acc, row_max, row_sum, scores, scale_log2, v, HAS_MASK)

    out, lse_log2 = finish_rows(acc, row_max, row_sum)
    dims = tl.arange(0, BLOCK_D)
    out_ptrs = out_ptr + tokens[:, None] * out_stride_t + head * out_stride_h
    out_mask = is_row[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(out_ptrs + dims[None, :], out.to(out_ptr.dtype.element_ty), mask=out_mask)
    lse_ptrs = lse_ptr + head.to(tl.int64) * lse_stride_h + tokens
    tl.store(lse_ptrs, lse_log2 * LN_2, mask=is_row)


def flash_attention(
    q: Float[Tensor, "num_tokens num_heads head_dim"],
    k: Float[Tensor, "num_keys num_kv_heads head_dim"],
    v: Float[Tensor, "num_keys num_kv_heads head_dim"],
    query_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    key_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    *,
    max_query_len: int,
    scale: float,
    is_causal: bool = True,
    sliding_window: int | None = None,
) -> AttentionOutput:
    """Attention of each query over its own request's keys, and the log of each sum of weights.

    Args:
        q: The queries of all requests, end to end; any strides, as for `k` and `v`.
        k: Their keys.
        v: Their values.
        query_start_loc: Request i owns rows `[i]` up to `[i + 1]` of `q`.
        key_start_loc: The same for `k` and `v`.
        max_query_len: Queries of the request that has most, or more: the size of the grid.
        scale: Factor on the scores, usually `head_dim ** -0.5`.
        is_causal: A query sees no key after its own place; the queries stand at the last keys.
        sliding_window: A query sees this many keys up to its own place; `None` is all. Keys after
            its place, where `is_causal` lets it see them, don't count.

    Returns:
        The mixed values, 0 for a query that sees no key, and its log-sum-exp, then -inf.
    """
    num_tokens, num_heads, head_dim = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    lse = torch.empty((num_heads, num_tokens), dtype=torch.float32, device=q.device)
    num_reqs = len(query_start_loc) - 1
    if num_tokens == 0 or num_reqs == 0:
        return out, lse
    tiles = prefill_tiles(head_dim, q.element_size(), shared_memory(q.device))
    grid = (num_heads, ceil_div(max_query_len, tiles.BLOCK_M), num_reqs)
    launch(
        _flash_attention, grid,
        q, k, v, out, lse, query_start_loc, key_start_loc,
        num_heads // k.shape[1], scale * LOG2_E, sliding_window or 0,
        *q.stride(), *k.stride(), *v.stride(), out.stride(0), out.stride(1), lse.stride(0),
        HEAD_DIM=head_dim, IS_CAUSAL=is_causal, HAS_WINDOW=sliding_window is not None,
        BLOCK_D=block_of(head_dim), **tiles._asdict(),
    )  # fmt: skip
    return out, lse


class PrefillTiles(NamedTuple):
    """How many queries a program owns, how many keys it takes at once, and with what means."""

    BLOCK_M: int
    BLOCK_N: int
    num_warps: int
    num_stages: int


_TILES = (  # the fastest first, measured on an H200: benchmarks/README.md
    PrefillTiles(128, 128, num_warps=8, num_stages=3),
    PrefillTiles(64, 64, num_warps=4, num_stages=3),
    PrefillTiles(64, 64, num_warps=4, num_stages=2),
    PrefillTiles(64, 32, num_warps=4, num_stages=2),
    PrefillTiles(32, 32, num_warps=4, num_stages=1),
)


@cache
def prefill_tiles(head_dim: int, element_size: int, max_bytes: int) -> PrefillTiles:
    """The first tiles that fit into `max_bytes`: the queries, and keys and values of each stage."""
    if element_size == 4:  # float32 is for checking, not for speed
        return _TILES[-1]
    row_bytes = block_of(head_dim) * element_size
    fitting = (
        tiles
        for tiles in _TILES
        if (tiles.BLOCK_M + 2 * tiles.BLOCK_N * tiles.num_stages) * row_bytes <= max_bytes
    )
    return next(fitting, _TILES[-1])
