"""Chapter 03's exercise on loading: each target exactly once, or an error that names it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Exercise, Output, adversarial, by_hand, sampled
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


Names = tuple[str, ...]


class Shard(dict[str, Tensor]):
    """A file of a checkpoint, shown in few characters."""

    def __repr__(self) -> str:
        return f"{len(self)} tensors"


class Ending(str):
    """How loading ended; a message is shown beside it, and plays no part in a comparison."""

    message: str

    def __new__(cls, text: str = "", message: str = "") -> Ending:
        """A string with a message."""
        self = super().__new__(cls, text)
        self.message = message
        return self

    def __repr__(self) -> str:
        return f"{self}: {self.message!r}" if self.message else str.__repr__(self)


LOADED = Ending("loaded")
REFUSED = Ending("a ValueError that names the tensor")


def _random_shards(
    gen: torch.Generator,
    tied: bool = True,
    holds_head: bool = False,
    num_shards: int = 3,
    dtype: torch.dtype = torch.float32,
) -> Arguments:
    """The head of a tied file has values of its own, so that it shows where it lands."""
    tensors = {name: torch.randn(shape, generator=gen) for name, shape in _SHAPES.items()}
    if tied and not holds_head:
        del tensors[HEAD]
    names = [list(tensors)[i] for i in torch.randperm(len(tensors), generator=gen).tolist()]
    parts = [names[i::num_shards] for i in range(num_shards)]
    shards = [Shard((name, tensors[name].to(dtype)) for name in part) for part in parts]
    return {"shards": shards, "tied": tied, "culprits": ()}


def _owner(arguments: Arguments, name: str) -> Shard:
    owner: Shard = next(shard for shard in arguments["shards"] if name in shard)
    return owner


def _without_one(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    names = [name for name in _SHAPES if name != HEAD]
    name = names[int(torch.randint(len(names), (), generator=gen))]
    del _owner(arguments, name)[name]
    return arguments | {"culprits": (name,)}


def _without_head(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen, tied=False)
    del _owner(arguments, HEAD)[HEAD]
    return arguments | {"culprits": (HEAD,)}


def _without_any(_: torch.Generator) -> Arguments:
    return {"shards": [Shard()], "tied": True, "culprits": tuple(_SHAPES)}


def _with_one_more(gen: torch.Generator, name: str) -> Arguments:
    arguments = _random_shards(gen)
    arguments["shards"][1][name] = torch.ones(12)
    return arguments | {"culprits": (name,)}


def _with_one_twice(gen: torch.Generator) -> Arguments:
    arguments = _random_shards(gen)
    shards = arguments["shards"]
    other = next(shard for shard in shards if _K not in shard)
    other[_K] = _owner(arguments, _K)[_K].clone()
    return arguments | {"culprits": (_K,)}


def _of_another_shape(gen: torch.Generator, change: Callable[[Tensor], Tensor]) -> Arguments:
    arguments = _random_shards(gen)
    shard = _owner(arguments, _Q)
    shard[_Q] = change(shard[_Q]).clone()
    return arguments | {"culprits": (_Q,)}


def _load_by_hand() -> Arguments:
    numbered = {
        name: torch.full(shape, float(number))
        for number, (name, shape) in enumerate(_SHAPES.items(), start=1)
        if name != HEAD
    }
    names = list(numbered)
    shards = [Shard((n, numbered[n]) for n in part) for part in (names[:3], names[3:])]
    return {"shards": shards, "tied": True, "culprits": ()}


_LOADED_BY_HAND = (
    LOADED,
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


def _run_load(load: Any, shards: list[Shard], tied: bool, culprits: Names) -> tuple[Any, ...]:
    memory, targets = _memory(tied)
    try:
        load(MappingProxyType(targets), iter(shards))  # the caller's: only to be read
    except ValueError as error:
        nothing = map(torch.zeros_like, memory)
        message = str(error)
        if culprits and not any(name in message for name in culprits):
            return (Ending("a ValueError without the name", message), *nothing)
        return (Ending(REFUSED if culprits else "ValueError", message), *nothing)
    return (LOADED, *memory)


def _load_oracle(shards: list[Shard], tied: bool, culprits: Names) -> tuple[Any, ...]:
    memory, targets = _memory(tied)
    if culprits:
        return (REFUSED, *map(torch.zeros_like, memory))
    for shard in shards:
        for name in set(shard) & set(targets):
            targets[name][...] = shard[name]
    return (LOADED, *memory)


load_weights = Exercise(
    id="ch03.load_weights",
    outputs=(
        Output("ended with"),
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
        sampled(
            "three shards, in any order",
            _random_shards,
            look_at="what is copied where: the name decides, not the order",
        ),
        adversarial("a checkpoint of one shard", partial(_random_shards, num_shards=1)),
        adversarial(
            "a head of its own",
            partial(_random_shards, tied=False),
            look_at="lm_head.weight: it is skipped only where no target has that name",
            try_it='two targets, one of them "lm_head.weight", and a shard with both',
        ),
        adversarial(
            "a tied file may hold a head, too",
            partial(_random_shards, holds_head=True),
            seeds=range(21, 25),
            look_at="what happens to lm_head.weight where it has no target: nothing at all",
            try_it='targets {"a"}, a shard with "lm_head.weight" and "a"',
        ),
        adversarial(
            "a tensor is left out: ValueError",
            _without_one,
            seeds=range(21, 27),
            look_at="how you know, after the last shard, which targets were never filled",
        ),
        adversarial(
            "no head for a model that needs one: ValueError",
            _without_head,
            look_at="the error after the last shard: lm_head.weight counts like any other target",
            try_it='targets "a" and "lm_head.weight", and a shard with "a" alone',
        ),
        adversarial(
            "no tensor at all: ValueError",
            _without_any,
            look_at="the error after the last shard: it is due even if there was nothing in it",
            try_it="one target, no shard",
        ),
        adversarial(
            "a tensor too many: ValueError",
            partial(_with_one_more, name=f"{_ATTENTION}.q_proj.bias"),
            look_at="what happens to a name that is no target",
            try_it='targets {"a"}, a shard with "a" and "b": the error names b',
        ),
        adversarial(
            "a bias of the head is one too many: ValueError",
            partial(_with_one_more, name="lm_head.bias"),
            look_at="which name is skipped: lm_head.weight to the letter, and no other",
            try_it='targets {"a"}, a shard with "a" and "lm_head.bias"',
        ),
        adversarial(
            "a tensor in two shards: ValueError",
            _with_one_twice,
            look_at="how you know that a target was filled before, by an earlier shard, too",
            try_it='target "a", shards {"a"} and {"a"}: the error names a',
        ),
        *(
            adversarial(
                f"{name}: ValueError",
                partial(_of_another_shape, change=change),
                look_at="the comparison of shapes: all axes, before anything is copied",
                try_it=try_it,
            )
            for name, change, try_it in (
                ("one row for many", lambda t: t[:1], "torch.zeros(4, 2).copy_(torch.ones(1, 2))"),
                (
                    "one column for many",
                    lambda t: t[:, :1],
                    "torch.zeros(4, 2).copy_(torch.ones(4, 1))",
                ),
                ("columns for rows", lambda t: t.T, "a [2, 6] tensor for a [6, 2] target"),
            )
        ),
        adversarial(
            "a checkpoint in bfloat16",
            partial(_random_shards, dtype=torch.bfloat16),
            look_at="what is written: the target's own memory keeps its dtype",
            try_it="torch.zeros(2).copy_(torch.ones(2, dtype=torch.bfloat16)).dtype",
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
    look_at="what is left of the set of targets after each tensor, and what each error says",
    try_it="two targets, one shard with one of them: the error names the other",
)
