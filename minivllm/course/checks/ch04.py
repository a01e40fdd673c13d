"""Chapter 04: filters, the draw, the naive loop, a dense KV cache, the loop that uses it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.checks import (
    generation_cache,
    generation_draw,
    generation_filters,
    generation_loops,
)
from minivllm.course.declare import Detective

filter_logits = generation_filters.filter_logits
sample = generation_draw.sample
generate_naive = generation_loops.generate_naive
cached_attention = generation_cache.cached_attention
generate_cached = generation_loops.generate_cached


def first_tokens(model: Callable[[Tensor], Tensor], prompts: list[list[int]]) -> list[int]:
    """The first new token of each prompt; all prompts are computed in one run, the prefill."""
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    padded = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.int64)
    for row, prompt in enumerate(prompts):
        padded[row, : len(prompt)] = torch.tensor(prompt)
    with torch.inference_mode():
        logits = model(padded)  # [num_rows, longest, vocab_size]
    last = logits[:, -1]
    return [int(token_id) for token_id in last.argmax(-1)]


def _shows_padding(function: Callable[..., Any]) -> bool:
    """Whether a short prompt gets another first token beside a long one than alone."""

    def running_sum(token_ids: Tensor) -> Tensor:  # the next token is the sum of all so far
        return F.one_hot(token_ids.cumsum(-1) % 50, 50)

    def last_again(token_ids: Tensor) -> Tensor:
        return F.one_hot(token_ids, 50)

    prompts = [[7, 9], [3, 4, 5, 6, 11], [8]]
    return any(
        function(model, prompts) != [function(model, [prompt])[0] for prompt in prompts]
        for model in (running_sum, last_again)
    )


detective = Detective(
    id="ch04.detective",
    listing=first_tokens,
    culprit="last = logits[:, -1]",
    fix="    last = logits[torch.arange(len(prompts)), lengths - 1]",
    shows_bug=_shows_padding,
    reasons={
        "a": "short prompts attend to the padding, which is token 0",
        "b": "short prompts are read where their padding ends, not where they end",
        "c": "the largest logit is looked for along the wrong axis",
        "d": "all rows are as long as the longest, so positions are too large",
    },
    right="b",
    explain={
        "a": "The padding comes after the prompt, and a causal model sees only what comes before.",
        "c": "The last axis is the vocabulary, and that is where argmax looks.",
        "d": "Padding stands behind the prompt, so every real token has its own position.",
    },
    lines={
        "lengths = ": "the length of each prompt; is it used where it matters?",
        "torch.zeros": "what pads a row does not matter: no real token sees it",
        "padded[row": "each prompt stands at the beginning of its row, as it should",
        "logits = model": "one run for all rows; each row sees only itself",
        "argmax": "the vocabulary is the last axis of what is left",
        "for row": "each prompt goes to its own row",
        "inference_mode": "it only says that no gradients are needed",
        "def ": "the signature is right",
        '"""': "the docstring is right",
    },
    hints=(
        "The longest prompt is always right, and every prompt is right alone. What is different "
        "for a short prompt beside a long one?",
        "Write down the rows of the batch for prompts of 2 and 5 tokens. Which column holds the "
        "last real token of each?",
        "A prompt of 2 in a row of 5 has its last token in column 1. Which column is read?",
    ),
)
