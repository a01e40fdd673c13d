"""Chapter 05: the course's own parts, for checks and notebook; nothing here is graded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

State = tuple[Tensor, Tensor, Tensor]


def running_max_and_sum(tiles: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """The maximum of each row, and its sum of `exp(score - maximum)`."""
    row_max, lse = torch.tensor(-math.inf), torch.tensor(-math.inf)
    for scores in tiles:
        row_max = torch.maximum(row_max, scores.amax(-1))
        lse = torch.logaddexp(lse, scores.logsumexp(-1))
    return row_max, torch.exp(lse - row_max).nan_to_num(0.0)


def add_tile(
    row_max: Tensor, row_sum: Tensor, acc: Tensor, scores: Tensor, values: Tensor
) -> State:
    """The state after one more tile of keys."""
    new_max = torch.maximum(row_max, scores.amax(-1))
    correction = torch.exp(row_max - new_max).nan_to_num(0.0)  # of -inf - -inf: nothing seen yet
    weights = torch.exp(scores - new_max[..., None]).nan_to_num(0.0)
    new_sum = row_sum * correction + weights.sum(-1)
    return new_max, new_sum, acc * correction[..., None] + weights @ values.float()


def merge_outputs(
    out_a: Tensor, lse_a: Tensor, out_b: Tensor, lse_b: Tensor
) -> tuple[Tensor, Tensor]:
    """Output and log-sum-exp over all keys, from those over two halves of them."""
    weights = torch.stack((lse_a, lse_b)).softmax(0).nan_to_num(0.0)[..., None]
    out = weights[0] * out_a.float() + weights[1] * out_b.float()
    return out.to(out_a.dtype), torch.logaddexp(lse_a, lse_b)


def tiled_attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offset: int,
    tiles: tuple[int, int],
    add_tile: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], State],
) -> tuple[Tensor, Tensor]:
    """Causal attention: query i sees the keys 0 to `offset + i`."""
    parts = [
        _attend(part, k, v, offset + i * tiles[0], tiles[1], add_tile)
        for i, part in enumerate(q.split(tiles[0], dim=1))
    ]
    outs, lses = zip(*parts, strict=True)
    return torch.cat(outs, dim=1), torch.cat(lses, dim=1)


def _attend(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offset: int,
    tile: int,
    add_tile: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], State],
) -> tuple[Tensor, Tensor]:
    """One tile of queries over the tiles of keys that it sees."""
    # A KV head stands beside its query heads: [num_kv_heads, group_size, num_queries, head_dim].
    queries = q.float().unflatten(0, (len(k), -1)) * q.shape[-1] ** -0.5
    acc = torch.zeros_like(queries)
    state: State = torch.full_like(acc[..., 0], -math.inf), torch.zeros_like(acc[..., 0]), acc
    num_seen = max(0, min(k.shape[1], offset + q.shape[1]))
    for first in range(0, num_seen, tile):
        keys, values = (x[:, None, first : first + tile].float() for x in (k, v))
        scores = queries @ keys.mT
        is_seen = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device)
        is_seen = is_seen.tril(offset - first)
        state = add_tile(*state, scores.masked_fill(~is_seen, -math.inf), values)
    row_max, row_sum, acc = state
    out = (acc / row_sum.clamp(min=1.0)[..., None]).to(q.dtype)
    return out.flatten(0, 1), (row_max + row_sum.log()).flatten(0, 1)
