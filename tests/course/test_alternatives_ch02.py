"""Right answers to chapter 02, written otherwise than the solution."""

from __future__ import annotations

import math
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from minivllm.course.attempt import Attempt
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import find, solution_of
from minivllm.course.render import render

# --- attend --------------------------------------------------------------------------------------


def attend_batched(q, k, v, visible):
    """As in most training code: heads first, batched products, one softmax."""
    n_rep = q.size(1) // k.size(1)
    q, k, v = (x.transpose(0, 1).to(torch.float32) for x in (q, k, v))
    k, v = k.repeat_interleave(n_rep, 0), v.repeat_interleave(n_rep, 0)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    scores = torch.where(visible, scores, float("-inf"))
    probs = torch.nan_to_num(F.softmax(scores, dim=-1))
    return (probs @ v).transpose(0, 1).contiguous()


def attend_batched_cast(q, k, v, visible):
    return attend_batched(q, k, v, visible).to(q.dtype)


def attend_in_groups(q, k, v, visible):
    """No head is repeated: an axis for groups."""
    grouped = q.float().unflatten(1, (k.shape[1], -1))
    s = torch.einsum("qgrd,kgd->grqk", grouped, k.float()) / q.shape[-1] ** 0.5
    s = s + torch.zeros(visible.shape).masked_fill(visible.logical_not(), -torch.inf)
    m = s.amax(-1, keepdim=True).clamp(min=-1e30)
    p = (s - m).exp()
    total = p.sum(-1, keepdim=True)
    p = torch.where(total > 0, p / total.clamp(min=1e-30), 0)
    return torch.einsum("grqk,kgd->qgrd", p, v.float()).flatten(1, 2).to(q.dtype)


def attend_head_by_head(q, k, v, visible):
    out = torch.empty_like(q)
    for h in range(q.shape[1]):
        kv = h * k.shape[1] // q.shape[1]
        s = (q[:, h].float() @ k[:, kv].float().T).div(q.shape[2] ** 0.5)
        s[~visible] = float("-inf")
        p = s.softmax(1)
        p[~visible] = 0
        out[:, h] = (p @ v[:, kv].float()).to(q.dtype)
    return out


def attend_in_float64(q, k, v, visible):
    """The lowest number instead of -inf, and float64 inside."""
    rep = q.shape[1] // k.shape[1]
    k, v = (x.double()[:, :, None].expand(-1, -1, rep, -1).flatten(1, 2) for x in (k, v))
    s = (q.double().unsqueeze(1) * k).sum(-1) * q.shape[-1] ** -0.5
    s = s.masked_fill(~visible[..., None], torch.finfo(s.dtype).min)
    p = torch.softmax(s, dim=1) * visible[..., None]
    return torch.einsum("qkh,khd->qhd", p, v).to(q.dtype)


def attend_cast_weights(q, k, v, visible):
    """As Hugging Face: the weights go back to the dtype of q before they meet the values."""
    rep = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(rep, 1).transpose(0, 1) for x in (k, v))
    s = (q.transpose(0, 1).float() * q.shape[-1] ** -0.5) @ k.float().mT
    p = s.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num(0.0).to(q.dtype)
    return (p @ v).transpose(0, 1)


