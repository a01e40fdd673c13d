"""Chapter 02: the checks of whole steps, their mask and their attention.

Next file to read: `ch02.py`.
"""

from __future__ import annotations

import torch

from minivllm.course.checks import attention_batches as batches
from minivllm.course.checks.attention_material import in_dtype, with_gaps
from minivllm.course.declare import (
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)

packed_mask = Exercise(
    id="ch02.packed_mask",
    outputs=Output("visible", axes="row key", dtype=torch.bool),
    oracle=batches.block_mask,
    cases=(
        by_hand(
            "1 of 2 tokens, then 2 of 3",
            lambda: batches.metadata([(1, 2), (2, 3)]),
            expected=torch.tensor([[1, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 1, 1, 1]]).bool(),
        ),
        sampled(
            "random steps",
            lambda gen: batches.metadata(batches.random_step(gen)),
            seeds=(11, 12, 13, 14),
        ),
        adversarial("whole prompts", lambda _: batches.metadata([(4, 4), (2, 2), (5, 5)])),
        adversarial("prefill, chunk and decode", lambda _: batches.metadata(batches.MIXED)),
        adversarial("decode steps only", lambda _: batches.metadata(batches.DECODES)),
        adversarial("one request, alone", lambda _: batches.metadata([(3, 8)])),
        adversarial(
            "two requests of the same length", lambda _: batches.metadata([(2, 6), (2, 6)])
        ),
        adversarial(
            "11 requests",
            lambda _: batches.metadata(batches.LARGE),
            look_at="how many requests there are: len(seq_lens)",
        ),
        adversarial(
            "int32, as the engine has it",
            lambda _: batches.metadata([(3, 8), (1, 2), (4, 4)], torch.int32),
        ),
    ),
    properties=(Property("batch mates do not matter", batches.one_of_mask),),
    package="minivllm.attention.groups.PrefillGroup",
    hints=(
        "For each row: whose is it, and where does it stand in its own request? The same two "
        "questions for each column.",
        "diff gives queries per request; repeat_interleave says whose a row or key is; arange "
        "minus where the owner begins is a place in the request. Two comparisons, joined with &.",
        "query_start_loc [0, 1, 3], seq_lens [2, 3]: the rows stand at 1 of request 0, then at 1 "
        "and 2 of request 1; the keys at 0, 1, then 0, 1, 2.",
    ),
    look_at="whose a row and a key are, then where they stand in that request",
    try_it="packed_mask(tensor([0, 1, 3]), tensor([2, 3])).int(), beside the worked example",
)

packed_attention = Exercise(
    id="ch02.packed_attention",
    outputs=Output("out", axes="row head dim"),
    oracle=batches.read_all,
    cases=(
        by_hand(
            "one token each: its own value",
            lambda: {
                "q": torch.ones(2, 1, 2),
                "k": torch.ones(2, 1, 2),
                "v": torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]),
                **batches.metadata([(1, 1), (1, 1)]),
                "window": None,
            },
            expected=torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]),
        ),
        sampled("random steps", batches.random_batch, seeds=(11, 12, 13, 14)),
        adversarial("prefill, chunk and decode", batches.batch(batches.MIXED)),
        adversarial("decode steps only", batches.batch(batches.DECODES)),
        adversarial("one request, alone", batches.batch([(3, 8)])),
        adversarial(
            "a window of 3 tokens",
            batches.batch(batches.MIXED, window=3),
            look_at="the argument window: it must reach the mask, and nothing else",
            try_it="window=1: each row gives its own token's values",
        ),
        adversarial(
            "padding is 0 and never read",
            batches.batch(batches.MIXED, padding=4),
            look_at="rows and keys past the last request: nobody owns them",
            try_it="0 * torch.tensor(torch.nan): a weight of 0 does not protect",
        ),
        adversarial(
            "float16 in and out",
            in_dtype(torch.float16, batches.batch(batches.MIXED)),
            look_at="the dtype of what is returned: that of q",
            try_it="torch.zeros(2).dtype, whatever q is",
        ),
        adversarial("one KV head of 32", batches.batch(batches.MIXED, heads=(4, 1, 32))),
        adversarial(
            "as many KV heads as query heads", batches.batch(batches.MIXED, heads=(3, 3, 16))
        ),
        adversarial(
            "q, k and v that are not contiguous",
            with_gaps(batches.batch(batches.MIXED)),
        ),
        adversarial(
            "a large step of 11 requests",
            batches.batch(batches.LARGE, heads=(4, 2, 8)),
            look_at="the loop: over all requests, however many there are",
        ),
    ),
    properties=(
        Property("batch mates do not matter", batches.alone),
        Property("a prompt in chunks, or in one piece", batches.chunked),
    ),
    rules=Rules(max_elements=batches.largest_scores, on="a large step of 11 requests"),
    package="minivllm.attention.reference.ReferenceAttention",
    hints=(
        "Which rows of q and which rows of k belong to request i? They don't begin at the same "
        "place: query_start_loc counts rows of q only.",
        "Walk through the requests: cut out rows and keys, make the request's own mask, attend, "
        "write the result to its rows. Begin with zeros, for the padding.",
        "query_start_loc [0, 1, 3], seq_lens [2, 3]: request 1 has the rows 1-2 of q and the rows "
        "2-4 of k.",
    ),
    look_at="which rows of k and v each request gets: they end at the running sum of seq_lens",
    try_it="two decode steps: each must give the same as alone",
    seconds=20,  # naming a mistake tries many others
)
