"""Chapter 03's detective: a tied head that is a copy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Detective


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
