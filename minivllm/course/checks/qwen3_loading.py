"""Chapter 03's exercise on loading, each target once, and the detective: a tied head."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Detective, Exercise, Output, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import poisoned

_ATTENTION = "model.layers.1.self_attn"
EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
_SHAPES = {
    EMBEDDING: (7, 4),
    f"{_ATTENTION}.q_proj.weight": (12, 4),
    f"{_ATTENTION}.k_proj.weight": (4, 4),
    f"{_ATTENTION}.v_proj.weight": (4, 4),
    f"{_ATTENTION}.q_norm.weight": (4,),
    "model.norm.weight": (4,),
    HEAD: (7, 4),
}
_Q, _K = f"{_ATTENTION}.q_proj.weight", f"{_ATTENTION}.k_proj.weight"


class Shard(dict[str, Tensor]):
    """A file of a checkpoint, shown in few characters."""

    def __repr__(self) -> str:
        return f"{len(self)} tensors"


def _random_shards(
    gen: torch.Generator,
    tied: bool = True,
    repeats_head: bool = False,
    dtype: torch.dtype = torch.float32,
) -> Arguments:
    tensors = {name: torch.randn(shape, generator=gen) for name, shape in _SHAPES.items()}
    tensors[HEAD] = tensors[EMBEDDING].clone() if tied else tensors[HEAD]
    if tied and not repeats_head:
        del tensors[HEAD]
    names = [list(tensors)[i] for i in torch.randperm(len(tensors), generator=gen).tolist()]
    shards = [Shard((name, tensors[name].to(dtype)) for name in names[i::3]) for i in range(3)]
    return {"shards": shards, "tied": tied}


def _owner(arguments: Arguments, name: str) -> Shard:
    owner: Shard = next(shard for shard in arguments["shards"] if name in shard)
    return owner


def _without_one(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    names = [name for name in _SHAPES if name != HEAD]
    name = names[int(torch.randint(len(names), (), generator=gen))]
    del _owner(arguments, name)[name]
    return arguments


def _with_one_more(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    arguments["shards"][1][f"{_ATTENTION}.q_proj.bias"] = torch.ones(12)
    return arguments


def _with_one_twice(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    shards = arguments["shards"]
    other = next(shard for shard in shards if _K not in shard)
    other[_K] = _owner(arguments, _K)[_K].clone()
    return arguments


def _with_one_row(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    _owner(arguments, _K)[_K] = torch.ones(1, 4)
    return arguments


def _with_columns_for_rows(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    shard = _owner(arguments, _Q)
    shard[_Q] = shard[_Q].T.clone()
    return arguments


def _load_by_hand() -> Arguments:
    numbered = {
        name: torch.full(shape, float(number))
        for number, (name, shape) in enumerate(_SHAPES.items(), start=1)
        if name != HEAD
    }
    names = list(numbered)
    shards = [Shard((n, numbered[n]) for n in part) for part in (names[:3], names[3:])]
    return {"shards": shards, "tied": True}


_LOADED_BY_HAND = (
    "loaded",
    torch.full((7, 4), 1.0),
    torch.cat([torch.full((12, 4), 2.0), torch.full((4, 4), 3.0), torch.full((4, 4), 4.0)]),
    torch.tensor([5.0] * 4 + [6.0] * 4),
    torch.zeros(7, 4),
)


def _memory(tied: bool) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    """What is compared, poisoned, and the views of it that are to be filled."""
    embedding, qkv, norms = poisoned(7, 4), poisoned(20, 4), poisoned(8)
    head = torch.zeros(7, 4) if tied else poisoned(7, 4)
    views = [embedding, qkv[:12], qkv[12:16], qkv[16:], norms[:4], norms[4:]]
    targets = dict(zip(_SHAPES, views, strict=False))
    if not tied:
        targets[HEAD] = head
    return (embedding, qkv, norms, head), targets


def _run_load(load: Any, shards: list[Shard], tied: bool) -> tuple[Any, ...]:
    memory, targets = _memory(tied)
    try:
        load(targets, iter(shards))
    except ValueError:
        return ("ValueError", *map(torch.zeros_like, memory))
    return ("loaded", *memory)


def _load_oracle(shards: list[Mapping[str, Tensor]], tied: bool) -> tuple[Any, ...]:
    memory, targets = _memory(tied)
    names = [name for shard in shards for name in shard if not (tied and name == HEAD)]
    shapes = {name: list(t.shape) for shard in shards for name, t in shard.items()}
    fits = all(shapes[name] == list(targets[name].shape) for name in names if name in targets)
    if sorted(names) != sorted(targets) or not fits:
        return ("ValueError", *map(torch.zeros_like, memory))
    for shard in shards:
        for name in set(shard) & set(targets):
            targets[name][...] = shard[name]
    return ("loaded", *memory)


load_weights = Exercise(
    id="ch03.load_weights",
    outputs=(
        Output("outcome"),
        Output("embed_tokens", axes="row column"),
        Output("qkv_proj", axes="row column"),
        Output("norms", axes="element"),
        Output("lm_head", axes="row column"),
    ),
    oracle=_load_oracle,
    run=_run_load,
    cases=(
        by_hand(
            "two shards, five tensors",
            _load_by_hand,
            expected=_LOADED_BY_HAND,
        ),
        sampled("three shards, in any order", _random_shards),
        adversarial("a head of its own", partial(_random_shards, tied=False)),
        adversarial(
            "a tied file repeats the embedding",
            partial(_random_shards, repeats_head=True),
            look_at="what happens to lm_head.weight where it has no target",
        ),
        adversarial(
            "a tensor is left out: ValueError",
            _without_one,
            seeds=range(21, 27),
            look_at="how you know, after the last shard, which targets were never filled",
        ),
        adversarial("a tensor too many: ValueError", _with_one_more),
        adversarial("a tensor in two shards: ValueError", _with_one_twice),
        adversarial(
            "one row for many: ValueError",
            _with_one_row,
            look_at="copy_ repeats a single row without a word: compare the shapes yourself",
            try_it="torch.zeros(4, 2).copy_(torch.ones(1, 2))",
        ),
        adversarial(
            "columns for rows: ValueError",
            _with_columns_for_rows,
            look_at="the comparison: all axes count, not the number of elements",
        ),
        adversarial(
            "a checkpoint in bfloat16",
            partial(_random_shards, dtype=torch.bfloat16),
            look_at="what is written: the target's own memory keeps its dtype",
        ),
    ),
    package="minivllm.models.loader.load_weights",
    hints=(
        "Which targets are still empty? Keep that set from the first shard to the last: it answers "
        "three of the four questions in the contract.",
        "`copy_` writes into the memory that is there, and converts. It also repeats a single row "
        "to fill many, so the shapes are yours to compare. `torch.no_grad()` lets you write into "
        "parameters.",
        "Targets a and b, shards {a} and {b, b again}: after the first the set is {b}, after the "
        "first b it is empty, and the second b is not in it.",
    ),
    look_at="what is left of the set of targets after each tensor",
    try_it="two targets, one shard with one of them: the error names the other",
)


def load_tied(tensors: dict[str, Tensor], vocab_size: int, size: int) -> tuple[Tensor, Tensor]:
    """The embedding and the output head of a tied model, both filled from a checkpoint."""
    embedding = torch.zeros(vocab_size, size)
    head = embedding.clone()
    targets = {"model.embed_tokens.weight": embedding}
    missing = set(targets)
    for name, tensor in tensors.items():
        if name not in targets:
            continue
        targets[name].copy_(tensor)
        missing.remove(name)
    if missing:
        raise ValueError(f"no tensor for {sorted(missing)}")
    return embedding, head


def _shows_bug(load: Callable[..., Any]) -> bool:
    table = torch.arange(6.0).view(3, 2)
    embedding, head = load({"model.embed_tokens.weight": table}, 3, 2)
    return torch.equal(embedding, table) and not torch.equal(head, table)


detective = Detective(
    id="ch03.detective",
    listing=load_tied,
    culprit="head = embedding.clone()",
    fix="    head = embedding",
    shows_bug=_shows_bug,
    reasons={
        "a": "copy_ needs torch.no_grad(), and without it nothing is written",
        "b": "the head is memory of its own, so what is copied into the embedding never reaches it",
        "c": "lm_head.weight is skipped, and a tied checkpoint keeps the head under that name",
    },
    right="b",
    explain={
        "a": "The embedding did get its values: the hidden states were right.",
        "c": "A tied checkpoint has no lm_head.weight, or one that repeats the embedding.",
    },
    lines={
        "torch.zeros": "Any first values will do, as long as they are overwritten.",
        "continue": "A tensor that this function does not know is not its business.",
        "copy_(tensor)": "It writes into the memory of the embedding, as it should.",
        "missing.remove": "The embedding was filled, so it is rightly taken off.",
    },
    hints=(
        "The hidden states are right and every score is 0. Which of the two tables is at fault?",
        "Follow that table from the line that makes it to the return. Who writes to it?",
        "`a = torch.zeros(2)`, `b = a.clone()`, `a.copy_(torch.ones(2))`: what is b?",
    ),
)
