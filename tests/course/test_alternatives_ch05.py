"""Right answers to chapter 05, written otherwise than the solution."""

from __future__ import annotations

import itertools
import math
from functools import cache

import pytest
import torch

from minivllm.course.attempt import Attempt
from minivllm.course.checks.flash_parts import running_max_and_sum, tiled_attention
from minivllm.course.examine import examine
from minivllm.course.grade import bank_of
from minivllm.course.registry import find, solution_of
from minivllm.course.render import render


def sums_row_by_row(tiles):
    tops, sums = [], []
    for tile in tiles:
        for row in range(len(tile)):
            if row == len(tops):
                tops.append(-math.inf)
                sums.append(0.0)
            top = max(tops[row], tile[row].max().item())
            if top > -math.inf:
                sums[row] *= math.exp(tops[row] - top)
                sums[row] += torch.exp(tile[row].double() - top).sum().item()
                tops[row] = top
    return torch.tensor(tops), torch.tensor(sums)


def sums_in_float64(tiles):
    top = total = None
    for tile in tiles:
        scores = tile.double()
        new = scores.max(dim=1).values if top is None else scores.max(dim=1).values.maximum(top)
        if total is not None:
            total = total * (top - new).exp().nan_to_num()
        part = (scores - new.unsqueeze(1)).exp().nan_to_num().sum(dim=1)
        total, top = part if total is None else total + part, new
    return top.float(), total.float()


def sums_with_a_finite_floor(tiles):
    top, total = None, 0.0
    for scores in tiles:
        tile_top = scores.max(-1)[0].clamp(min=-1e30)
        new_top = tile_top if top is None else torch.max(top, tile_top)
        correction = 1.0 if top is None else torch.exp(top - new_top)
        total = total * correction + torch.einsum("rk->r", torch.exp(scores - new_top[:, None]))
        top = new_top
    return torch.where(total == 0, -math.inf, top), total


def sums_of_tiles_put_together_at_the_end(tiles):
    """Two numbers of each tile are kept, not the tile."""
    tops, totals = [], []
    for scores in tiles:
        tops.append(scores.amax(-1))
        totals.append(torch.exp(scores - tops[-1].clamp(min=-1e30)[:, None]).sum(-1))
    top = torch.stack(tops).amax(0)
    shift = top.masked_fill(top.isneginf(), 0.0)
    return top, sum(x * torch.exp(y - shift) for x, y in zip(totals, tops, strict=True))


def tile_by_log_sum_exp(row_max, row_sum, acc, scores, values):
    top = torch.stack((row_max, scores.max(-1).values)).max(0).values
    finite = torch.where(top == -math.inf, torch.zeros_like(top), top)
    factor = torch.exp(row_max - finite)
    p = torch.exp(scores - finite.unsqueeze(-1))
    product = torch.einsum("...qk,...kd->...qd", p, values.to(p.dtype))
    return (
        top,
        torch.addcmul(p.sum(-1), row_sum, factor),
        torch.addcmul(product, acc, factor.unsqueeze(-1)),
    )


def tile_key_by_key(row_max, row_sum, acc, scores, values):
    for key in range(scores.shape[-1]):
        score, value = scores[..., key], values[..., key, :].float()
        top = torch.maximum(row_max, score)
        old = torch.exp(row_max - top).nan_to_num(0.0)
        new = torch.exp(score - top).nan_to_num(0.0)
        row_max, row_sum = top, row_sum * old + new
        acc = acc * old[..., None] + new[..., None] * value[..., None, :]
    return row_max, row_sum, acc


def tile_with_nan_turned_to_zero(row_max, row_sum, acc, scores, values):
    """NaN only arises where nothing has been seen, and there sum and accumulator are 0."""
    new = torch.maximum(row_max, scores.max(dim=-1).values)
    fix, p = torch.exp(row_max - new), torch.exp(scores - new[..., None])
    total = (row_sum * fix + p.sum(dim=-1)).nan_to_num(0.0)
    return new, total, (acc * fix[..., None] + p @ values.float()).nan_to_num(0.0)


def tile_with_one_more_key(row_max, row_sum, acc, scores, values):
    """The state as one more column of the tile, in float64."""
    all_scores = torch.cat((row_max[..., None], scores), dim=-1).double()
    new_max = all_scores.amax(-1)
    weights = (all_scores - new_max[..., None]).exp().nan_to_num(0.0)
    new_sum = weights[..., 0] * row_sum + weights[..., 1:].sum(-1)
    new_acc = weights[..., :1] * acc + weights[..., 1:] @ values.double()
    return new_max.float(), new_sum.float(), new_acc.float()


