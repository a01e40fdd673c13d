"""Chapter 05: attention tile by tile."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.checks.flash_parts import add_tile, merge_outputs
from minivllm.course.declare import (
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import ragged, strided

_Make = Callable[[torch.Generator], Arguments]
_Mine = Callable[..., Any]


def _with_add_tile(flash_forward: _Mine, *arguments: Any) -> Any:
    return flash_forward(*arguments, add_tile)


_BANNED = ("softmax", "logsumexp", "scaled_dot_product_attention")


def _full_table(
    q: Tensor, k: Tensor, v: Tensor, offset: int, tiles: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """One query at a time, over exactly the keys it sees.

    In float32, `exp(score - lse)` is rounded a little more than a softmax for large scores; it is
    a right way all the same, and so it sets what is allowed.
    """
    wide = torch.promote_types(q.dtype, torch.float32)
    out = torch.zeros(q.shape, dtype=wide)
    lse = torch.full(q.shape[:2], -math.inf, dtype=wide)
    group = len(q) // len(k)
    for head in range(len(q)):
        for i in range(max(0, -offset), q.shape[1] if k.shape[1] else 0):
            keys, values = (x[head // group, : offset + i + 1].to(wide) for x in (k, v))
            scores = keys @ q[head, i].to(wide) * q.shape[-1] ** -0.5
            lse[head, i] = scores.logsumexp(-1)
            out[head, i] = torch.exp(scores - lse[head, i]) @ values
    return out.to(q.dtype), lse


def _prompt(
    num_queries: int,
    num_keys: int | None = None,
    offset: int | None = None,
    tiles: tuple[int, int] = (4, 4),
    scale: float = 1.0,
    dtype: torch.dtype = torch.float32,
) -> _Make:
    """Six query heads on two KV heads of 8; by default the queries are the last of the keys."""

    def made(gen: torch.Generator) -> Arguments:
        keys = num_queries if num_keys is None else num_keys
        return {
            "q": (scale * torch.randn(6, num_queries, 8, generator=gen)).to(dtype),
            "k": torch.randn(2, keys, 8, generator=gen).to(dtype),
            "v": (torch.randn(2, keys, 8, generator=gen) + 0.5).to(dtype),
            "offset": keys - num_queries if offset is None else offset,
            "tiles": tiles,
        }

    return made


def _other_heads(num_heads: int, num_kv_heads: int, head_dim: int) -> _Make:
    """9 queries after 3 keys."""

    def made(gen: torch.Generator) -> Arguments:
        return _prompt(9, 12)(gen) | {
            "q": torch.randn(num_heads, 9, head_dim, generator=gen),
            "k": torch.randn(num_kv_heads, 12, head_dim, generator=gen),
            "v": torch.randn(num_kv_heads, 12, head_dim, generator=gen) + 0.5,
        }

    return made


def _rising(gen: torch.Generator) -> Arguments:
    """Scores from -60 to 60 that rise with the key: each tile has a larger maximum."""
    arguments = _prompt(22, tiles=(4, 3))(gen)
    arguments["q"] = arguments["q"].abs() + 0.5
    ramp = torch.linspace(-1, 1, 22)[None, :, None].expand(2, 22, 8)
    largest = arguments["q"].sum(-1).max() * 8**-0.5
    arguments["k"] = 60 / largest * ramp.contiguous()
    return arguments


def _far_below(gen: torch.Generator) -> Arguments:
    """Scores around -130: `exp` of them is 0 in float32."""
    arguments = _prompt(9, 14)(gen)
    arguments["q"] = 1 + 0.1 * arguments["q"]
    arguments["k"] = arguments["k"] - 46
    return arguments


def _poisoned_from(num_keys: int, make: _Make) -> _Make:
    """Keys and values are NaN from this one on."""

    def made(gen: torch.Generator) -> Arguments:
        arguments = make(gen)
        for name in ("k", "v"):
            arguments[name][:, num_keys:] = math.nan
        return arguments

    return made


def _strided_prompt(gen: torch.Generator) -> Arguments:
    arguments = _prompt(9, 14)(gen)
    return arguments | {name: strided(arguments[name]) for name in "qkv"}


def _hand_prompt() -> Arguments:
    """One head of one number: scores are ln 1, 2, 4, 1, 8; the query sees all five keys."""
    return {
        "q": torch.ones(1, 1, 1),
        "k": torch.tensor([1.0, 2.0, 4.0, 1.0, 8.0]).log().view(1, 5, 1),
        "v": torch.tensor([8.0, 4.0, 2.0, 16.0, 3.0]).view(1, 5, 1),
        "offset": 4,
        "tiles": (2, 2),
    }


def _other_tiles(flash_forward: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    arguments = _prompt(11, 19)(gen)
    return (
        flash_forward(**arguments | {"tiles": (5, 3)}),
        flash_forward(**arguments | {"tiles": (64, 64)}),
    )


def _in_chunks(flash_forward: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """A prompt of 13 at once, and as chunks of 6, 6 and 1 queries."""
    whole = _prompt(13)(gen)
    parts = []
    for start, end in ((0, 6), (6, 12), (12, 13)):
        chunk = {"q": whole["q"][:, start:end], "offset": start}
        chunk |= {name: whole[name][:, :end] for name in "kv"}
        parts.append(flash_forward(**whole | chunk))
    outs, lses = zip(*parts, strict=True)
    return flash_forward(**whole), (torch.cat(outs, 1), torch.cat(lses, 1))


def _halves(flash_forward: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """All keys at once, and the keys before and from 7 on, merged."""
    whole = _prompt(12)(gen)
    first = {name: whole[name][:, :7] for name in "kv"}
    second = {name: whole[name][:, 7:] for name in "kv"}
    a = flash_forward(**whole | first)
    b = flash_forward(**whole | second | {"offset": whole["offset"] - 7})
    return merge_outputs(*a, *b), flash_forward(**whole)


def _unread(clean: Arguments, first: int, gen: torch.Generator) -> tuple[Arguments, Arguments]:
    """The same with keys and values that are NaN from one on, and without."""
    return _poisoned_from(first, lambda _: clean | {x: clean[x].clone() for x in "kv"})(gen), clean


def _first_queries(flash_forward: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Queries 0 to 3, whose tiles end at key 7; keys from 8 on are NaN."""
    poisoned, clean = (
        tuple(x[:, :4] for x in flash_forward(**arguments))
        for arguments in _unread(_prompt(12, 16, tiles=(2, 8))(gen), 8, gen)
    )
    return poisoned, clean


