"""Chapter 05: mistakes with sizes and offsets that are assumed, and the tiles that are read."""

from __future__ import annotations

from typing import Any

import torch

from minivllm.course.declare import edit, mutant
from minivllm.course.mutation import Mutant

_SHAPE = "num_heads, num_queries, head_dim = q.shape"
_SEEN = "num_seen = min(k.shape[1], offset + rows.stop)"
_LSE = "lse[:, rows] = row_max + row_sum.log()"
_OUT = "out[:, rows] = acc / row_sum.clamp(min=1.0)[..., None]"
_QUERIES = "queries = q[:, rows].float() * head_dim**-0.5"
_SCORES = "scores = (queries @ keys.mT).masked_fill(places > last_seen, -math.inf)"
_EMPTY = "torch.empty_like(q), torch.empty(num_heads, num_queries, device=q.device)"
_ZEROS = "torch.zeros_like(q), torch.full((num_heads, num_queries), -math.inf)"
_REPEAT = "keys, values = (x.repeat_interleave(num_heads // len(k), 0) for x in (keys, values))"


@mutant(
    "flash_forward.one_table",
    "the whole table of scores at once, with a mask",
    look_at="the table of scores: it must never be there as a whole",
    try_it="48 queries and keys, tiles of 24 and 8: a tile has 24 * 8 scores a head",
)
def _one_table(q: Any, k: Any, v: Any, offset: int, tiles: Any, add_tile: Any) -> Any:
    keys, values = (x.float().repeat_interleave(len(q) // len(k), 0) for x in (k, v))
    scores = q.float() @ keys.mT * q.shape[-1] ** -0.5
    last_seen = offset + torch.arange(q.shape[1])[:, None]
    scores = scores.masked_fill(torch.arange(k.shape[1]) > last_seen, -torch.inf)
    out = scores.softmax(-1).nan_to_num(0.0) @ values
    return out.to(q.dtype), scores.logsumexp(-1)


SIZES: list[Mutant] = [
    _one_table,
    edit(
        "flash_forward.tiles_swapped_all",
        "the two tile sizes swapped: tiles[0] keys and tiles[1] queries",
        (_SHAPE, f"tiles = tiles[::-1]; {_SHAPE}"),
        look_at="the tile sizes: queries first, keys second",
    ),
    edit(
        "flash_forward.own_tiles",
        "tiles of 16 by 16, whatever is asked for",
        (_SHAPE, f"tiles = (16, 16); {_SHAPE}"),
        look_at="the tile sizes: they are an argument",
    ),
    edit(
        "flash_forward.no_skip_guarded",
        "no tile is skipped, and what sees nothing is set to 0 at the end",
        (_SEEN, "num_seen = k.shape[1]"),
        (_OUT, "out[:, rows] = torch.where(row_sum[..., None] > 0, acc / row_sum[..., None], 0.0)"),
        same_as="flash_forward.no_skip",
        look_at="where the loop over tiles of keys ends: after the last key that is seen",
    ),
    edit(
        "flash_forward.full_last_tile",
        "the last tile of queries taken as full where it is decided which keys it sees",
        (_SEEN, "num_seen = min(k.shape[1], offset + start + tiles[0])"),
        look_at="the end of the loop: the tile's last query, which may come early in the last tile",
    ),
    edit(
        "flash_forward.whole_key_tiles",
        "keys after the last whole tile left out",
        (_SEEN, "num_seen = min(k.shape[1] // tiles[1] * tiles[1], offset + rows.stop)"),
        look_at="the number of tiles: rounded up, not down",
    ),
    edit(
        "flash_forward.full_query_tiles_zero",
        "the last tile of queries left out if it is narrower, so that its output is 0",
        (_EMPTY, _ZEROS),
        (
            "range(0, num_queries, tiles[0])",
            "range(0, num_queries // tiles[0] * tiles[0], tiles[0])",
        ),
        look_at="the number of tiles: rounded up, not down",
    ),
    edit(
        "flash_forward.offset_from_lengths",
        "num_keys - num_queries in place of offset",
        (_SHAPE, f"{_SHAPE}; offset = k.shape[1] - num_queries"),
        look_at="offset: an argument, which the lengths need not agree with",
    ),
    edit(
        "flash_forward.offset_from_lengths_guarded",
        "num_keys - num_queries in place of offset, with 0 where nothing is seen",
        (_SHAPE, f"{_SHAPE}; offset = k.shape[1] - num_queries"),
        (_OUT, "out[:, rows] = torch.where(row_sum[..., None] > 0, acc / row_sum[..., None], 0.0)"),
        same_as="flash_forward.offset_from_lengths",
        look_at="offset: an argument, which the lengths need not agree with",
    ),
    edit(
        "flash_forward.offset_at_least_zero",
        "a negative offset taken as 0",
        (_SHAPE, f"{_SHAPE}; offset = max(offset, 0)"),
        look_at="a negative offset: the first queries see no key",
    ),
    edit(
        "flash_forward.offset_magnitude",
        "the magnitude of offset where it is decided which tiles are read",
        (_SEEN, "num_seen = min(k.shape[1], abs(offset) + rows.stop)"),
        look_at="the end of the loop: positions, which a negative offset makes smaller",
    ),
    edit(
        "flash_forward.scale_of_64",
        "scores multiplied by 64 ** -0.5, whatever head_dim is",
        (_QUERIES, "queries = q[:, rows].float() * 64**-0.5"),
        look_at="the factor of the scores: head_dim is the last size of q",
        try_it="q and k of ones, head_dim 4: the score is 4 / 2 = 2",
    ),
    edit(
        "flash_forward.scale_of_8",
        "scores multiplied by 8 ** -0.5, whatever head_dim is",
        (_QUERIES, "queries = q[:, rows].float() * 8**-0.5"),
        look_at="the factor of the scores: head_dim is the last size of q",
        try_it="q and k of ones, head_dim 4: the score is 4 / 2 = 2",
    ),
    edit(
        "flash_forward.scale_by_heads",
        "scores multiplied by num_heads ** -0.5",
        (_QUERIES, "queries = q[:, rows].float() * num_heads**-0.5"),
        look_at="the factor of the scores: head_dim is the last size of q",
        try_it="q and k of ones, head_dim 4: the score is 4 / 2 = 2",
    ),
    edit(
        "flash_forward.values_in_turn",
        "the values alone dealt out in turn (0,1,0,1,...), the keys in groups",
        (
            _REPEAT,
            "keys = keys.repeat_interleave(num_heads // len(k), 0); "
            "values = values.repeat(num_heads // len(k), 1, 1)",
        ),
        look_at="the line that shares the KV heads of the values among the query heads",
    ),
    edit(
        "flash_forward.keys_in_turn",
        "the keys alone dealt out in turn (0,1,0,1,...), the values in groups",
        (
            _REPEAT,
            "keys = keys.repeat(num_heads // len(k), 1, 1); "
            "values = values.repeat_interleave(num_heads // len(k), 0)",
        ),
        look_at="the line that shares the KV heads of the keys among the query heads",
    ),
    edit(
        "flash_forward.one_masked_tile",
        "a mask only in the tile with the first query's key, though others are cut, too",
        (
            "scores = (queries @ keys.mT).masked_fill(places > last_seen, -math.inf)",
            "is_cut = first <= offset + start < first + tiles[1]; "
            "scores = (queries @ keys.mT).masked_fill((places > last_seen) & is_cut, -math.inf)",
        ),
        look_at="the tiles that need a mask: all with a key after the tile's first query",
    ),
    edit(
        "flash_forward.very_negative",
        "-1e9 in place of -inf for hidden scores",
        ("places > last_seen, -math.inf", "places > last_seen, -1e9"),
        look_at="hidden scores: -inf, so that a query that sees nothing has the sum 0",
    ),
    edit(
        "flash_forward.lse_in_base_two",
        "the log-sum-exp divided by ln 2",
        (_LSE, "lse[:, rows] = (row_max + row_sum.log()) / math.log(2)"),
        look_at="the unit of the log-sum-exp: that of the scores",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_minus",
        "the maximum minus the logarithm of the sum",
        (_LSE, "lse[:, rows] = row_max - row_sum.log()"),
        look_at="the log-sum-exp: the maximum plus the logarithm of the sum",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.fp16_product",
        "a product of queries and keys in float16, made float32 after it",
        (_QUERIES, "queries = q[:, rows]"),
        (
            _SCORES,
            "scores = (queries @ keys.to(q.dtype).mT).float() * head_dim**-0.5; "
            "scores = scores.masked_fill(places > last_seen, -math.inf)",
        ),
        ("acc = torch.zeros_like(queries)", "acc = torch.zeros_like(queries).float()"),
        look_at="the dtypes: queries and keys become float32 before they are multiplied",
        try_it="print the dtypes of q, k and scores",
    ),
    edit(
        "flash_forward.fp16_queries",
        "queries multiplied by head_dim ** -0.5 in float16, made float32 after it",
        (_QUERIES, "queries = (q[:, rows] * head_dim**-0.5).float()"),
        look_at="the order: first float32, then the factor",
        try_it="print the dtypes of q, k and scores",
    ),
]
