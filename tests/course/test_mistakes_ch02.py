"""Mistakes in chapter 02 that are in no bank: each must be refused all the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from test_alternatives_ch02 import (
    attend_batched,
    attend_in_groups,
    mask_by_tril,
    packed_by_loops,
    report_on,
    step_by_split,
)
from torch.nn import functional as F

from minivllm.course.render import render


def attend_heads_reversed(q, k, v, visible):
    return attend_in_groups(q, k.flip(1), v.flip(1), visible)


def attend_cosine(q, k, v, visible):
    """Scores of normed queries and keys."""
    return attend_in_groups(F.normalize(q, dim=-1) * 4, F.normalize(k, dim=-1), v, visible)


def attend_without_division(q, k, v, visible):
    """exp without the sum under it."""
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.float(), k) / q.shape[-1] ** 0.5
    p = s.masked_fill(~visible, -torch.inf).sub(s.amax(-1, keepdim=True)).exp()
    return torch.einsum("hqk,khd->qhd", p, v).to(q.dtype)


def attend_summed_heads(q, k, v, visible):
    out = attend_in_groups(q, k, v, visible)
    return out.mean(1, keepdim=True).expand_as(out)


def attend_clamped(q, k, v, visible):
    """Scores cut off at 50 for safety."""
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.float(), k).div(q.shape[-1] ** 0.5).clamp(-50, 50)
    p = s.masked_fill(~visible, -torch.inf).softmax(-1).nan_to_num(0.0)
    return torch.einsum("hqk,khd->qhd", p, v).to(q.dtype)


def attend_softmax_plus_one(q, k, v, visible):
    """A 1 in the denominator, so that blind rows give 0."""
    k, v = (x.float().repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
    s = torch.einsum("qhd,khd->hqk", q.float(), k) / q.shape[-1] ** 0.5
    s = F.pad(s.masked_fill(~visible, -torch.inf), (0, 1))
    return torch.einsum("hqk,khd->qhd", s.softmax(-1)[..., :-1], v).to(q.dtype)


def attend_dropout(q, k, v, visible):
    return F.dropout(attend_in_groups(q, k, v, visible), 0.1, training=True)


def mask_first_rows(num_queries, num_keys, window=None):
    return mask_by_tril(num_keys, num_keys, window)[:num_queries]


def mask_decode_only(num_queries, num_keys, window=None):
    if num_queries > 1:
        num_keys_seen = mask_by_tril(num_queries, num_queries, window)
        return F.pad(num_keys_seen, (num_keys - num_queries, 0), value=True)
    return mask_by_tril(num_queries, num_keys, window)


def mask_flipped(num_queries, num_keys, window=None):
    return mask_by_tril(num_queries, num_keys, window).flip(1)


def mask_symmetric_window(num_queries, num_keys, window=None):
    ones = torch.ones(num_queries, num_keys, dtype=torch.bool)
    shift, half = num_keys - num_queries, (window or 2 * num_keys) // 2
    return ones.tril(shift) & ones.triu(shift - half)


def mask_in_blocks(num_queries, num_keys, window=None):
    """The window counted in blocks, not in tokens."""
    queries = torch.arange(num_keys - num_queries, num_keys)[:, None]
    keys = torch.arange(num_keys)
    w = window or num_keys
    return (keys <= queries) & (keys // w == queries // w)


def mask_of_a_model_length(num_queries, num_keys, window=None):
    """No window taken for one of 1,024 tokens."""
    return mask_by_tril(num_queries, num_keys, window or 1024)


def packed_last_request_wins(query_start_loc, seq_lens):
    mask = packed_by_loops(query_start_loc, seq_lens)
    mask[:, -int(seq_lens[-1]) :] |= query_start_loc[-1] > 0
    return mask


def packed_sorted(query_start_loc, seq_lens):
    lens, order = query_start_loc.diff(), seq_lens.argsort()
    starts = F.pad(lens[order].cumsum(0), (1, 0))
    return packed_by_loops(starts, seq_lens[order])


def packed_by_numbers_of_keys(query_start_loc, seq_lens):
    """Requests told apart by their length."""
    row = seq_lens.repeat_interleave(query_start_loc.diff())
    col = seq_lens.repeat_interleave(seq_lens)
    mine = packed_by_loops(query_start_loc, seq_lens)
    return mine | (row[:, None] == col)


def step_shifted_output(q, k, v, query_start_loc, seq_lens, window=None):
    return step_by_split(q, k, v, query_start_loc, seq_lens, window).roll(1, 0)


def step_averages_batch(q, k, v, query_start_loc, seq_lens, window=None):
    out = step_by_split(q, k, v, query_start_loc, seq_lens, window)
    return out + 1e-3 * out.mean()


def step_window_from_zero(q, k, v, query_start_loc, seq_lens, window=None):
    """The first `window` keys instead of the last."""
    kept = torch.full_like(seq_lens, window or 10**6).minimum(seq_lens)
    lens = query_start_loc.diff().minimum(kept)
    if torch.equal(lens, query_start_loc.diff()) and torch.equal(kept, seq_lens):
        return step_by_split(q, k, v, query_start_loc, seq_lens)
    ends = seq_lens.cumsum(0)
    spans = zip((ends - seq_lens).tolist(), kept.tolist(), strict=True)
    index = torch.cat([torch.arange(a, a + n) for a, n in spans])
    return step_by_split(q, k[index], v[index], query_start_loc, kept)


def step_five_requests(q, k, v, query_start_loc, seq_lens, window=None):
    return F.pad(
        step_by_split(
            q[: query_start_loc[:6][-1]], k, v, query_start_loc[:6], seq_lens[:5], window
        ),
        (0, 0, 0, 0, 0, len(q) - int(query_start_loc[:6][-1])),
    )


def step_all_rows(q, k, v, query_start_loc, seq_lens, window=None):
    """Each request's keys meet all rows of the step."""
    out, end = torch.zeros_like(q), 0
    for (a, b), n in zip(pairwise(query_start_loc.tolist()), seq_lens.tolist(), strict=True):
        end += n
        mask = F.pad(mask_by_tril(b - a, n, window), (0, 0, a, len(q) - b))
        k_i, v_i = k[end - n : end], v[end - n : end]
        out[a:b] = attend_in_groups(q.nan_to_num(), k_i, v_i, mask)[a:b]
    return out


