"""Chapter 04: mistakes in the naive loop and in the one with a cache."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_NAIVE_APPEND = "token_ids.append(choose(logits[-1], len(token_ids)))"
_NAIVE_RETURN = "token_ids[len(prompt) :]"
_PREFILL = "logits = model(prompt, 0)\n"
_FIRST = "new_tokens = [choose(logits[-1], len(prompt))]"
_DECODE = "model(new_tokens[-1:], num_computed)"
_NEXT = "new_tokens.append(choose(logits[-1], num_computed + 1))"

_NAIVE = [
    edit(
        "generate_naive.first_row",
        "choosing from row 0, which is about the second token",
        (_NAIVE_APPEND, "token_ids.append(choose(logits[0], len(token_ids)))"),
        look_at="which row of the logits: the last one is about the token after the text",
    ),
    edit(
        "generate_naive.row_before",
        "choosing from the row before the last",
        ("logits[-1]", "logits[max(0, len(token_ids) - 2)]"),
    ),
    edit(
        "generate_naive.position_minus_one",
        "choosing for the position of the last token",
        ("logits[-1], len(token_ids)", "logits[-1], len(token_ids) - 1"),
    ),
    edit(
        "generate_naive.position_step",
        "choosing for the number of the step",
        ("logits[-1], len(token_ids)", "logits[-1], len(token_ids) - len(prompt)"),
    ),
    edit(
        "generate_naive.position_fixed",
        "choosing for the same position each time",
        ("logits[-1], len(token_ids)", "logits[-1], len(prompt)"),
    ),
    edit(
        "generate_naive.prompt_only",
        "running the prompt alone each time",
        ("= model(token_ids, 0)", "= model(prompt, 0)"),
    ),
    edit(
        "generate_naive.last_only",
        "running the last token alone, without what came before",
        ("= model(token_ids, 0)", "= model(token_ids[-1:], 0)"),
    ),
    edit(
        "generate_naive.uses_cache",
        "the right tokens, but with a cache",
        (
            "= model(token_ids, 0)",
            "= model(token_ids[(n := (len(token_ids) - 1) * (len(token_ids) > len(prompt))) :], n)",
        ),
        look_at="what each run gets: without a cache it is the whole text",
    ),
    edit(
        "generate_naive.with_prompt",
        "the prompt and the new tokens together",
        (_NAIVE_RETURN, "token_ids"),
    ),
    edit(
        "generate_naive.one_less",
        "one new token less",
        ("range(num_new_tokens)", "range(num_new_tokens - 1)"),
    ),
    edit(
        "generate_naive.one_more",
        "one new token more",
        ("range(num_new_tokens)", "range(num_new_tokens + 1)"),
    ),
    edit(
        "generate_naive.one_run_more",
        "one run whose token is thrown away",
        ("range(num_new_tokens)", "range(num_new_tokens + 1)"),
        (_NAIVE_RETURN, "token_ids[len(prompt) : -1]"),
        look_at="the last new token: no run is needed after it",
    ),
    edit(
        "generate_naive.inplace",
        "the right tokens, appended to the caller's prompt",
        ("token_ids = list(prompt)", "token_ids, num_prompt = prompt, len(prompt)"),
        (_NAIVE_RETURN, "token_ids[num_prompt:]"),
        look_at="the list that grows: it must be a copy of the prompt",
    ),
    edit(
        "generate_naive.empty",
        "nothing, as the prompt itself has grown",
        ("token_ids = list(prompt)", "token_ids = prompt"),
        look_at="the list that grows: it must be a copy of the prompt",
    ),
    edit(
        "generate_naive.all_rows",
        "all rows of the logits given to choose",
        ("choose(logits[-1],", "choose(logits,"),
    ),
]

_CACHED = [
    edit(
        "generate_cached.no_cache",
        "the right tokens, but the whole text is computed each time",
        (_DECODE, "model(prompt + new_tokens, 0)"),
        look_at="what a decode run gets: the one token that is not in the cache yet",
    ),
    edit(
        "generate_cached.position_plus_one",
        "a decode run one position too far, so that the cache has a hole",
        (_DECODE, "model(new_tokens[-1:], num_computed + 1)"),
    ),
    edit(
        "generate_cached.position_minus_one",
        "a decode run one position too early, over the last token of the prompt",
        (_DECODE, "model(new_tokens[-1:], num_computed - 1)"),
    ),
    edit(
        "generate_cached.overwrites",
        "decode runs at position 0, over the first token of the cache",
        (_DECODE, "model(new_tokens[-1:], 0)"),
    ),
    edit(
        "generate_cached.stands_still",
        "every decode run at the end of the prompt",
        (_DECODE, "model(new_tokens[-1:], len(prompt))"),
    ),
    edit(
        "generate_cached.step_as_position",
        "decode runs at the number of the step",
        (_DECODE, "model(new_tokens[-1:], len(new_tokens))"),
    ),
    edit(
        "generate_cached.all_new",
        "all new tokens in each decode run",
        (_DECODE, "model(new_tokens, len(prompt))"),
        look_at="what a decode run gets: one token; the earlier ones are in the cache",
    ),
    edit(
        "generate_cached.last_two",
        "the last prompt token computed twice",
        (_PREFILL, "logits = model(prompt, 0); logits = model(prompt[-1:], len(prompt) - 1)\n"),
        look_at="the prefill: its last row is the one to choose from",
    ),
    edit(
        "generate_cached.one_by_one",
        "a prefill of one token at a time",
        (_PREFILL, "logits = [model([t], i) for i, t in enumerate(prompt)][-1]\n"),
        look_at="the prefill: one run for the whole prompt",
    ),
    edit(
        "generate_cached.prefill_first_row",
        "the first new token chosen from row 0 of the prefill",
        (_FIRST, "new_tokens = [choose(logits[0], len(prompt))]"),
    ),
    edit(
        "generate_cached.loses_first",
        "new tokens without the one from the prefill",
        ("return new_tokens", "return new_tokens[1:]"),
        look_at="the prefill: it gives the first new token",
    ),
    edit(
        "generate_cached.repeats_prompt_end",
        "the prompt's last token, once more, as the first decode run",
        (_DECODE, "model((prompt[-1:] + new_tokens)[-2:-1], num_computed)"),
    ),
    edit(
        "generate_cached.one_run_more",
        "one run after the last new token",
        (
            "return new_tokens",
            "model(new_tokens[-1:], len(prompt) + len(new_tokens) - 1)\n    return new_tokens",
        ),
        look_at="the last new token: no run is needed after it",
    ),
    edit(
        "generate_cached.one_more",
        "one new token more",
        ("len(new_tokens) < num", "len(new_tokens) <= num"),
    ),
    edit(
        "generate_cached.with_prompt",
        "the prompt and the new tokens together",
        ("return new_tokens", "return prompt + new_tokens"),
    ),
    edit(
        "generate_cached.choose_plus_one",
        "choosing for one position too far in decode",
        (_NEXT, "new_tokens.append(choose(logits[-1], num_computed + 2))"),
    ),
    edit(
        "generate_cached.choose_same",
        "choosing for the position of the token that was just computed",
        (_NEXT, "new_tokens.append(choose(logits[-1], num_computed))"),
    ),
    edit(
        "generate_cached.choose_step",
        "choosing for the number of the step",
        (_NEXT, "new_tokens.append(choose(logits[-1], len(new_tokens)))"),
    ),
    edit(
        "generate_cached.inplace",
        "the right tokens, appended to the caller's prompt",
        ("return new_tokens", "prompt += new_tokens\n    return new_tokens"),
        look_at="+= on a list: it changes the caller's prompt",
    ),
]

LOOPS: list[Mutant] = [*_NAIVE, *_CACHED]