def attend_in_numpy(q, k, v, visible):
    q_np, k_np, v_np = (x.float().numpy() for x in (q, k, v))
    k_np, v_np = (np.repeat(x, q.shape[1] // k.shape[1], axis=1) for x in (k_np, v_np))
    s = np.einsum("qhd,khd->hqk", q_np, k_np) / np.sqrt(np.float32(q.shape[-1]))
    s = np.where(visible.numpy(), s, -np.inf)
    with np.errstate(invalid="ignore"):
        p = np.exp(s - s.max(-1, keepdims=True))
        p = np.nan_to_num(p / p.sum(-1, keepdims=True))
    return torch.from_numpy(np.einsum("hqk,khd->qhd", p, v_np)).to(q.dtype)


def attend_seeing_rows_only(q, k, v, visible):
    """Blind rows take no part."""
    sees = visible.any(1)
    out = torch.zeros_like(q)
    if sees.any():
        out[sees] = attend_batched_cast(q[sees], k, v, visible[sees])
    return out


# --- causal_mask ---------------------------------------------------------------------------------


def mask_by_tril(num_queries, num_keys, window=None):
    ones = torch.ones(num_queries, num_keys, dtype=torch.bool)
    mask = ones.tril(num_keys - num_queries)
    return mask if window is None else mask & ones.triu(num_keys - num_queries - window + 1)


def mask_rows_of_prompt(num_queries, num_keys, window=None):
    distance = torch.arange(num_keys)[:, None] - torch.arange(num_keys)[None]
    limit = num_keys if window is None else window
    return ((distance >= 0) & (distance < limit))[-num_queries:]


def mask_by_loops(n, total, w=None):
    out = torch.zeros(n, total, dtype=torch.bool)
    for i in range(n):
        end = total - n + i + 1
        out[i, max(0, end - (w or total)) : end] = True
    return out


def mask_in_numpy(num_queries, num_keys, window=None):
    ages = np.subtract.outer(np.arange(num_keys)[num_keys - num_queries :], np.arange(num_keys))
    return torch.from_numpy((ages >= 0) & (ages < (window or num_keys)))


# --- packed_mask ---------------------------------------------------------------------------------


def packed_by_block_diag(query_start_loc, seq_lens):
    lens = zip(query_start_loc.diff().tolist(), seq_lens.tolist(), strict=True)
    return torch.block_diag(*(mask_by_tril(n, m) for n, m in lens)).bool()


def packed_by_search(query_start_loc, seq_lens):
    key_start_loc = F.pad(seq_lens.cumsum(0), (1, 0))
    rows = torch.arange(int(query_start_loc[-1]))
    cols = torch.arange(int(key_start_loc[-1]))
    row_req = torch.searchsorted(query_start_loc, rows.to(query_start_loc.dtype), right=True) - 1
    col_req = torch.bucketize(cols, key_start_loc[1:].long(), right=True)
    row_back = query_start_loc[row_req + 1] - rows
    col_back = key_start_loc[col_req + 1] - cols
    return torch.logical_and(row_req[:, None] == col_req[None], row_back[:, None] <= col_back[None])


def packed_by_loops(query_start_loc, seq_lens):
    out = torch.full((int(query_start_loc[-1]), int(seq_lens.sum())), False)
    first = 0
    for i, seq_len in enumerate(seq_lens.tolist()):
        for row in range(int(query_start_loc[i]), int(query_start_loc[i + 1])):
            out[row, first : first + seq_len - (int(query_start_loc[i + 1]) - row - 1)] = True
        first += seq_len
    return out


def packed_by_padding(query_start_loc, seq_lens):
    total, left, rows = int(seq_lens.sum()), 0, []
    for (a, b), n in zip(pairwise(query_start_loc.tolist()), seq_lens.tolist(), strict=True):
        rows.append(F.pad(mask_by_tril(b - a, n), (left, total - left - n)))
        left += n
    return torch.cat(rows)


# --- packed_attention ----------------------------------------------------------------------------


def step_by_library(q, k, v, query_start_loc, seq_lens, window=None):
    outs, starts, first = [], query_start_loc.tolist(), 0
    for start, end, n in zip(starts[:-1], starts[1:], seq_lens.tolist(), strict=True):
        qi = q[start:end].transpose(0, 1)[None]
        ki, vi = (x[first : first + n].transpose(0, 1)[None] for x in (k, v))
        mask = mask_by_tril(end - start, n, window)
        outs.append(F.scaled_dot_product_attention(qi, ki, vi, mask, enable_gqa=True)[0])
        first += n
    outs.append(q.new_zeros(q.shape[1], len(q) - starts[-1], q.shape[2]))
    return torch.cat(outs, dim=1).transpose(0, 1)


def step_by_split(q, k, v, query_start_loc, seq_lens, window=None):
    lens, total = query_start_loc.diff().tolist(), int(seq_lens.sum())
    parts = (x[:total].split(seq_lens.tolist()) for x in (k, v))
    rows = q[: query_start_loc[-1]].split(lens)
    done = [
        attend_in_groups(a, b, c, mask_by_loops(len(a), len(b), window))
        for a, b, c in zip(rows, *parts, strict=True)
    ]
    return F.pad(torch.cat(done), (0, 0, 0, 0, 0, len(q) - sum(lens)))


def step_row_by_row(q, k, v, query_start_loc, seq_lens, window=None):
    out = q.new_zeros(q.shape)
    ends = seq_lens.cumsum(0)
    for i in range(len(seq_lens)):
        for row in range(int(query_start_loc[i]), int(query_start_loc[i + 1])):
            last = int(ends[i]) - (int(query_start_loc[i + 1]) - row) + 1
            first = int(ends[i] - seq_lens[i])
            if window:
                first = max(first, last - window)
            seen = torch.ones(1, last - first, dtype=torch.bool)
            out[row] = attend_head_by_head(q[row][None], k[first:last], v[first:last], seen)[0]
    return out


def step_head_by_head(q, k, v, query_start_loc, seq_lens, window=None):
    out, group_size = torch.zeros_like(q), q.shape[1] // k.shape[1]
    ends = seq_lens.cumsum(0)
    for i, end in enumerate(ends):
        rows = slice(query_start_loc[i], query_start_loc[i + 1])
        keys = slice(end - seq_lens[i], end)
        mask = mask_by_tril(len(q[rows]), len(k[keys]), window)
        for h in range(q.shape[1]):
            kv = slice(h // group_size, h // group_size + 1)
            out[rows, h : h + 1] = attend_in_groups(
                q[rows, h : h + 1], k[keys, kv], v[keys, kv], mask
            )
    return out


def step_longest_first(q, k, v, query_start_loc, seq_lens, window=None):
    """Every KV head repeated beforehand, the requests in another order, q copied."""
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    out, starts = q.clone(), [0, *seq_lens.cumsum(0).tolist()]
    for i in seq_lens.argsort(descending=True).tolist():
        a, b = query_start_loc[i : i + 2].tolist()
        keys = slice(starts[i], starts[i + 1])
        mask = mask_by_loops(b - a, int(seq_lens[i]), window)
        out[a:b] = attend_batched_cast(q[a:b], k[keys], v[keys], mask)
    out[int(query_start_loc[-1]) :] = 0
    return out


ALTERNATIVES = {
    "ch02.attend": (
        attend_batched_cast,
        attend_in_groups,
        attend_head_by_head,
        attend_in_float64,
        attend_cast_weights,
        attend_in_numpy,
        attend_seeing_rows_only,
    ),
    "ch02.causal_mask": (mask_by_tril, mask_rows_of_prompt, mask_by_loops, mask_in_numpy),
    "ch02.packed_mask": (
        packed_by_block_diag,
        packed_by_search,
        packed_by_loops,
        packed_by_padding,
    ),
    "ch02.packed_attention": (
        step_by_library,
        step_by_split,
        step_row_by_row,
        step_head_by_head,
        step_longest_first,
    ),
}
PAIRS = [(task_id, f) for task_id, functions in ALTERNATIVES.items() for f in functions]


@cache
def bank(task_id):
    return bank_of(find(task_id))


def report_on(task_id, function):
    task = find(task_id)
    source = solution_of(task)
    attempt = Attempt(
        task=task, source=source, stub=source, file="mine.py", path="mine.py", ready=function
    )
    return examine(attempt, bank(task_id))


@pytest.mark.parametrize(("task_id", "function"), PAIRS, ids=lambda x: getattr(x, "__name__", x))
def test_a_right_answer_written_otherwise_passes(task_id, function):
    report = report_on(task_id, function)
    assert report.passed, render(report)
