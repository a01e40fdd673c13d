"""Chapter 05: mistakes with masks, positions, lengths, and the tiles that are skipped."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_SEEN = "num_seen = min(k.shape[1], offset + rows.stop)"
_LAST = "last_seen = offset + torch.arange(rows.start, rows.stop, device=q.device)[:, None]"
_PLACES = "places = first + torch.arange(keys.shape[1], device=q.device)"
_HIDE = "places > last_seen"
_QUERIES = "queries = q[:, rows].float() * head_dim**-0.5"
_REPEAT = "x.repeat_interleave(num_heads // len(k), 0) for x in (keys, values)"
_KEYS = "keys, values = (x[:, first : first + tiles[1]].float() for x in (k, v))"


MASKS: list[Mutant] = [
    edit(
        "flash_forward.no_mask",
        "no mask inside a tile: queries see keys that come after them",
        (f".masked_fill({_HIDE}, -math.inf)", ""),
    ),
    edit(
        "flash_forward.mask_minus_one",
        "a mask that hides each query's own key",
        (_HIDE, "places >= last_seen"),
    ),
    edit(
        "flash_forward.mask_plus_one",
        "a mask that shows each query one key too many",
        (_HIDE, "places > last_seen + 1"),
    ),
    edit(
        "flash_forward.tile_offset",
        "a mask that compares places inside the tile, not among all keys",
        (_PLACES, "places = torch.arange(keys.shape[1], device=q.device)"),
        look_at="the place of a key: where its tile begins, plus its place in the tile",
    ),
    edit(
        "flash_forward.query_offset",
        "a mask that compares rows inside the tile of queries",
        (
            _LAST,
            "last_seen = offset + torch.arange(rows.stop - rows.start, device=q.device)[:, None]",
        ),
        look_at="the position of a query: offset, plus where its tile begins, plus its row",
    ),
    edit(
        "flash_forward.local_tril",
        "a triangle in every tile, as if each one lay on the diagonal",
        (
            f".masked_fill({_HIDE}, -math.inf)",
            ".masked_fill(torch.ones(len(last_seen), len(places)).triu(1).bool(), -math.inf)",
        ),
        look_at="the mask: only tiles on the diagonal have a triangle",
    ),
    edit(
        "flash_forward.no_offset",
        "offset ignored in the mask",
        (
            _LAST,
            "last_seen = torch.arange(rows.start, rows.stop, device=q.device)[:, None]",
        ),
        look_at="the position of a query: offset + its row",
    ),
    edit(
        "flash_forward.offset_ignored",
        "offset ignored altogether",
        (
            "num_heads, num_queries, head_dim = q.shape",
            "offset = 0; num_heads, num_queries, head_dim = q.shape",
        ),
        look_at="the position of a query: offset + its row",
    ),
    edit(
        "flash_forward.zero_fill",
        "hidden scores set to 0 instead of -inf",
        ("places > last_seen, -math.inf", "places > last_seen, 0.0"),
        look_at="hidden scores: exp(0) is 1, and their weight must be 0",
    ),
    edit(
        "flash_forward.mask_mul",
        "scores multiplied by the mask, so that hidden ones are 0",
        (f".masked_fill({_HIDE}, -math.inf)", " * (places <= last_seen)"),
        same_as="flash_forward.zero_fill",
    ),
    edit(
        "flash_forward.large_negative",
        "-10 in place of -inf for hidden scores",
        ("places > last_seen, -math.inf", "places > last_seen, -10.0"),
        look_at="hidden scores: nothing but -inf is far enough from every score",
    ),
    edit(
        "flash_forward.no_scale",
        "scores without the factor head_dim ** -0.5",
        (_QUERIES, "queries = q[:, rows].float()"),
        look_at="the factor of the scores: head_dim ** -0.5, once",
        try_it="q and k of ones, head_dim 4: the score is 4 / 2 = 2",
    ),
    edit(
        "flash_forward.scale_twice",
        "scores multiplied by head_dim ** -0.5 twice",
        (_QUERIES, "queries = q[:, rows].float() / head_dim"),
        look_at="the factor of the scores: head_dim ** -0.5, once",
        try_it="q and k of ones, head_dim 4: the score is 4 / 2 = 2",
    ),
    edit(
        "flash_forward.tile",
        "KV heads dealt out in turn (0,1,0,1,...) instead of in groups (0,0,0,1,1,1)",
        (_REPEAT, "x.repeat(num_heads // len(k), 1, 1) for x in (keys, values)"),
        look_at="the line that shares the KV heads among the query heads",
    ),
    edit(
        "flash_forward.first_kv_head",
        "the first KV head for all query heads",
        (_REPEAT, "x[:1] for x in (keys, values)"),
        look_at="the line that shares the KV heads among the query heads",
    ),
    edit(
        "flash_forward.full_tiles_only",
        "the last tile of keys left out if it is narrower",
        (
            "for first in range(0, num_seen, tiles[1]):",
            "for first in range(0, num_seen - tiles[1] + 1, tiles[1]):",
        ),
        look_at="the number of tiles: rounded up, not down",
    ),
    edit(
        "flash_forward.full_query_tiles",
        "the last tile of queries left out if it is narrower",
        (
            "range(0, num_queries, tiles[0])",
            "range(0, num_queries // tiles[0] * tiles[0], tiles[0])",
        ),
        look_at="the number of tiles: rounded up, not down",
    ),
    edit(
        "flash_forward.tail_zero_pad",
        "a narrower last tile padded with keys of 0, whose scores are 0 and not -inf",
        (
            _KEYS,
            "keys, values = (torch.nn.functional.pad(x[:, first : first + tiles[1]].float(), "
            "(0, 0, 0, max(0, first + tiles[1] - x.shape[1]))) for x in (k, v))",
        ),
        (_PLACES, "places = (first + torch.arange(keys.shape[1])).clamp(max=k.shape[1] - 1)"),
        look_at="the last tile: where there is no key the score is -inf",
    ),
    edit(
        "flash_forward.tail",
        "a last tile that reads the keys before it once more, to be full",
        (
            "first : first + tiles[1]",
            "max(0, min(first, k.shape[1] - tiles[1])) : first + tiles[1]",
        ),
        (
            _PLACES,
            "places = max(0, min(first, k.shape[1] - tiles[1])) "
            "+ torch.arange(keys.shape[1], device=q.device)",
        ),
        look_at="the last tile: no key may be in two tiles",
    ),
    edit(
        "flash_forward.one_key_late",
        "tiles of keys that overlap by one key",
        ("first : first + tiles[1]", "first : first + tiles[1] + 1"),
        look_at="the ends of the slices: a key belongs to one tile",
    ),
    edit(
        "flash_forward.tiles_swapped",
        "the two tile sizes swapped, with a mask that does not know",
        (
            "first : first + tiles[1]",
            "first : first + tiles[0]",
        ),
        look_at="the tile sizes: queries first, keys second",
    ),
    edit(
        "flash_forward.no_skip",
        "no tile is skipped: tiles that no query sees are read and masked",
        (_SEEN, "num_seen = k.shape[1]"),
        look_at="where the loop over tiles of keys ends: after the last key that is seen",
    ),
    edit(
        "flash_forward.skips_one_late",
        "one tile more than any query of the tile sees",
        (_SEEN, "num_seen = min(k.shape[1], offset + rows.stop + 1)"),
        look_at="the last key that is read: the position of the tile's last query",
    ),
    edit(
        "flash_forward.skips_by_first",
        "tiles skipped by the position of the first query, not of the last",
        (_SEEN, "num_seen = min(k.shape[1], offset + rows.start + 1)"),
        look_at="the tiles that are skipped: those that not even the last query sees",
    ),
    edit(
        "flash_forward.skips_one_early",
        "the tile with the last query's own key skipped where it begins with that key",
        (_SEEN, "num_seen = min(k.shape[1], offset + rows.stop - 1)"),
        look_at="the end of the loop: the last query sees its own key, too",
    ),
    edit(
        "flash_forward.skips_diagonal",
        "tiles on the diagonal skipped, because some of their keys are hidden",
        (_SEEN, "num_seen = min(k.shape[1], offset + rows.start)"),
        look_at="the tiles that are skipped: only those that are hidden from every query",
    ),
    edit(
        "flash_forward.skips_without_offset",
        "tiles skipped as if offset were 0",
        (_SEEN, "num_seen = min(k.shape[1], rows.stop)"),
        look_at="the end of the loop: positions, offset included",
    ),
]
