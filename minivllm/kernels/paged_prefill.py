"""Paged prefill: flash attention whose keys and values lie in the pages of a KV cache.

    out[i] = sum_j softmax_j(scale * q[i] . k[j]) v[j]      j up to i's own position in its request

It is `flash_attention.py` with one line changed: the place of key j is looked up.

    slot(j) = block_table[request, j // block_size] * block_size + j % block_size

A whole prompt, a chunk of one after cached tokens, and several of either in one launch are the same
to it: the queries of a request are its last `query_len` tokens, `seq_lens` says how many it has,
and the cache holds them all. Slots that no request owns are never read, whatever they hold.

T queries, H query heads, D head_dim, M = BLOCK_M, N = BLOCK_N, B block_size.
Bytes: keys and values once per M queries and head, as a contiguous one; besides, a block id per
key.
Papers: FlashAttention-2, arXiv:2307.08691, section 3; PagedAttention, arXiv:2309.06180, section 4.
Next file to read: `paged_decode.py`.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Int32
from torch import Tensor

from minivllm.kernels.common import ANY_ALIGNMENT, block_of, ceil_div, dot, launch, shared_memory
from minivllm.kernels.flash_attention import attend_ref, prefill_tiles, visible_keys
from minivllm.kernels.online_softmax import (
    LOG2_E,
    add_tile,
    finish_rows,
    hide_unseen,
    load_tile,
    start_rows,
    tiles_to_visit,
)


def paged_prefill_ref(
    q: Float[Tensor, "num_tokens num_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_table: Int32[Tensor, "num_reqs max_num_blocks"],
    query_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    seq_lens: Int32[Tensor, " num_reqs"],
    *,
    max_query_len: int,
    scale: float,
    sliding_window: int | None = None,
) -> Float[Tensor, "num_tokens num_heads head_dim"]:
    """What `paged_prefill` computes, request by request (it has no use for `max_query_len`)."""
    out = torch.zeros_like(q)
    starts = query_start_loc.tolist()
    for i, seq_len in enumerate(seq_lens.tolist()):
        rows = slice(starts[i], starts[i + 1])
        k = read_pages(key_cache, block_table[i], seq_len)
        v = read_pages(value_cache, block_table[i], seq_len)
        visible = visible_keys(rows.stop - rows.start, seq_len, True, sliding_window, q.device)
        out[rows], _ = attend_ref(q[rows], k, v, visible, scale)
    return out


def read_pages(
    cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_ids: Int32[Tensor, " max_num_blocks"],
    seq_len: int,
) -> Float[Tensor, "{seq_len} num_kv_heads head_dim"]:
    """A request's keys (or values) in the order of their positions."""
    num_blocks = -(-seq_len // cache.shape[1])
    return cache[block_ids[:num_blocks].long()].flatten(0, 1)[:seq_len]


@triton.jit
@no_type_check
def pages_of(table_ptr, positions, is_key, BLOCK_SIZE: tl.constexpr):
    """The physical block of each position of one request, as int64, and its place in there."""
    block_ids = tl.load(table_ptr + positions // BLOCK_SIZE, mask=is_key, other=0)
    return block_ids.to(tl.int64), positions % BLOCK_SIZE


@triton.jit(do_not_specialize=["table_stride"], do_not_specialize_on_alignment=ANY_ALIGNMENT)
@no_type_check
def _paged_prefill(
    q_ptr, k_ptr, v_ptr, out_ptr, table_ptr, query_start_loc_ptr, seq_lens_ptr,
    group_size, scale_log2, sliding_window, table_stride,
    q_stride_t, q_stride_h, q_stride_d, k_stride_b, k_stride_s, k_stride_h, k_stride_d,
    v_stride_b, v_stride_s, v_stride_h, v_stride_d, out_stride_t, out_stride_h,
    HEAD_DIM: tl.constexpr, BLOCK_SIZE: tl.constexpr, SAME_STRIDES: tl.constexpr,
    HAS_WINDOW: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(0)
    tile = tl.num_programs(1) - 1 - tl.program_id(1)  # those with most keys start first
    request = tl.program_id(2)
    query_start = tl.load(query_start_loc_ptr + request)
    query_len = tl.load(query_start_loc_ptr + request + 1) - query_start
    seq_len = tl.load(seq_lens_ptr + request)
    first_row = tile * BLOCK_M
    if first_row >= query_len:
        return

    rows = first_row + tl.arange(0, BLOCK_M)
    is_row, tokens = rows < query_len, (query_start + rows).to(tl.int64)
    positions = rows + (seq_len - query_len)
    q_ptr += head.to(tl.int64) * q_stride_h
    k_ptr += (head // group_size).to(tl.int64) * k_stride_h
    v_ptr += (head // group_size).to(tl.int64) * v_stride_h
    table_ptr += request.to(tl.int64) * table_stride
    q = load_tile(q_ptr, tokens * q_stride_t, is_row, q_stride_d, HEAD_DIM, BLOCK_D, True)
    first_position = first_row + seq_len - query_len
    begin, num_full, end = tiles_to_visit(
        first_position, seq_len, sliding_window, True, HAS_WINDOW, BLOCK_M, BLOCK_N
    )

    acc, row_max, row_sum = start_rows(BLOCK_M, BLOCK_D)
    offsets = tl.arange(0, BLOCK_N)
    blocks, places = pages_of(table_ptr, begin + offsets, begin + offsets < seq_len, BLOCK_SIZE)
    for HAS_MASK in tl.static_range(2):  # the tiles that all queries see, then the others
        for start in range(num_full if HAS_MASK else begin, end if HAS_MASK else num_full, BLOCK_N):
            keys = start + offsets
            is_key = keys < seq_len
            k_rows = blocks * k_stride_b + places * k_stride_s
            v_rows = k_rows if SAME_STRIDES else blocks * v_stride_b + places * v_stride_s
            # The next block ids, a tile ahead: so the loads of keys do not wait for them.
            ahead = keys + BLOCK_N
            blocks, places = pages_of(table_ptr, ahead, ahead < seq_len, BLOCK_SIZE)
            k = load_tile(k_ptr, k_rows, is_key, k_stride_d, HEAD_DIM, BLOCK_D, HAS_MASK)
            v = load_tile(v_ptr, v_rows, is_key, v_stride_d, HEAD_DIM, BLOCK_D, HAS_MASK)
            scores = dot(q, tl.trans(k))
            if HAS_MASK:
                scores = hide_unseen(
                    scores, keys, is_key, positions, sliding_window, True, HAS_WINDOW
                )
            acc, row_max, row_sum = add_tile(acc, row_max, row_sum, scores, scale_log2, v, HAS_MASK)

    out, _ = finish_rows(acc, row_max, row_sum)
    dims = tl.arange(0, BLOCK_D)
    out_ptrs = out_ptr + tokens[:, None] * out_stride_t + head * out_stride_h
    out_mask = is_row[:, None] & (dims < HEAD_DIM)[None, :]
    tl.store(out_ptrs + dims[None, :], out.to(out_ptr.dtype.element_ty), mask=out_mask)


def paged_prefill(
    q: Float[Tensor, "num_tokens num_heads head_dim"],
    key_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    value_cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    block_table: Int32[Tensor, "num_reqs max_num_blocks"],
    query_start_loc: Int32[Tensor, " num_reqs_plus_1"],
    seq_lens: Int32[Tensor, " num_reqs"],
    *,
    max_query_len: int,
    scale: float,
    sliding_window: int | None = None,
    out: Float[Tensor, "num_tokens num_heads head_dim"] | None = None,
) -> Float[Tensor, "num_tokens num_heads head_dim"]:
    """Causal attention of each query over its request's cached tokens up to its own position.

    Args:
        q: The queries of all requests, end to end; each request's are its last tokens.
        key_cache: One layer's pages, with the keys of these queries in them. Any strides.
        value_cache: The values' pages.
        block_table: Logical block to physical block; entries beyond a request's length are not
            read. Rows must be contiguous.
        query_start_loc: Request i owns rows `[i]` up to `[i + 1]` of `q`; rows of no request are
            left as they come.
        seq_lens: Tokens of each request in the cache.
        max_query_len: Queries of the request that has most, or more: the size of the grid.
        scale: Factor on the scores, usually `head_dim ** -0.5`.
        sliding_window: A query sees this many tokens, itself included; `None` is all.
        out: Where the result goes, heads contiguous; `None` makes a new tensor.
    """
    num_tokens, num_heads, head_dim = q.shape
    if out is None:
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    if num_tokens == 0 or len(seq_lens) == 0:
        return out
    tiles = prefill_tiles(head_dim, q.element_size(), shared_memory(q.device))
    grid = (num_heads, ceil_div(max_query_len, tiles.BLOCK_M), len(seq_lens))
    launch(
        _paged_prefill, grid,
        q, key_cache, value_cache, out, block_table, query_start_loc, seq_lens,
        num_heads // key_cache.shape[2], scale * LOG2_E, sliding_window or 0, block_table.stride(0),
        *q.stride(), *key_cache.stride(), *value_cache.stride(), out.stride(0), out.stride(1),
        HEAD_DIM=head_dim, BLOCK_SIZE=key_cache.shape[1],
        SAME_STRIDES=key_cache.stride() == value_cache.stride(),
        HAS_WINDOW=sliding_window is not None,
        BLOCK_D=block_of(head_dim), **tiles._asdict(),
    )  # fmt: skip
    return out
