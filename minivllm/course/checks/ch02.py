"""Chapter 02: attention over grouped heads and the causal mask; then the parts for whole steps."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from minivllm.course.checks import attention_batches as batches
from minivllm.course.checks import attention_material as given
from minivllm.course.checks import attention_steps
from minivllm.course.declare import (
    Detective,
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.exercise import Advice

_BOOL = torch.bool
_WINDOW_EDGE = "the window, a second condition: counted back from each query's own position"
_TRY_WINDOW = "causal_mask(2, 5, 3).int(): [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]"


def _two_keys() -> dict[str, torch.Tensor]:
    """Scores 0, ln 3 and a hidden one, for each of two query heads."""
    k = torch.zeros(3, 1, 4)
    k[1, 0, 0], k[2, 0, 0] = math.log(3), 9.0
    v = torch.tensor([[4.0, 0, 0, 0], [0, 8.0, 0, 0], [0, 0, 100.0, 0]])
    q = torch.tensor([[[2.0, 0, 0, 0], [0, 0, 0, 0]]])
    return {"q": q, "k": k, "v": v[:, None], "visible": torch.tensor([[True, True, False]])}


attend = Exercise(
    id="ch02.attend",
    outputs=Output("out", axes="query head dim"),
    oracle=given.read,
    cases=(
        by_hand(
            "scores 0 and ln 3 weigh 1/4 and 3/4",
            _two_keys,
            expected=torch.tensor([[[1.0, 6.0, 0.0, 0.0], [2.0, 4.0, 0.0, 0.0]]]),
        ),
        sampled("random heads, any mask", given.heads()),
        adversarial(
            "heads read the right KV head",
            given.heads(8, 2),
            look_at="the line that makes 8 heads of keys out of 2",
            try_it="torch.tensor([0, 1]).repeat_interleave(4), and the same with repeat",
        ),
        adversarial("as many KV heads as query heads", given.heads(3, 3)),
        adversarial("one KV head for all query heads", given.heads(4, 1)),
        adversarial("as many queries as heads", given.heads(5, 1, 5, 5)),
        adversarial("a chunk of 4 after 9 cached tokens", given.causal(4, 13)),
        adversarial("a decode step: one query, 12 keys", given.causal(1, 12)),
        adversarial(
            "scores beyond 88",
            given.with_scores(-60, 95),
            look_at="the softmax: exp(95) is beyond float32",
            try_it="torch.tensor([95., 94.]).exp(), and their softmax",
        ),
        adversarial(
            "all scores below -110",
            given.with_scores(-130, -116),
            look_at="what hidden scores are filled with, and what the softmax divides by",
            try_it="torch.tensor([-110., -112.]).exp()",
        ),
        adversarial(
            "all scores below -20,000",
            given.far_below_zero,
            look_at="what hidden scores are filled with: no number is low enough",
            try_it="torch.tensor([-1e4, -20010., -20012.]).softmax(0)",
        ),
        adversarial(
            "a hidden key with the largest score",
            given.loud_hidden_key,
            look_at="the order: hide scores first, then take the softmax",
        ),
        adversarial(
            "a row that sees nothing is 0",
            given.blind_row,
            look_at="the weights of a row whose scores are all hidden",
            try_it="torch.full((3,), -torch.inf).softmax(0)",
        ),
        adversarial(
            "float16 in and out, scores in float32",
            given.with_scores(50, 59, torch.float16),
            look_at="the dtype of the scores: near 60, float16 has steps of 1/32",
            try_it="torch.tensor(59.01, dtype=torch.float16)",
        ),
        adversarial("bfloat16 in and out", given.in_dtype(torch.bfloat16, given.heads())),
        adversarial("q, k, v and visible that are not contiguous", given.with_gaps(given.heads())),
    ),
    properties=(
        Property("each query by itself", given.query_alone),
        Property("the order of the keys does not matter", given.keys_reordered),
        Property("each KV head with its own query heads", given.group_alone),
    ),
    rules=Rules(banned=("scaled_dot_product_attention",)),
    package="minivllm.attention.reference.ReferenceAttention",
    hints=(
        "Which shape have the scores of one head? Which axis of them must sum to 1? What must a "
        "hidden score be, so that its weight is 0?",
        "repeat_interleave gives each query head its keys; einsum multiplies them; masked_fill "
        "hides; softmax runs over the keys; a second masked_fill settles rows that see nothing.",
        "head_dim 4, q = [2, 0, 0, 0], keys [0, 0, 0, 0] and [ln 3, 0, 0, 0]: the dot products are "
        "0 and 2 ln 3, halved 0 and ln 3, so the weights are 1/4 and 3/4.",
    ),
    look_at="the scores: their factor, their mask, and the axis of the softmax",
    try_it="q of zeros: every key that is seen has the same weight",
    seconds=20,  # naming a mistake tries many others
)

causal_mask = Exercise(
    id="ch02.causal_mask",
    outputs=Output("visible", axes="query key", dtype=_BOOL),
    oracle=given.seen_keys,
    cases=(
        by_hand(
            "the last 2 of 5 tokens",
            lambda: {"num_queries": 2, "num_keys": 5, "window": None},
            expected=torch.tensor([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]).bool(),
        ),
        replace(
            by_hand(
                "the same with a window of 3",
                lambda: {"num_queries": 2, "num_keys": 5, "window": 3},
                expected=torch.tensor([[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]).bool(),
            ),
            advice=Advice(look_at=_WINDOW_EDGE, try_it=_TRY_WINDOW),
        ),
        sampled("random chunks", batches.some_mask, seeds=(11, 12, 13, 14)),
        adversarial("a whole prompt", lambda _: {"num_queries": 6, "num_keys": 6, "window": None}),
        adversarial(
            "a decode step sees all keys",
            lambda _: {"num_queries": 1, "num_keys": 9, "window": None},
        ),
        adversarial(
            "a decode step after 2,999 tokens",
            lambda _: {"num_queries": 1, "num_keys": 3000, "window": None},
        ),
        adversarial(
            "the first token of all", lambda _: {"num_queries": 1, "num_keys": 1, "window": None}
        ),
        adversarial(
            "a prompt with a window of 2",
            lambda _: {"num_queries": 6, "num_keys": 6, "window": 2},
            look_at=_WINDOW_EDGE,
            try_it=_TRY_WINDOW,
        ),
        adversarial(
            "a decode step with a window of 4",
            lambda _: {"num_queries": 1, "num_keys": 9, "window": 4},
            look_at=_WINDOW_EDGE,
            try_it=_TRY_WINDOW,
        ),
        adversarial(
            "a window of 1: only itself",
            lambda _: {"num_queries": 3, "num_keys": 7, "window": 1},
            look_at="how many keys the window leaves: the token itself is one of them",
        ),
        adversarial(
            "a window longer than the request",
            lambda _: {"num_queries": 3, "num_keys": 7, "window": 50},
            look_at=_WINDOW_EDGE,
            try_it=_TRY_WINDOW,
        ),
    ),
    properties=(
        Property("a chunk has the last rows of the prompt's mask", batches.chunk_of_prompt),
        Property("a window as long as the request hides nothing", batches.wide_window),
    ),
    package="minivllm.attention.groups.PrefillGroup",
    hints=(
        "At which positions do the queries stand? With 2 queries and 5 keys they are not 0 and 1.",
        "Two aranges, of positions: one as a column, one as a row. One comparison gives the "
        "mask; a window is a second comparison.",
        "2 queries of 5 tokens stand at 3 and 4. The first sees the keys 0, 1, 2, 3; with a window "
        "of 3 it sees 1, 2, 3.",
    ),
    look_at="the positions of the queries: they are the last ones, not the first",
    try_it="causal_mask(2, 5).int(): [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]",
)

packed_mask, packed_attention = attention_steps.packed_mask, attention_steps.packed_attention

detective = Detective(
    id="ch02.detective",
    listing=given.attend_step,
    culprit="visible.tril(",
    fix="    visible = visible.tril(num_cached)",
    shows_bug=given.chunks_differ,
    reasons={
        "a": "the KV heads must be repeated as a whole: repeat, not repeat_interleave",
        "b": "the softmax must run over the queries, so that each key is shared out once",
        "c": "the first tokens of a chunk see the later ones: there, too, a diagonal is needed",
        "d": "the scores must be divided by the root of num_heads * head_dim",
    },
    right="c",
    explain={
        "a": "query heads 0 and 1 share KV head 0: 0, 0, 1, 1 is what repeat_interleave gives",
        "b": "each query shares out its own attention: its weights over the keys sum to 1",
        "d": "a score is a sum of head_dim products, whatever the number of heads",
    },
    lines={
        "group_size = ": "4 query heads on 2 KV heads: groups of 2",
        "repeat_interleave": "0, 0, 1, 1: neighbours share a KV head",
        "scores = torch.einsum": "one score for each head, query and key, divided by the root of "
        "head_dim",
        "torch.ones": "all visible: what is hidden is taken away in the next line",
        "weights = ": "hidden scores become -inf before the softmax, which runs over the keys",
        '"hqk,khd->qhd"': "each query's weights times the values",
    },
    hints=(
        "Prompts in one piece are right, decode steps are right. What has a chunk that neither of "
        "them has?",
        "More than one query, and cached keys. Which line treats these two together?",
        "3 cached, 3 new: print `visible` for it. Row 0 stands at position 3.",
    ),
)
