"""Chapter 04: mistakes in the naive loop; those with a cache are in `generation_decode.py`."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_APPEND = "token_ids.append(choose(logits[-1], len(token_ids)))"
_RETURN = "token_ids[len(prompt) :]"
_COPY = "token_ids = list(prompt)"
_LOOP = "for _ in range(num_new_tokens):"
_ROW = "which row of the logits: the last one is about the token after the text"
_TRY_ROW = "print len(token_ids) and logits.shape: the last row is number len(token_ids) - 1"
_POSITION = "the position given to choose: how many tokens stand before the new one"
_TRY_POSITION = "3 tokens in, 2 out: the new tokens stand at the positions 3 and 4"
_RESULT = "what is returned: the new tokens, num_new_tokens of them"
_TRY_RESULT = "3 tokens in, 2 out: print what is returned; it has 2 tokens"
_GROWS = "what each run gets: the text with all tokens chosen so far"
_COPIED = "the list that grows: append and += change it, list(prompt) is a copy"
_TRY_COPY = "print prompt after the loop: it is as it was"
_INTS = "lists of ints: choose gives ints; no tensor is needed around them"
_TRY_INTS = "print type(token_ids) and type(token_ids[-1]): list and int"

LOOPS: list[Mutant] = [
    edit(
        "generate_naive.first_row",
        "choosing from row 0, which is about the second token",
        (_APPEND, "token_ids.append(choose(logits[0], len(token_ids)))"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_naive.row_before",
        "choosing from the row before the last",
        ("logits[-1]", "logits[max(0, len(token_ids) - 2)]"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_naive.prompt_row",
        "choosing from the row of the prompt's last token each time",
        ("logits[-1]", "logits[len(prompt) - 1]"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_naive.all_rows",
        "all rows of the logits given to choose",
        ("choose(logits[-1],", "choose(logits,"),
        look_at=_ROW,
        try_it=_TRY_ROW,
    ),
    edit(
        "generate_naive.argmax",
        "the largest logit, whatever choose says",
        ("choose(logits[-1], len(token_ids))", "int(logits[-1].argmax())"),
        look_at="who chooses: choose(row, position), which may draw",
        try_it="a choose that always gives 5: the new tokens are 5, 5",
    ),
    edit(
        "generate_naive.position_plus_one",
        "choosing for the position after the new token's",
        ("logits[-1], len(token_ids)", "logits[-1], len(token_ids) + 1"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_naive.position_minus_one",
        "choosing for the position of the last token",
        ("logits[-1], len(token_ids)", "logits[-1], len(token_ids) - 1"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_naive.position_step",
        "choosing for the number of the step",
        ("logits[-1], len(token_ids)", "logits[-1], len(token_ids) - len(prompt)"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_naive.position_fixed",
        "choosing for the same position each time",
        ("logits[-1], len(token_ids)", "logits[-1], len(prompt)"),
        look_at=_POSITION,
        try_it=_TRY_POSITION,
    ),
    edit(
        "generate_naive.prompt_only",
        "running the prompt alone each time",
        ("= model(token_ids, 0)", "= model(prompt, 0)"),
        look_at=_GROWS,
    ),
    edit(
        "generate_naive.no_growth",
        "the text never grows: the same run, and the same position, each time",
        (_COPY, "token_ids, new = list(prompt), []"),
        (_APPEND, "new.append(choose(logits[-1], len(token_ids)))"),
        (_RETURN, "new"),
        look_at=_GROWS,
    ),
    edit(
        "generate_naive.last_only",
        "running the last token alone, without what came before",
        ("= model(token_ids, 0)", "= model(token_ids[-1:], 0)"),
        look_at=_GROWS,
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
        (_RETURN, "token_ids"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_naive.one_less",
        "one new token less",
        ("range(num_new_tokens)", "range(num_new_tokens - 1)"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_naive.one_more",
        "one new token more",
        ("range(num_new_tokens)", "range(num_new_tokens + 1)"),
        look_at=_RESULT,
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_naive.counts_prompt",
        "a loop that ends when prompt and new tokens together are num_new_tokens",
        (_LOOP, "while len(token_ids) < num_new_tokens:"),
        look_at="when the loop ends: after num_new_tokens, without the prompt's",
        try_it=_TRY_RESULT,
    ),
    edit(
        "generate_naive.early_stop",
        "nothing after a token that the text has already",
        (_APPEND, f"{_APPEND}\n        if token_ids[-1] in token_ids[:-1]: break"),
        look_at="when the loop ends: after num_new_tokens, whatever was chosen",
        try_it="a choose that always gives 5: the new tokens are 5, 5",
    ),
    edit(
        "generate_naive.one_run_more",
        "one run whose token is thrown away",
        ("range(num_new_tokens)", "range(num_new_tokens + 1)"),
        (_RETURN, "token_ids[len(prompt) : -1]"),
        look_at="the last new token: no run is needed after it",
    ),
    edit(
        "generate_naive.inplace",
        "the right tokens, appended to the caller's prompt",
        (_COPY, "token_ids, num_prompt = prompt, len(prompt)"),
        (_RETURN, "token_ids[num_prompt:]"),
        look_at=_COPIED,
        try_it=_TRY_COPY,
    ),
    edit(
        "generate_naive.empty",
        "nothing, as the prompt itself has grown",
        (_COPY, "token_ids = prompt"),
        look_at=_COPIED,
        try_it=_TRY_COPY,
    ),
    edit(
        "generate_naive.tensor_text",
        "a tensor of token ids given to the model",
        ("= model(token_ids, 0)", "= model(torch.tensor(token_ids), 0)"),
        look_at=_INTS,
        try_it=_TRY_INTS,
    ),
    edit(
        "generate_naive.tensor_result",
        "a tensor of the new tokens",
        (_RETURN, "torch.tensor(token_ids[len(prompt) :])"),
        look_at=_INTS,
        try_it=_TRY_INTS,
    ),
    edit(
        "generate_naive.tensors_in_list",
        "a list of tensors, each with one token",
        (_COPY, "token_ids, new = list(prompt), []"),
        (_APPEND, f"{_APPEND}; new.append(torch.tensor(token_ids[-1]))"),
        (_RETURN, "new"),
        look_at=_INTS,
        try_it=_TRY_INTS,
    ),
]
