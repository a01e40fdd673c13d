"""Chapter 04: the two loops, on a model that notices every token at a wrong place.

The model has no weights. What it says after a history is a function of the history alone, read
from its slots as a real model reads keys and values: a token at a wrong position leaves a hole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from minivllm.counter_random import uniform
from minivllm.course.declare import Exercise, Output, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments, Case

VOCAB_SIZE = 23
_LIST_OF_INTS = "a list of ints"


def kind_of(value: Any) -> str:
    """What a value is, in words, and what it holds if it is a list."""
    if isinstance(value, list) and value:
        odd = next((x for x in value if type(x) is not int), value[0])
        return f"a list of {type(odd).__name__.lower()}s"
    name = type(value).__name__.lower()
    return _LIST_OF_INTS if name == "list" else f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


class HistoryModel:
    """Logits that depend on every token so far and its position; counts what it computes."""

    def __init__(self) -> None:
        self._slots: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []  # how many tokens, after how many computed ones

    def __call__(self, token_ids: Sequence[int], num_computed: int) -> Tensor:
        """Logits `[len(token_ids), VOCAB_SIZE]`; NaN where the history has a hole."""
        if (kind := kind_of(token_ids)) != _LIST_OF_INTS:
            raise TypeError(f"model wants {_LIST_OF_INTS}, not {kind}")
        if (kind := kind_of(num_computed)) != "an int":
            raise TypeError(f"model wants an int as num_computed, not {kind}")
        if not token_ids:
            raise ValueError("model wants at least one token")
        rows = []
        for position, token_id in enumerate(token_ids, start=num_computed):
            self._slots[position] = token_id
            history = [self._slots.get(i) for i in range(position + 1)]
            rows.append(_logits(history))
        self.runs.append((len(rows), num_computed))
        return torch.stack(rows)

    def __repr__(self) -> str:
        return "a model"


def _logits(history: list[int | None]) -> Tensor:
    if None in history:
        return torch.full((VOCAB_SIZE,), float("nan"))
    fingerprint = 1
    for token_id in history:
        assert token_id is not None, "checked above"
        fingerprint = (fingerprint * 1_000_003 + token_id + 1) % (1 << 31)
    return (
        8 * uniform(torch.tensor([fingerprint]), torch.zeros(1, dtype=torch.int64), VOCAB_SIZE)[0]
    )


class Draw:
    """A draw of its own for each position: whoever gives the wrong one gets another token."""

    def __call__(self, row: Tensor, position: int) -> int:
        """The token that stands at `position`."""
        if row.shape != (VOCAB_SIZE,):
            raise ValueError(f"choose wants one row of logits [vocab_size], not {list(row.shape)}")
        if (kind := kind_of(position)) != "an int":
            raise TypeError(f"choose wants an int as position, not {kind}")
        place = torch.tensor([position])
        return int((row + 8 * uniform(torch.zeros_like(place), place, VOCAB_SIZE)[0]).argmax())

    def __repr__(self) -> str:
        return "choose"


def generation(num_prompt_tokens: int, num_new_tokens: int) -> Callable[..., Arguments]:
    """The arguments of a loop over a random prompt."""

    def made(gen: torch.Generator) -> Arguments:
        prompt = torch.randint(VOCAB_SIZE, (num_prompt_tokens,), generator=gen).tolist()
        return {
            "model": HistoryModel(),
            "choose": Draw(),
            "prompt": prompt,
            "num_new_tokens": num_new_tokens,
        }

    return made


def run_loop(
    loop: Callable[..., Any], *arguments: Any
) -> tuple[str, tuple[int, ...], int, tuple[tuple[int, int], ...]] | None:
    """What a loop gives back, and what it has asked of the model; `None` if it gives nothing."""
    model = arguments[0]
    tokens = loop(*arguments)
    if tokens is None:
        return None
    num_computed = sum(num_tokens for num_tokens, _ in model.runs)
    new_tokens = tuple(int(token_id) for token_id in tokens)
    return kind_of(tokens), new_tokens, num_computed, tuple(model.runs)


def naive_loop(model: Any, choose: Any, prompt: list[int], num_new_tokens: int) -> list[int]:
    """The oracle of `generate_naive`."""
    token_ids = prompt.copy()
    while len(token_ids) < len(prompt) + num_new_tokens:
        token_ids += [choose(model(token_ids, 0)[len(token_ids) - 1], len(token_ids))]
    return token_ids[len(prompt) :]


def cached_loop(model: Any, choose: Any, prompt: list[int], num_new_tokens: int) -> list[int]:
    """The oracle of `generate_cached`."""
    token_ids, num_computed = prompt.copy(), 0
    for _ in range(num_new_tokens):
        row = model(token_ids[num_computed:], num_computed)[-1]
        num_computed = len(token_ids)
        token_ids.append(choose(row, num_computed))
    return token_ids[len(prompt) :]


_LOOP_OUTPUTS = (
    Output("kind of result"),
    Output("new tokens"),
    Output("tokens computed"),
    Output("runs (tokens, computed before)"),
)
_SHORT_PROMPT = {"prompt": [5, 6, 7], "num_new_tokens": 2}
_LOOP_CASES = (
    sampled("prompts of 7 tokens", generation(7, 6)),
    adversarial("a prompt of one token", generation(1, 5)),
    adversarial("one new token", generation(4, 1)),
    adversarial("a long text", generation(17, 25)),
)


def _loop(loop: Callable[..., list[int]]) -> Callable[..., Any]:
    return lambda *arguments: run_loop(loop, *arguments)


def _short(*runs: tuple[int, int]) -> Case:
    tokens = naive_loop(HistoryModel(), Draw(), [5, 6, 7], 2)
    num_computed = sum(num_tokens for num_tokens, _ in runs)
    return by_hand(
        f"3 tokens in, 2 out: {num_computed} computed",
        lambda: {"model": HistoryModel(), "choose": Draw()} | _SHORT_PROMPT,
        expected=(_LIST_OF_INTS, tuple(tokens), num_computed, runs),
    )


generate_naive = Exercise(
    id="ch04.generate_naive",
    outputs=_LOOP_OUTPUTS,
    oracle=_loop(naive_loop),
    run=run_loop,
    cases=(_short((3, 0), (4, 0)), *_LOOP_CASES),
    hints=(
        "Which row of the logits speaks about the token that does not exist yet? What has to be "
        "longer by one before the model runs again?",
        "A copy of the prompt that grows: run, choose from the last row, append. The position of "
        "a new token is the number of tokens before it.",
        "Prompt of 3, two new tokens: the model gets 3 tokens, then 4. The new tokens stand at the "
        "positions 3 and 4. What you return has 2 tokens.",
    ),
    look_at="which row is chosen from, for which position, what each run gets, when the loop ends",
    try_it="print len(token_ids) in each run: for 3 tokens in and 2 out it is 3, then 4",
)

generate_cached = Exercise(
    id="ch04.generate_cached",
    outputs=_LOOP_OUTPUTS,
    oracle=_loop(cached_loop),
    run=run_loop,
    cases=(_short((3, 0), (1, 3)), *_LOOP_CASES),
    hints=(
        "After the prefill every token of the prompt is in the cache. Which token is not, when "
        "the second run begins? At which position does it stand?",
        "One run before the loop, for the prompt. In the loop, a list of one token and the number "
        "of tokens before it. The new token of a run stands one further.",
        "Prompt of 3, two new tokens: the runs are (3 tokens, 0 computed) and (1 token, 3 "
        "computed). The second new token is never computed.",
    ),
    look_at="what each run gets, how many tokens are in the cache then, and choose's position",
    try_it="print the arguments of each run: for 3 tokens in and 2 out, 3 tokens, 0; 1 token, 3",
)