def _before_the_keys(flash_forward: _Mine, gen: torch.Generator) -> tuple[Any, Any]:
    """Queries 6 to 9, which stand at the keys 0 to 3; keys from 4 on are NaN."""
    poisoned, clean = (
        tuple(x[:, 6:] for x in flash_forward(**arguments))
        for arguments in _unread(_prompt(10, 9, offset=-6)(gen), 4, gen)
    )
    return poisoned, clean


_LENGTHS = tuple(
    sampled(f"{n} quer{'y' if n == 1 else 'ies'}, tiles of 4", _prompt(n), seeds=(11,))
    for n in ragged(4)
)

flash_forward = Exercise(
    id="ch05.flash_forward",
    run=_with_add_tile,
    outputs=(
        Output("out", axes="head query dim"),
        Output("lse", axes="head query", dtype=torch.float32),
    ),
    oracle=_full_table,
    cases=(
        by_hand(
            "five keys, tiles of 2: the output is 4, the log-sum-exp ln 16",
            _hand_prompt,
            (torch.full((1, 1, 1), 4.0), torch.full((1, 1), math.log(16))),
        ),
        *_LENGTHS,
        sampled("a chunk after 8 keys", _prompt(7, 15), seeds=(11,)),
        sampled("one query, many keys: decode", _prompt(1, 22), seeds=(11,)),
        adversarial("tiles of 3 queries and 5 keys", _prompt(14, 17, tiles=(3, 5))),
        adversarial("tiles of 8 queries and 3 keys", _prompt(17, 20, tiles=(8, 3))),
        adversarial("tiles larger than all lengths", _prompt(5, 7, tiles=(16, 16))),
        adversarial("every query sees every key", _prompt(6, 10, offset=30)),
        adversarial("the maximum grows from tile to tile", _rising),
        adversarial("large scores", _prompt(13, scale=40.0)),
        adversarial(
            "queries that see no key",
            _prompt(13, 9, offset=-6),
            look_at="a query that sees nothing: its state, and the division by its sum, which is 0",
            try_it="2 queries, 1 key, offset = -1: the first query's output is 0, its lse -inf",
        ),
        adversarial("no query sees a key", _prompt(5, 6, offset=-9)),
        adversarial(
            "no keys at all, as in an empty half",
            _prompt(3, 0, offset=0),
            look_at="the state before the first tile of keys: there may be no tile",
        ),
        adversarial(
            "tiles after the last query are not read: they are NaN",
            _poisoned_from(16, _prompt(11, 24, offset=5)),
            look_at="where the loop over tiles of keys ends, and the sizes of the tiles",
            try_it="3 queries at offset 8, tiles of 4: the last key that is read is key 11",
        ),
        adversarial("all scores below -110", _far_below),
        adversarial("float16 in and out", _prompt(11, 22, tiles=(8, 4), dtype=torch.float16)),
        adversarial("float16, many tiles", _prompt(4, 160, None, (4, 2), 0.1, torch.float16)),
        adversarial("tensors that are not contiguous", _strided_prompt),
        adversarial("8 heads of 4, each with its own KV head", _other_heads(8, 8, 4)),
        adversarial("4 heads of 20 on one KV head", _other_heads(4, 1, 20)),
        adversarial("48 queries and keys", _prompt(48, tiles=(24, 8))),
    ),
    properties=(
        Property(
            "the tile sizes do not matter",
            _other_tiles,
            look_at="the ends of the tiles, and the positions that the mask compares",
        ),
        Property(
            "tiles that only later queries see are not read: they are NaN",
            _first_queries,
            look_at="the tiles that are read, of tiles[0] queries and tiles[1] keys",
            try_it="queries at 4 to 7 in tiles of 2, keys in tiles of 8: keys 0 to 7 are read",
        ),
        Property(
            "offset -6: tiles that no query sees are not read: they are NaN",
            _before_the_keys,
            look_at="where the loop over tiles of keys ends if offset is negative",
            try_it="10 queries at offset -6: the last one stands at key 3, so keys 0 to 3 are read",
        ),
        Property(
            "a prompt in chunks is the prompt at once",
            _in_chunks,
            look_at="offset: query i stands at position offset + i",
        ),
        Property(
            "the halves of the keys, merged, are the whole",
            _halves,
            look_at="the log-sum-exp: the maximum plus the logarithm of the sum",
        ),
    ),
    rules=Rules(
        banned=_BANNED,
        no_square=lambda a: int(a["q"].shape[1]),
        max_elements=lambda a: 2 * int(a["q"].numel()),
        on="48 queries and keys",
    ),
    package="minivllm.attention.sdpa.SdpaAttention",
    hints=(
        "Two loops: over tiles of queries, and inside over tiles of keys. What must be new for "
        "each tile of queries, and what is done once after the inner loop?",
        "Inside: scores of the tile [heads, queries, keys], then masked_fill where the key's "
        "position exceeds the query's, then add_tile. Slices end by themselves at the end of a "
        "tensor, so a narrower last tile needs nothing but positions of its length.",
        "8 queries at offset 0, tiles of 4: the first tile of queries reads the keys 0 to 3 and "
        "stops; the second reads 0 to 3, where nothing is hidden, and 4 to 7, where a triangle is.",
    ),
    seconds=30.0,
    look_at="positions: of a query offset + its row, of a key its place among all keys",
    try_it="5 queries and keys, offset 0, tiles of 2: write down which keys row 3 sees",
)