def flash_head_by_head(q, k, v, offset, tiles, add_tile):
    out = torch.zeros(q.shape, dtype=torch.float32)
    lse = torch.full(q.shape[:2], -math.inf)
    group = q.shape[0] // k.shape[0]
    for head, i in itertools.product(range(len(q)), range(0, q.shape[1], tiles[0])):
        rows = q[head, i : i + tiles[0]].float() / math.sqrt(q.shape[2])
        where = torch.arange(offset + i, offset + i + len(rows))
        state = torch.full((len(rows),), -math.inf), torch.zeros(len(rows)), torch.zeros_like(rows)
        for j in range(0, k.shape[1], tiles[1]):
            if j > where[-1]:
                break
            keys = k[head // group, j : j + tiles[1]].float()
            hidden = torch.arange(j, j + len(keys))[None] > where[:, None]
            scores = torch.where(hidden, -math.inf, torch.einsum("qd,kd->qk", rows, keys))
            state = add_tile(*state, scores, v[head // group, j : j + tiles[1]].float())
        seen = state[1] > 0
        out[head, i : i + tiles[0]][seen] = state[2][seen] / state[1][seen, None]
        lse[head, i : i + tiles[0]][seen] = state[0][seen] + state[1][seen].log()
    return out.to(q.dtype), lse


def flash_with_grouped_heads(q, k, v, offset, tiles, add_tile):
    """Query heads beside their KV head: add_tile gets two axes before the queries."""
    q, dtype = q.float().unflatten(0, (len(k), -1)), q.dtype
    k, v = k.float()[:, None], v.float()[:, None]
    out, lse = torch.zeros(q.shape), torch.full(q.shape[:-1], -math.inf)
    for i in range(0, q.shape[2], tiles[0]):
        rows = slice(i, min(i + tiles[0], q.shape[2]))
        state = lse[..., rows].clone(), torch.zeros_like(lse[..., rows]), out[..., rows, :].clone()
        for j in range(0, k.shape[2], tiles[1]):
            if j >= offset + rows.stop:
                continue
            bias = torch.zeros(rows.stop - i, k[0, 0, j : j + tiles[1]].shape[0])
            for row, places in enumerate(bias):
                places[max(0, offset + i + row + 1 - j) :] = -math.inf
            scores = q[..., rows, :] @ k[..., j : j + tiles[1], :].mT / math.sqrt(q.shape[-1])
            state = add_tile(*state, scores + bias, v[..., j : j + tiles[1], :])
        lse[..., rows] = state[0] + state[1].log()
        out[..., rows, :] = (state[2] / state[1][..., None]).nan_to_num(0.0)
    return out.flatten(0, 1).to(dtype), lse.flatten(0, 1)


def flash_from_right_to_left(q, k, v, offset, tiles, add_tile):
    """The tiles of keys in the other order: some queries see nothing of their first tile."""
    outs, lses = [], []
    for i, part in enumerate(q.float().split(tiles[0], 1)):
        where = offset + i * tiles[0] + torch.arange(part.shape[1])
        acc = part * 0
        state = acc.sum(-1) - math.inf, acc.sum(-1), acc
        starts = range(0, min(k.shape[1], int(where[-1]) + 1), tiles[1])
        for j in reversed(starts):
            keys, values = (
                x[:, j : j + tiles[1]].float().repeat_interleave(len(q) // len(k), dim=0)
                for x in (k, v)
            )
            bias = torch.zeros(len(where), keys.shape[1])
            bias[torch.arange(j, j + keys.shape[1]) > where[:, None]] = -math.inf
            scores = torch.baddbmm(bias, part, keys.mT, alpha=q.shape[-1] ** -0.5)
            state = add_tile(*state, scores, values)
        outs.append((state[2] / state[1][..., None]).nan_to_num(0.0))
        lses.append(state[0] + torch.log(state[1]))
    return torch.cat(outs, 1).to(q.dtype), torch.cat(lses, 1)


def flash_without_add_tile(q, k, v, offset, tiles, add_tile):
    """Each tile by itself, merged by the log-sum-exp; a query is padded to no tile."""
    del add_tile
    group = len(q) // len(k)
    out = torch.zeros(q.shape, dtype=torch.float64)
    lse = torch.full(q.shape[:2], -math.inf, dtype=torch.float64)
    for i in range(0, q.shape[1], tiles[0]):
        rows = slice(i, min(i + tiles[0], q.shape[1]))
        for j in range(0, min(k.shape[1], offset + rows.stop), tiles[1]):
            keys, values = (x[:, j : j + tiles[1]].double() for x in (k, v))
            grouped = q[:, rows].double().unflatten(0, (-1, group))
            scores = torch.einsum("hgqd,hkd->hgqk", grouped, keys).flatten(0, 1)
            scores = scores / q.shape[-1] ** 0.5
            mask = torch.ones(scores.shape[1:]).tril(offset + i - j) == 0
            p = scores.masked_fill(mask, -math.inf).exp().masked_fill(mask, 0.0)
            part = torch.einsum("hgqk,hkd->hgqd", p.unflatten(0, (-1, group)), values).flatten(0, 1)
            new = torch.logaddexp(lse[:, rows], p.sum(-1).log())
            safe = new.masked_fill(new.isneginf(), 0.0)
            old = (lse[:, rows] - safe).exp()[..., None]
            out[:, rows] = out[:, rows] * old + part * (-safe).exp()[..., None]
            lse[:, rows] = new
    return out.to(q.dtype), lse.float()


def merge_by_the_larger(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b)
    top = top.masked_fill(top.isneginf(), 0.0)
    a, b = (lse_a - top).exp(), (lse_b - top).exp()
    total = (a + b).clamp(min=1e-30)
    out = (out_a.float() * a[..., None] + out_b.float() * b[..., None]) / total[..., None]
    return out.to(out_a.dtype), top + (a + b).log()


def merge_by_sigmoid(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid((lse_a - lse_b).nan_to_num(0.0)).unsqueeze(-1).double()
    out = torch.lerp(out_b.double(), out_a.double(), share)
    return out.type_as(out_a), torch.logaddexp(lse_b, lse_a)


def merge_by_softmax(out_a, lse_a, out_b, lse_b):
    both = torch.stack((lse_a, lse_b), dim=-1)
    weights = torch.softmax(both, dim=-1).nan_to_num(0.0)
    outs = torch.stack((out_a, out_b), dim=-1).float()
    return torch.einsum("...ds,...s->...d", outs, weights).to(out_a.dtype), both.logsumexp(-1)


def merge_with_the_rest(out_a, lse_a, out_b, lse_b):
    """The second half has what is left of 1."""
    lse = torch.logaddexp(lse_a, lse_b)
    share = torch.exp(lse_a - lse.masked_fill(lse.isneginf(), 0.0)).unsqueeze(-1)
    return (share * out_a + (1 - share) * out_b).type_as(out_a), lse


def merge_in_float64(out_a, lse_a, out_b, lse_b):
    a, b = lse_a.double().exp(), lse_b.double().exp()  # up to e ** 700
    out = out_a.double() * a[..., None] + out_b.double() * b[..., None]
    return (out / (a + b)[..., None]).nan_to_num(0.0).to(out_a.dtype), (a + b).log().float()


ALTERNATIVES = {
    "ch05.max_and_sum": (
        running_max_and_sum,
        sums_row_by_row,
        sums_in_float64,
        sums_with_a_finite_floor,
        sums_of_tiles_put_together_at_the_end,
    ),
    "ch05.add_tile": (
        tile_by_log_sum_exp,
        tile_key_by_key,
        tile_with_nan_turned_to_zero,
        tile_with_one_more_key,
    ),
    "ch05.flash_forward": (
        tiled_attention,
        flash_head_by_head,
        flash_with_grouped_heads,
        flash_from_right_to_left,
        flash_without_add_tile,
    ),
    "ch05.merge": (
        merge_by_the_larger,
        merge_by_sigmoid,
        merge_by_softmax,
        merge_with_the_rest,
        merge_in_float64,
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


def name(value):
    return getattr(value, "__name__", value)


@pytest.mark.parametrize(("task_id", "function"), PAIRS, ids=name)
def test_a_right_answer_written_otherwise_passes(task_id, function):
    report = report_on(task_id, function)
    assert report.passed, render(report)
