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
from minivllm.course.errors import ExerciseNotStarted  # noqa: F401

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
    # SOLUTION BEGIN
    vocab_size = logits.shape[-1]
    descending, token_ids = logits.sort(dim=-1, descending=True)
    last = torch.where(top_ks > 0, top_ks.clamp(max=vocab_size), vocab_size) - 1
    kth_value = descending.gather(-1, last[:, None])
    descending = descending.masked_fill(descending < kth_value, float("-inf"))

    probs = descending.softmax(-1)
    sums_before = probs.cumsum(-1) - probs
    dropped = (sums_before >= top_ps[:, None]) & (top_ps[:, None] < 1)
    descending = descending.masked_fill(dropped, float("-inf"))
    return torch.empty_like(logits).scatter(-1, token_ids, descending)
    # SOLUTION END


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
    # SOLUTION BEGIN
    logits = logits.float()
    is_greedy = temperatures == 0
    scaled = logits / torch.where(is_greedy, 1.0, temperatures)[:, None]
    noise = -(-uniform(seeds, positions, logits.shape[-1]).log()).log()
    drawn = (keep(scaled) + noise).argmax(-1)
    return torch.where(is_greedy, logits.argmax(-1), drawn)
    # SOLUTION END


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
    # SOLUTION BEGIN
    token_ids = list(prompt)
    for _ in range(num_new_tokens):
        logits = model(token_ids, 0)
        token_ids.append(choose(logits[-1], len(token_ids)))
    return token_ids[len(prompt) :]
    # SOLUTION END


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
    # SOLUTION BEGIN
    num_new, out = q.shape[1], torch.empty_like(q)
    for row, start in enumerate(num_computed.tolist()):
        end = start + num_new
        k_cache[row, start:end] = k[row]
        v_cache[row, start:end] = v[row]
        read = (q[row], k_cache[row, :end], v_cache[row, :end])
        queries, keys, values = (x.transpose(0, 1) for x in read)
        visible = torch.ones(num_new, end, dtype=torch.bool, device=q.device).tril(start)
        mixed = F.scaled_dot_product_attention(queries, keys, values, visible, enable_gqa=True)
        out[row] = mixed.transpose(0, 1)
    return out
    # SOLUTION END


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
    # SOLUTION BEGIN
    logits = model(prompt, 0)
    new_tokens = [choose(logits[-1], len(prompt))]
    while len(new_tokens) < num_new_tokens:
        num_computed = len(prompt) + len(new_tokens) - 1
        logits = model(new_tokens[-1:], num_computed)
        new_tokens.append(choose(logits[-1], num_computed + 1))
    return new_tokens
    # SOLUTION END


def detective() -> tuple[int, str]:
    """The line of the notebook's listing that is wrong, and the letter of the reason."""
    # SOLUTION BEGIN
    return 9, "b"
    # SOLUTION END
