"""Chapter 03's exercise on the whole model, from token ids to scores."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minivllm.attention.reference import ReferenceAttention
from minivllm.course.checks import dense_qwen3
from minivllm.course.checks.tiny_qwen3 import (
    FITS,
    OWN_CONFIG,
    Tiny,
    fill,
    in_order,
    new_cache,
    random_tensors,
    shapes_of_model,
    steps,
    tiny_arch,
)
from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.models.qwen3 import Qwen3DecoderLayer
from minivllm.parallel import TensorParallel

Lengths = tuple[int, ...]


def _run_model(
    cls: Any, input_ids: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Any]:
    arch, tp, backend = tiny.arch, TensorParallel(), ReferenceAttention()
    layers = [Qwen3DecoderLayer(arch, None, backend, tp) for _ in range(arch.num_layers)]
    model = cls(arch, layers, tp)
    if (problem := fill(model, tiny.tensors)) != FITS:
        return problem, torch.zeros(len(input_ids), arch.vocab_size)
    caches = [new_cache(arch, lengths) for _ in layers]
    parts, rows = [], []
    with torch.no_grad():
        for step in steps(lengths, first):
            hidden = model(input_ids[step.rows], step.positions, caches, step.metadata)
            parts.append(model.compute_logits(hidden))
            rows.append(step.rows)
    return FITS, in_order(parts, rows)


def _model_oracle(
    dtype: torch.dtype, input_ids: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Tensor]:
    del first
    ids = input_ids.split(lengths)
    parts = [dense_qwen3.logits(part, tiny.tensors, tiny.arch, dtype) for part in ids]
    return FITS, torch.cat(parts)


def _model_case(
    gen: torch.Generator,
    lengths: Lengths = (1, 5, 9),
    first: Lengths | None = None,
    scale: float = 0.3,
    **config: Any,
) -> Arguments:
    arch = tiny_arch(**config)
    input_ids = torch.randint(0, arch.vocab_size, (sum(lengths),), generator=gen)
    tiny = Tiny(arch, random_tensors(shapes_of_model(arch), gen, scale))
    return {"input_ids": input_ids, "lengths": lengths, "first": first, "tiny": tiny}


def _model_by_hand() -> Arguments:
    arch = tiny_arch(vocab_size=3, hidden_size=2, num_layers=0, rms_norm_eps=0.0)
    tensors = {
        "model.embed_tokens.weight": torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]]),
        "model.norm.weight": torch.ones(2),
    }
    ids = torch.tensor([0])
    return {"input_ids": ids, "lengths": (1,), "first": None, "tiny": Tiny(arch, tensors)}


def _model_in_two_steps(run: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    a = _model_case(gen, lengths=(6, 9))
    once = run(**a)[1]
    return run(**(a | {"first": (5, 4)}))[1], once


model = Exercise(
    id="ch03.model",
    names=("Qwen3",),
    outputs=(
        Output("parameters"),
        Output("logits", axes="token vocab", dtype=torch.float32),
    ),
    oracle=partial(_model_oracle, torch.float64),
    reference=partial(_model_oracle, torch.float32),
    run=_run_model,
    cases=(
        by_hand(
            "no layers, and the embedding 3, 4",
            _model_by_hand,
            expected=(FITS, torch.tensor([[7.0711, 0.8485, 1.1314]])),
        ),
        sampled("three layers, three requests", _model_case),
        adversarial(
            "a head of its own if not tied",
            partial(_model_case, tie_word_embeddings=False),
            look_at="which table compute_logits uses, and when",
        ),
        adversarial(
            "eps and theta are those of the config",
            partial(_model_case, scale=0.05, **OWN_CONFIG),
            look_at="arch.rms_norm_eps and arch.rope: nothing is written out as a number",
        ),
        adversarial(
            "later steps know their positions",
            partial(_model_case, lengths=(6, 9), first=(5, 4)),
            look_at="where the positions come from, and which cache each layer gets",
        ),
    ),
    properties=(
        Property(
            "one step or two, the result is the same",
            _model_in_two_steps,
            look_at="where the positions come from, and which cache each layer gets",
        ),
    ),
    package="minivllm.models.qwen3.Qwen3ForCausalLM",
    hints=(
        "A row of the embedding is the stream's first value. What happens to it between that and "
        "the scores, from the bottom to the top?",
        "`nn.ModuleDict` for the names that begin with `model.`, `nn.ModuleList` for the layers. "
        "Cosines and sines are worked out once, from `positions`, in the dtype of the stream. A "
        "tied head is no new table: ask the embedding for its `logits`.",
        "Without any layers the scores are the products of the normalised embedding row with every "
        "row of the table. With ids [0] and rows (3, 4), (1, 0), (0, 1): 7.07, 0.85, 1.13.",
    ),
    look_at="the way of a token's row from the embedding, through the layers and the norm, out",
    try_it="a model without layers: the scores are norm(row) times each row of the table",
)
