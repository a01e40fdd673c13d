"""Mistakes with chapter 05 that are in no bank: each must be refused all the same."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from test_alternatives_ch05 import name, report_on, tile_key_by_key

from minivllm.course.checks.flash_parts import running_max_and_sum, tiled_attention
from minivllm.course.render import render


def sums_of_two_tiles(tiles):
    return running_max_and_sum(itertools.islice(tiles, 2))


def sums_with_the_mean_of_maxima(tiles):
    top, total = None, 0.0
    for scores in tiles:
        tile_top = scores.amax(-1)
        new = tile_top if top is None else (top + tile_top) / 2
        correction = 1.0 if top is None else torch.exp(top - new)
        total = total * correction + torch.exp(scores - new[:, None]).sum(-1)
        top = new
    return top, total


def sums_that_count_ties_once(tiles):
    return running_max_and_sum(tile.unique(dim=1) for tile in tiles)


def sums_of_distinct_scores(tiles):
    """Equal scores of two tiles are counted once, too."""
    rows = {}
    for tile in tiles:
        for row, scores in enumerate(tile.tolist()):
            rows.setdefault(row, set()).update(scores)
    tops = [max(row) for row in rows.values()]
    sums = [
        sum(math.exp(score - top) for score in row) if top > -math.inf else 0.0
        for row, top in zip(rows.values(), tops, strict=True)
    ]
    return torch.tensor(tops), torch.tensor(sums)


def sums_against_one_number(tiles):
    """One shift for all rows, taken out again at the end."""
    tops, total, shift = torch.tensor(-math.inf), torch.tensor(0.0), None
    for scores in tiles:
        tops = torch.maximum(tops, scores.amax(-1))
        new = tops.max().clamp(min=-1e30)
        total = total if shift is None else total * torch.exp(shift - new)
        total, shift = total + torch.exp(scores - new).sum(-1), new
    return tops, (total * torch.exp(shift - tops)).nan_to_num(0.0, posinf=0.0)


def sums_with_a_clamped_exponent(tiles):
    top, total = torch.tensor(-math.inf), torch.tensor(0.0)
    for scores in tiles:
        new = torch.maximum(top, scores.amax(-1))
        shift = torch.where(new.isneginf(), 0.0, new)
        total = total * torch.exp((top - shift).clamp(min=-10))
        total = total + torch.exp((scores - shift[:, None]).clamp(min=-10)).sum(-1)
        top = new
    return top, total


def tile_that_forgets_a_small_past(row_max, row_sum, acc, scores, values):
    top, total, mixed = tile_key_by_key(row_max, row_sum, acc, scores, values)
    is_new = (scores.amax(-1) > row_max)[..., None]
    fresh = torch.softmax(scores, -1) @ values.float() * total[..., None]
    return top, total, torch.where(is_new, fresh, mixed)


def tile_with_mean_values(row_max, row_sum, acc, scores, values):
    same = values.float().mean(-2, keepdim=True).expand_as(values)
    return tile_key_by_key(row_max, row_sum, acc, scores, same)


def tile_with_swapped_corrections(row_max, row_sum, acc, scores, values):
    top = torch.maximum(row_max, scores.amax(-1))
    shift = torch.where(top.isneginf(), 0.0, top)
    old, p = torch.exp(row_max - shift), torch.exp(scores - shift[..., None])
    return top, row_sum * old + p.sum(-1), acc * old.flip(-1)[..., None] + p @ values.float()


def tile_for_three_axes(row_max, row_sum, acc, scores, values):
    if scores.dim() == 2:
        return tile_key_by_key(row_max, row_sum, acc, scores, values)
    top = torch.maximum(row_max, scores.amax(2))
    shift = torch.where(top.isneginf(), 0.0, top)
    old, p = torch.exp(row_max - shift), torch.exp(scores - shift[:, :, None])
    return top, row_sum * old + p.sum(2), acc * old[:, :, None] + torch.bmm(p, values.float())


def tile_of_distinct_scores(row_max, row_sum, acc, scores, values):
    """A score that a query has met before in the tile is left out."""
    again = (scores[..., None, :] == scores[..., :, None]).tril(-1).any(-1)
    return tile_key_by_key(row_max, row_sum, acc, scores.masked_fill(again, -math.inf), values)


def tile_that_never_forgets(row_max, row_sum, acc, scores, values):
    top, total, mixed = tile_key_by_key(row_max, row_sum, acc, scores, values)
    return top, total.clamp(min=1.0), mixed


def flash_with_float_positions(q, k, v, offset, tiles, add_tile):
    return tiled_attention(q, k, v, max(offset, 0), tiles, add_tile)


def flash_with_the_sizes_swapped(q, k, v, offset, tiles, add_tile):
    return tiled_attention(q, k, v, offset, tiles[::-1], add_tile)


def flash_in_tiles_of_16(q, k, v, offset, tiles, add_tile):
    return tiled_attention(q, k, v, offset, (16, 16), add_tile)


def flash_for_heads_of_8(q, k, v, offset, tiles, add_tile):
    return tiled_attention(q * (q.shape[-1] / 8) ** 0.5, k, v, offset, tiles, add_tile)


def flash_with_a_small_number(q, k, v, offset, tiles, add_tile):
    out, lse = tiled_attention(q, k, v, offset, tiles, add_tile)
    return out / (1 + 1e-5), lse


def flash_that_needs_a_tile(q, k, v, offset, tiles, add_tile):
    if k.shape[1] == 0:
        raise UnboundLocalError("no tile of keys, no state")
    return tiled_attention(q, k, v, offset, tiles, add_tile)


def flash_that_pads_the_last_queries(q, k, v, offset, tiles, add_tile):
    """The last tile of queries is full, so that it reads keys that nobody sees."""
    missing = -q.shape[1] % tiles[0]
    padded = torch.nn.functional.pad(q, (0, 0, 0, missing))
    out, lse = tiled_attention(padded, k, v, offset, tiles, add_tile)
    return out[:, : q.shape[1]], lse[:, : q.shape[1]]


def flash_for_square_tiles(q, k, v, offset, tiles, add_tile):
    side = max(tiles)
    return tiled_attention(q, k, v, offset // side * side, (side, side), add_tile)


def flash_of_first_head_group(q, k, v, offset, tiles, add_tile):
    out, lse = tiled_attention(q, k, v, offset, tiles, add_tile)
    return out, lse[:1].expand_as(lse)


def flash_without_the_last_key(q, k, v, offset, tiles, add_tile):
    return tiled_attention(q, k[:, :-1], v[:, :-1], offset, tiles, add_tile)


def flash_scaled_by_the_table(q, k, v, offset, tiles, add_tile):
    table = q.float() @ k.float().repeat_interleave(len(q) // len(k), 0).mT
    out, lse = tiled_attention(q, k, v, offset, tiles, add_tile)
    return out + 0 * table.nan_to_num(0.0).sum().to(q.dtype), lse


def merge_with_clamped_weights(out_a, lse_a, out_b, lse_b):
    difference = (lse_a - lse_b).nan_to_num(0.0, 5.0, -5.0).clamp(-5, 5)
    share = torch.sigmoid(difference)[..., None]
    out = share * out_a.float() + (1 - share) * out_b.float()
    return out.to(out_a.dtype), torch.logaddexp(lse_a, lse_b)


def merge_against_one_number(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).max()
    a, b = (lse_a - top).exp(), (lse_b - top).exp()
    out = (a[..., None] * out_a.float() + b[..., None] * out_b.float()) / (a + b)[..., None]
    return out.nan_to_num(0.0).to(out_a.dtype), top + (a + b).log()


def merge_with_a_small_number(out_a, lse_a, out_b, lse_b):
    top = torch.maximum(lse_a, lse_b).clamp(min=-1e30)
    a, b = (lse_a - top).exp()[..., None], (lse_b - top).exp()[..., None]
    out = (a * out_a.float() + b * out_b.float()) / (a + b + 1e-6)
    return out.to(out_a.dtype), torch.logaddexp(lse_a, lse_b)


def merge_of_the_first_query(out_a, lse_a, out_b, lse_b):
    share = torch.sigmoid((lse_a - lse_b).nan_to_num(0.0))[..., :1, None]
    out = share * out_a.float() + (1 - share) * out_b.float()
    return out.to(out_a.dtype), torch.logaddexp(lse_a, lse_b)


def merge_of_undivided_outputs(out_a, lse_a, out_b, lse_b):
    whole = torch.logaddexp(lse_a, lse_b)
    out = (out_a.float() + out_b.float()) / whole.exp().nan_to_num(1.0)[..., None].clamp(min=1e-9)
    return out.to(out_a.dtype), whole


WRONG = {
    "ch05.max_and_sum": (
        sums_of_two_tiles,
        sums_with_the_mean_of_maxima,
        sums_that_count_ties_once,
        sums_of_distinct_scores,
        sums_against_one_number,
        sums_with_a_clamped_exponent,
    ),
    "ch05.add_tile": (
        tile_that_forgets_a_small_past,
        tile_with_mean_values,
        tile_with_swapped_corrections,
        tile_for_three_axes,
        tile_of_distinct_scores,
        tile_that_never_forgets,
    ),
    "ch05.flash_forward": (
        flash_with_float_positions,
        flash_for_square_tiles,
        flash_with_the_sizes_swapped,
        flash_in_tiles_of_16,
        flash_for_heads_of_8,
        flash_that_pads_the_last_queries,
        flash_with_a_small_number,
        flash_that_needs_a_tile,
        flash_of_first_head_group,
        flash_without_the_last_key,
        flash_scaled_by_the_table,
    ),
    "ch05.merge": (
        merge_with_clamped_weights,
        merge_against_one_number,
        merge_with_a_small_number,
        merge_of_the_first_query,
        merge_of_undivided_outputs,
    ),
}

PAIRS = [(task_id, f) for task_id, functions in WRONG.items() for f in functions]


@pytest.mark.parametrize(("task_id", "function"), PAIRS, ids=name)
def test_a_mistake_that_is_in_no_bank_is_refused(task_id, function):
    report = report_on(task_id, function)
    assert report.state == "NOT YET"
    assert len(render(report).splitlines()) <= 18
