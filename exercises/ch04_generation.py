"""Chapter 04, generation: choosing tokens, and keeping what was computed for earlier ones.

In `filter_logits` and `sample` a row of logits belongs to a request, in the two loops to a token of
the text. `keep` and `choose` come in as arguments, so that no function waits for another one.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.counter_random import uniform
from minivllm.course.errors import ExerciseNotStarted

Model = Callable[[list[int], int], Tensor]
Choose = Callable[[Tensor, int], int]


def filter_logits(logits: Tensor, top_ks: Tensor, top_ps: Tensor) -> Tensor:
    """The logits with -inf for each token that top-k, or after it top-p, rules out.

    Top-k keeps the k most likely tokens, and all that tie with the k-th. Top-p looks at the
    probabilities of the tokens that top-k has left. It keeps the smallest set whose sum reaches p:
    the most likely token is always in it, and so is the one with which the sum reaches p. Of tokens
    that are equally likely, any may be in it.

    Args:
        logits: `[num_rows, vocab_size]`, float32, at least one row; not changed. Some may be -inf
            already.
        top_ks: `[num_rows]`, one k for each row; 0 keeps all, and so does a k above the vocabulary.
        top_ps: `[num_rows]`, one p for each row; 1 keeps all, however unlikely.
    """
    raise ExerciseNotStarted("ch04.filter_logits")


def sample(
    logits: Tensor,
    temperatures: Tensor,
    keep: Callable[[Tensor], Tensor],
    seeds: Tensor,
    positions: Tensor,
) -> Tensor:
    """The next token of each row, int64 `[num_rows]`.

    A row with temperature 0 is greedy: its largest logit, the lowest id among equals. Every other
    row is divided by its temperature, filtered by `keep`, and draws: the token with the largest sum
    of logit and noise `-log(-log(u))`. All of it in float32, whatever the dtype of the logits.

    Args:
        logits: `[num_rows, vocab_size]`, at least one row; not changed.
        temperatures: `[num_rows]`, each 0 or at least 0.01.
        keep: Gives divided logits back with -inf for what must not be drawn; wants all rows, in
            float32, and finite: no row may have been divided by 0.
        seeds: `[num_rows]`.
        positions: `[num_rows]`: where the new token will stand in its request. The numbers `u`
            are `uniform(seeds, positions, vocab_size)`, the same whoever else is in the batch.
    """
    raise ExerciseNotStarted("ch04.sample")


def generate_naive(
    model: Model, choose: Choose, prompt: list[int], num_new_tokens: int
) -> list[int]:
    """The new tokens, without a cache: each run of the model gets the whole text so far.

    Args:
        model: `model(token_ids, 0)` computes these tokens, from position 0 on, and gives logits
            `[len(token_ids), vocab_size]`: row i is about the token after `token_ids[i]`. It takes
            a list of ints, as `prompt` is one.
        choose: `choose(row, position)` gives the token that will stand at `position`, an int;
            `row` is `[vocab_size]`.
        prompt: At least one token; not changed.
        num_new_tokens: At least 1.
    """
    raise ExerciseNotStarted("ch04.generate_naive")


def cached_attention(
    q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, num_computed: Tensor
) -> Tensor:
    """Store the new keys and values, then attend: the output, in the shape and dtype of `q`.

    A row is one request. Its first new token has position `num_computed[row]`, and that is also
    its slot in the cache. Each token sees its own row up to and including itself.

    Args:
        q: `[num_rows, num_new, num_heads, head_dim]`, already turned by RoPE.
        k: `[num_rows, num_new, num_kv_heads, head_dim]`, already turned. Query heads
            `0 .. num_heads / num_kv_heads - 1` use KV head 0, and so on.
        v: Like `k`.
        k_cache: `[num_rows, max_len, num_kv_heads, head_dim]`, written in place. Slots that no
            token of the row was written to may hold anything, NaN too: do not read them.
        v_cache: Like `k_cache`.
        num_computed: `[num_rows]`: how many tokens of each row are in the cache already.
    """
    raise ExerciseNotStarted("ch04.cached_attention")


def generate_cached(
    model: Model, choose: Choose, prompt: list[int], num_new_tokens: int
) -> list[int]:
    """The same tokens as `generate_naive`, each token computed once.

    First comes one run for the whole prompt, the prefill; then one run for each new token but the
    last, the decode.

    Args:
        model: `model(token_ids, num_computed)` computes these tokens, the first of them at position
            `num_computed`. It reads keys and values of all positions before from its cache, and
            adds those of `token_ids`, a list of ints. The logits are those of `token_ids` only.
        choose: As in `generate_naive`.
        prompt: At least one token; not changed.
        num_new_tokens: At least 1.
    """
    raise ExerciseNotStarted("ch04.generate_cached")


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    raise ExerciseNotStarted("ch04.detective")
