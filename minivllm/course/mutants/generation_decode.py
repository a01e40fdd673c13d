"""Chapter 04: mistakes in the loop with a cache."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_PREFILL = "logits = model(prompt, 0)\n"
_FIRST = "new_tokens = [choose(logits[-1], len(prompt))]"
_RUN = "model(new_tokens[-1:], num_computed)"
_NEXT = "new_tokens.append(choose(logits[-1], num_computed + 1))"
_LOOP = "len(new_tokens) < num"
_RETURN = "return new_tokens"
_COMPUTED = "num_computed in the decode runs: the tokens that were computed before this run"
_ONE_TOKEN = "what a decode run gets: the one token that is not in the cache yet"
_ONE_PREFILL = "the prefill: one run for the whole prompt, whose last row gives the first token"
_ROW = "the row that is chosen from: logits[-1], about the token after those computed"
_TRY_ROW = "print logits.shape after the prefill of 7 tokens: the last row is number 6"
_POSITION = "the position given to choose: one after the token that was just computed"
_TRY_POSITION = "3 tokens in, 2 out: the new tokens stand at the positions 3 and 4"
_RESULT = "what is returned: the new tokens, num_new_tokens of them"
_TRY_RESULT = "3 tokens in, 2 out: print what is returned; it has 2 tokens"
_COPIED = "the list that grows: append and += change it, list(prompt) is a copy"
_TRY_COPY = "print prompt after the loop: it is as it was"
_INTS = "lists of ints: a run gets a list, also of one token; choose gives an int"
_TRY_INTS = "print what the decode run gets: [5], not 5, and not tensor([5])"

DECODE: list[Mutant] = [
    edit(
        "generate_cached.no_cache",
        "the right tokens, but the whole text is computed each time",
        (_RUN, "model(prompt + new_tokens, 0)"),
        look_at=_ONE_TOKEN,
    ),
    edit(
        "generate_cached.position_plus_one",
        "a decode run one position too far, so that the cache has a hole",
        (_RUN, "model(new_tokens[-1:], num_computed + 1)"),
        look_at=_COMPUTED,
    ),
    edit(
        "generate_cached.position_minus_one",
        "a decode run one position too early, over the last token of the prompt",
        (_RUN, "model(new_tokens[-1:], num_computed - 1)"),
        look_at=_COMPUTED,
    ),
    edit(
        "generate_cached.overwrites",
        "decode runs at position 0, over the first token of the cache",
        (_RUN, "model(new_tokens[-1:], 0)"),
        look_at=_COMPUTED,
    ),
    edit(
        "generate_cached.stands_still",
        "every decode run at the end of the prompt",
        (_RUN, "model(new_tokens[-1:], len(prompt))"),
        look_at=_COMPUTED,
    ),
    edit(
        "generate_cached.step_as_position",
        "decode runs at the number of the step",
        (_RUN, "model(new_tokens[-1:], len(new_tokens))"),
        look_at=_COMPUTED,
    ),
    edit(
        "generate_cached.all_new",
        "all new tokens in each decode run",
        (_RUN, "model(new_tokens, len(prompt))"),
        look_at="what a decode run gets: one token; the earlier ones are in the cache",
    ),
    edit(
        "generate_cached.repeats_prompt_end",
        "the prompt's last token, once more, as the first decode run",
        (_RUN, "model((prompt[-1:] + new_tokens)[-2:-1], num_computed)"),
        look_at=_ONE_TOKEN,
    ),
    edit(
        "generate_cached.last_two",
        "the last prompt token computed twice",
        (_PREFILL, "logits = model(prompt, 0); logits = model(prompt[-1:], len(prompt) - 1)\n"),
        look_at=_ONE_PREFILL,
    ),
    edit(
        "generate_cached.one_by_one",
        "a prefill of one token at a time",
        (_PREFILL, "logits = [model([t], i) for i, t in enumerate(prompt)][-1]\n"),
        look_at=_ONE_PREFILL,
    ),
    edit(
        "generate_cached.in_chunks",
        "a prefill in chunks of 4 tokens",
        (
            _PREFILL,
            "logits = [model(prompt[i : i + 4], i) for i in range(0, len(prompt), 4)][-1]\n",
        ),
        look_at=_ONE_PREFILL,
    ),
    edit(
        "generate_cached.prefill_but_last",
        "a prefill without the prompt's last token, which is computed alone",
        (
            _PREFILL,
            "logits = [model(part, i) for part, i in ((prompt[:-1], 0), (prompt[-1:], "
            "len(prompt) - 1)) if part][-1]\n",
        ),
        look_at=_ONE_PREFILL,
    ),
    edit(
        "generate_cached.prefill_first_row",
        "the first new token chosen from row 0 of the prefill",
        (_FIRST, "new_tokens = [choose(logits[0], len(prompt))]"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_cached.all_rows",
        "all rows of the prefill given to choose",
        (_FIRST, "new_tokens = [choose(logits, len(prompt))]"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_cached.argmax",
        "the largest logit, whatever choose says",
        (_FIRST, "new_tokens = [int(logits[-1].argmax())]"),
        (_NEXT, "new_tokens.append(int(logits[-1].argmax()))"),
        look_at="who chooses: choose(row, position), which may draw",
        try_it="a choose that always gives 5: the new tokens are 5, 5",
    ),
    edit(
        "generate_cached.loses_first",
        "new tokens without the one from the prefill",
        (_RETURN, "return new_tokens[1:]"),
        look_at="the prefill: it gives the first new token",
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_cached.one_run_more",
        "one run after the last new token",
        (
            _RETURN,
            "model(new_tokens[-1:], len(prompt) + len(new_tokens) - 1)\n    return new_tokens",
        ),
        look_at="the last new token: no run is needed after it",
    ),
    edit(
        "generate_cached.one_more",
        "one new token more",
        (_LOOP, "len(new_tokens) <= num"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_cached.one_less",
        "one new token less",
        (_LOOP, "len(new_tokens) < -1 + num"),
        (_RETURN, "return new_tokens[: num_new_tokens - 1]"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_cached.with_prompt",
        "the prompt and the new tokens together",
        (_RETURN, "return prompt + new_tokens"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_cached.choose_plus_one",
        "choosing for one position too far in decode",
        (_NEXT, "new_tokens.append(choose(logits[-1], num_computed + 2))"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_cached.choose_same",
        "choosing for the position of the token that was just computed",
        (_NEXT, "new_tokens.append(choose(logits[-1], num_computed))"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_cached.choose_step",
        "choosing for the number of the step",
        (_NEXT, "new_tokens.append(choose(logits[-1], len(new_tokens)))"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_cached.inplace",
        "the right tokens, appended to the caller's prompt",
        (_RETURN, "prompt += new_tokens\n    return new_tokens"),
        look_at=_COPIED,
        try_it=_TRY_COPY,
    ),
    edit(
        "generate_cached.bare_token",
        "a token given to the model, where a list of one token is wanted",
        (_RUN, "model(new_tokens[-1], num_computed)"),
        look_at=_INTS,
        try_it=_TRY_INTS,
    ),
    edit(
        "generate_cached.tensor_token",
        "a tensor of one token given to the model",
        (_RUN, "model(torch.tensor(new_tokens[-1:]), num_computed)"),
        look_at=_INTS,
        try_it=_TRY_INTS,
    ),
    edit(
        "generate_cached.tensor_result",
        "a tensor of the new tokens",
        (_RETURN, "return torch.tensor(new_tokens)"),
        look_at=_INTS,
        try_it="print what is returned: [5, 8], not tensor([5, 8]), and no tuple",
    ),
    edit(
        "generate_cached.tuple_result",
        "a tuple of the new tokens",
        (_RETURN, "return tuple(new_tokens)"),
        look_at="what is returned: a list of ints",
        try_it="print what is returned: [5, 8], not (5, 8)",
    ),
]
