"""The checks of the demo chapter."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import (
    Detective,
    Event,
    Exercise,
    Invariant,
    Machine,
    Output,
    Property,
    Rules,
    Scaling,
    Trace,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import strided


def _oracle(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    rows = []
    for head in range(q.shape[1]):
        keys, values = k[:, head // group], v[:, head // group]
        scores = torch.einsum("btd,bsd->bts", q[:, head], keys) * q.shape[-1] ** -0.5
        rows.append(torch.einsum("bts,bsd->btd", scores.softmax(-1), values))
    return torch.stack(rows, 1)


def _make(gen: torch.Generator) -> Arguments:
    return {
        "q": torch.randn(2, 8, 5, 16, generator=gen),
        "k": torch.randn(2, 2, 5, 16, generator=gen),
        "v": torch.randn(2, 2, 5, 16, generator=gen),
    }


def _two_keys() -> Arguments:
    return {
        "q": torch.zeros(1, 2, 1, 2),
        "k": torch.tensor([[[[1.0, 0.0], [0.0, 1.0]]]]),
        "v": torch.tensor([[[[2.0, 0.0], [0.0, 4.0]]]]),
    }


def _alone(attend: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    a = _make(gen)
    return attend(**a)[1:], attend(a["q"][1:], a["k"][1:], a["v"][1:])


attend = Exercise(
    id="ch90.attend",
    outputs=Output("out", axes="batch head token dim"),
    oracle=_oracle,
    cases=(
        by_hand("equal scores average", _two_keys, torch.tensor([1.0, 2.0]).expand(1, 2, 1, 2)),
        sampled("heads read the right KV head", _make),
        adversarial("scores of 60", lambda gen: _make(gen) | {"q": 60 * torch.randn(2, 8, 5, 16)}),
        adversarial("memory with gaps", lambda gen: {k: strided(x) for k, x in _make(gen).items()}),
        adversarial(
            "half precision", lambda gen: {name: x.half() for name, x in _make(gen).items()}
        ),
    ),
    properties=(Property("batch mates do not matter", _alone),),
    rules=Rules(banned=("scaled_dot_product_attention",), max_ops=500),
    package="minivllm.attention.reference.attention",
    hints=("Which KV head does query head 5 read?", "repeat_interleave", "k = arange(heads)"),
    look_at="the line that expands k from 2 to 8 heads",
    try_it="attend on k = arange(heads): head h must read KV head h // 4",
)


class _Oracle:
    def __init__(self, num_blocks: int) -> None:
        self.blocks = list(range(num_blocks))

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self) -> Any:
        return iter(self.blocks)

    def popleft(self) -> int:
        return self.blocks.pop(0)

    def append(self, block: int) -> None:
        if block in self.blocks:
            raise ValueError(block)
        self.blocks.append(block)

    def remove(self, block: int) -> None:
        self.blocks.remove(block)


def _random_trace(rng: random.Random) -> Trace:
    num_blocks = rng.randint(2, 6)
    events = []
    for _ in range(30):
        name = rng.choice(["popleft", "append", "remove"])
        events.append(Event(name, *([] if name == "popleft" else [rng.randrange(num_blocks)])))
    return Trace("random", {"num_blocks": num_blocks}, tuple(events))


def _legal(oracle: Any, event: Event) -> bool:
    if event.name == "popleft":
        return len(oracle) > 0
    return event.name == "append" or event.args[0] in oracle.blocks


free_queue = Machine(
    id="ch90.free_queue",
    names=("FreeQueue",),
    oracle=_Oracle,
    traces=(
        Trace(
            "what is freed first is taken first",
            {"num_blocks": 2},
            (
                Event("popleft"),
                Event("popleft"),
                Event("append", 0),
                Event("append", 1),
                Event("popleft"),
            ),
        ),
        Trace("freed twice is refused", {"num_blocks": 2}, (Event("append", 1),)),
    ),
    random_trace=_random_trace,
    legal=_legal,
    observe={"len": len, "order": list},
    invariants=(Invariant("a block is free once", lambda q: len(set(q)) == len(list(q))),),
    scaling=(
        Scaling(
            "remove takes as long in a long queue",
            small={"num_blocks": 16},
            large={"num_blocks": 512},
            events=lambda start: (Event("remove", start["num_blocks"] // 2),),
        ),
    ),
    hints=("What keeps an order and finds at once?", "A dict does both", "pop 0, append 0, list"),
    look_at="where append puts a block",
    try_it="pop two blocks, append both, and list the queue",
)


def listed(q: Tensor, k: Tensor) -> Tensor:
    """Scores with a causal mask."""
    scores = q @ k.T
    scores = scores.masked_fill(torch.ones_like(scores).tril() == 1, float("-inf"))
    return scores.softmax(-1)


def _sees_future(masked: Callable[..., Tensor]) -> bool:
    weights = masked(torch.ones(3, 2), torch.ones(3, 2)).nan_to_num()
    return bool(weights[1, 0] == 0)


detective = Detective(
    id="ch90.detective",
    listing=listed,
    culprit="tril",
    fix="    scores = scores.masked_fill(torch.ones_like(scores).tril() == 0, float('-inf'))",
    shows_bug=_sees_future,
    reasons={"a": "softmax over the wrong axis", "b": "the mask hides the past", "c": "no scale"},
    right="b",
    explain={"a": "dim -1 runs over the keys: right", "c": "a scale would not move the zeros"},
    lines={"softmax": "the weights of a row do sum to 1"},
    hints=("Which weights are 0?", "What does tril keep?", "A 3 x 3 matrix of ones"),
)