def step_contiguous_only(q, k, v, query_start_loc, seq_lens, window=None):
    q = q.view(len(q), -1).view(q.shape)
    return step_by_split(q, k, v, query_start_loc, seq_lens, window)


def step_shared_heads(q, k, v, query_start_loc, seq_lens, window=None):
    return step_by_split(q, k.mean(1, keepdim=True), v, query_start_loc, seq_lens, window)


WRONG = {
    "ch02.attend": (
        attend_heads_reversed,
        attend_cosine,
        attend_without_division,
        attend_summed_heads,
        attend_clamped,
        attend_softmax_plus_one,
        attend_dropout,
        attend_batched,
    ),
    "ch02.causal_mask": (
        mask_first_rows,
        mask_decode_only,
        mask_flipped,
        mask_symmetric_window,
        mask_in_blocks,
        mask_of_a_model_length,
    ),
    "ch02.packed_mask": (packed_last_request_wins, packed_sorted, packed_by_numbers_of_keys),
    "ch02.packed_attention": (
        step_shifted_output,
        step_averages_batch,
        step_window_from_zero,
        step_five_requests,
        step_all_rows,
        step_contiguous_only,
        step_shared_heads,
    ),
}
WRONG_PAIRS = [(task_id, f) for task_id, functions in WRONG.items() for f in functions]


@pytest.mark.parametrize(
    ("task_id", "function"), WRONG_PAIRS, ids=lambda x: getattr(x, "__name__", x)
)
def test_a_mistake_that_is_in_no_bank_is_refused(task_id, function):
    report = report_on(task_id, function)
    assert report.state == "NOT YET"
    assert len(render(report).splitlines()) <= 18
