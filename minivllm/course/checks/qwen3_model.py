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
    EMBEDDING,
    FITS,
    LONG,
    OWN_CONFIG,
    SAME_ROWS,
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
    cls: Any,
    input_ids: Tensor,
    embedding: Tensor,
    lengths: Lengths,
    first: Lengths | None,
    tiny: Tiny,
) -> tuple[str, Any, Any]:
    arch, tp, backend = tiny.arch, TensorParallel(), ReferenceAttention()
    layers = [Qwen3DecoderLayer(arch, None, backend, tp) for _ in range(arch.num_layers)]
    model = cls(arch, layers, tp)
    problem = fill(model, {EMBEDDING: embedding, **tiny.tensors})
    if problem != FITS or not lengths:
        return problem, *_nothing(len(input_ids), arch.hidden_size, arch.vocab_size)
    caches = [new_cache(arch, lengths, embedding.dtype) for _ in layers]
    parts, scores, rows = [], [], []
    with torch.no_grad():
        for step in steps(lengths, first):
            parts.append(model(input_ids[step.rows], step.positions, caches, step.metadata))
            scores.append(model.compute_logits(parts[-1]))
            rows.append(step.rows)
    return FITS, in_order(parts, rows), in_order(scores, rows)


def _nothing(num_tokens: int, hidden_size: int, vocab_size: int) -> tuple[Tensor, Tensor]:
    return torch.zeros(num_tokens, hidden_size), torch.zeros(num_tokens, vocab_size)


def _model_oracle(
    input_ids: Tensor, embedding: Tensor, lengths: Lengths, first: Lengths | None, tiny: Tiny
) -> tuple[str, Tensor, Tensor]:
    del first
    weights = {EMBEDDING: embedding, **tiny.tensors}
    parts = [dense_qwen3.hidden_states(i, weights, tiny.arch) for i in input_ids.split(lengths)]
    hidden = torch.cat(parts)
    return FITS, hidden, dense_qwen3.logits(hidden, weights)


def _case(
    gen: torch.Generator,
    lengths: Lengths = (1, 5, 9),
    first: Lengths | None = None,
    scale: float = 0.3,
    dtype: torch.dtype = torch.float32,
    **config: Any,
) -> Arguments:
    arch = tiny_arch(**config)
    input_ids = torch.randint(0, arch.vocab_size, (sum(lengths),), generator=gen)
    tensors = random_tensors(shapes_of_model(arch), gen, scale, dtype)
    embedding = tensors.pop(EMBEDDING)
    tiny = Tiny(arch, tensors)
    return {
        "input_ids": input_ids,
        "embedding": embedding,
        "lengths": lengths,
        "first": first,
        "tiny": tiny,
    }


def _parameters_alone() -> Arguments:
    """No request: the layers are made, and nothing is computed."""
    return _case(torch.Generator().manual_seed(0), lengths=(1,)) | {"lengths": ()}


def _by_hand() -> Arguments:
    arch = tiny_arch(vocab_size=3, hidden_size=2, num_layers=0, rms_norm_eps=0.0)
    return {
        "input_ids": torch.tensor([0]),
        "embedding": torch.tensor([[3.0, 4.0], [1.0, 0.0], [0.0, 1.0]]),
        "lengths": (1,),
        "first": None,
        "tiny": Tiny(arch, {"model.norm.weight": torch.ones(2)}),
    }


def _in_two_steps(run: Callable[..., Any], gen: torch.Generator) -> tuple[Any, Any]:
    a = _case(gen, lengths=(6, 9))
    return run(**(a | {"first": (5, 4)})), run(**a)


_POSITIONS = "where the positions come from, and which cache each layer gets"
_TRY_POSITIONS = "print(positions) in forward: a later step does not begin at 0"

model = Exercise(
    id="ch03.model",
    names=("Qwen3",),
    outputs=(
        Output("parameters"),
        Output("hidden", axes="token hidden"),
        Output("logits", axes="token vocab"),
    ),
    oracle=_model_oracle,
    run=_run_model,
    cases=(
        by_hand(
            "its parameters are those of a checkpoint",
            _parameters_alone,
            expected=(FITS, *_nothing(1, 24, 13)),
            look_at="the names in __init__: model.embed_tokens, model.layers.0, ..., model.norm",
            try_it="for n, p in model.named_parameters(): print(n, list(p.shape))",
        ),
        by_hand(
            "no layers, and the embedding 3, 4",
            _by_hand,
            expected=(
                FITS,
                torch.tensor([[0.8485, 1.1314]]),
                torch.tensor([[7.0711, 0.8485, 1.1314]]),
            ),
            look_at="forward gives normed rows; compute_logits gives products with the table",
            try_it="3, 4 over its root mean square is 0.8485, 1.1314; times row 0: 7.07",
        ),
        sampled("three layers, three requests", _case, seeds=(11, 12)),
        adversarial(
            "a head of its own if not tied",
            partial(_case, tie_word_embeddings=False),
            look_at="which table compute_logits uses, and when; an lm_head has no bias",
            try_it="print(arch.tie_word_embeddings)",
        ),
        adversarial(
            "eps and theta are those of the config",
            partial(_case, scale=0.05, **OWN_CONFIG),
            look_at="arch.rms_norm_eps and arch.rope: nothing is written out as a number",
            try_it="print(arch.rms_norm_eps, arch.rope)",
        ),
        adversarial(
            "later steps know their positions",
            partial(_case, **SAME_ROWS),
            look_at=_POSITIONS,
            try_it=_TRY_POSITIONS,
        ),
        adversarial(
            "a request of 130 tokens",
            partial(_case, lengths=LONG),
            look_at="cosines: worked out from this step's positions, however large",
            try_it=_TRY_POSITIONS,
        ),
        adversarial(
            "bfloat16 stays bfloat16",
            partial(_case, dtype=torch.bfloat16),
            look_at="the second argument of the rotary embedding, x.dtype; and float() or to()",
            try_it="print the dtype of x, of the cosines, and of the logits: all the same",
        ),
    ),
    properties=(
        Property(
            "one step or two, the result is the same",
            _in_two_steps,
            look_at=_POSITIONS,
            try_it=_TRY_POSITIONS,
        ),
    ),
    seconds=20.0,
    package="minivllm.models.qwen3.Qwen3ForCausalLM",
    hints=(
        "A row of the embedding is the stream's first value. What happens to it between that and "
        "the scores, from the bottom to the top?",
        "`nn.ModuleDict` for the names that begin with `model.`, `nn.ModuleList` for the layers. "
        "Cosines and sines are worked out once a step, from `positions`, in the dtype of the "
        "stream. A tied head is no new table: ask the embedding for its `logits`.",
        "Without any layers the scores are the products of the normalised embedding row with every "
        "row of the table. With ids [0] and rows (3, 4), (1, 0), (0, 1): 7.07, 0.85, 1.13.",
    ),
    look_at="the way of a token's row from the embedding, through the layers and the norm, out",
    try_it="a model without layers: the scores are norm(row) times each row of the table",
)
