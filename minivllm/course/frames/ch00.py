"""Chapter 00: which tokens of which request are computed in each step, worked out or read off.

`frames` works out what the scheduler will do; `recorded` reads off what it did. Both give the same
plain data, so that one can be drawn, compared with, and told like the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from minivllm.trace import RequestAdded, RequestScheduled, TraceEvent


@dataclass(frozen=True)
class Work:
    """What one step computes of one request.

    Attributes:
        request: Its number, from 1 on.
        num_tokens: Tokens computed.
        is_prefill: Whether they belong to the prompt.
    """

    request: int
    num_tokens: int
    is_prefill: bool


Steps = list[list[Work]]


def frames(
    prompt_lengths: Sequence[int], num_new_tokens: int, token_budget: int, at_once: int
) -> Steps:
    """The steps in which requests that arrive together are computed.

    Args:
        prompt_lengths: Prompt tokens of each request, in order of arrival.
        num_new_tokens: How many each request generates.
        token_budget: Most tokens of a step.
        at_once: Most requests that run at the same time.
    """
    num_computed = [0] * len(prompt_lengths)
    num_known = list(prompt_lengths)
    steps: Steps = []
    while open_ones := [
        i for i, length in enumerate(prompt_lengths) if num_known[i] < length + num_new_tokens
    ]:
        step, left = [], token_budget
        for i in open_ones[:at_once]:
            num_tokens = min(num_known[i] - num_computed[i], left)
            if num_tokens == 0:  # the budget is spent
                break
            step.append(Work(i + 1, num_tokens, num_computed[i] < prompt_lengths[i]))
            left -= num_tokens
            num_computed[i] += num_tokens
            if num_computed[i] == num_known[i]:  # all it has is computed: the next token is known
                num_known[i] += 1
        steps.append(step)
    return steps


def recorded(events: Iterable[TraceEvent]) -> Steps:
    """The same, as an engine's trace recorded it."""
    numbers: dict[str, int] = {}
    prompt_lengths: dict[str, int] = {}
    steps: dict[int, list[Work]] = {}
    for event in events:
        if isinstance(event, RequestAdded):
            numbers[event.request_id] = len(numbers) + 1
            prompt_lengths[event.request_id] = event.num_prompt_tokens
        elif isinstance(event, RequestScheduled):
            is_prefill = event.num_computed_tokens < prompt_lengths[event.request_id]
            work = Work(numbers[event.request_id], event.num_tokens, is_prefill)
            steps.setdefault(event.step, []).append(work)
    return list(steps.values())


def in_words(steps: Steps) -> str:
    """What a grid of these steps shows, for those who can't see it."""
    requests = sorted({work.request for step in steps for work in step})
    told = [f"A grid of {len(requests)} requests and {len(steps)} steps."]
    for request in requests:
        places = [
            (number, work)
            for number, step in enumerate(steps, start=1)
            for work in step
            if work.request == request
        ]
        prompt = [
            f"{work.num_tokens} in step {number}" for number, work in places if work.is_prefill
        ]
        decode = [number for number, work in places if not work.is_prefill]
        text = f"Request {request}: prompt tokens {', '.join(prompt)}"
        if decode:
            text += f"; one token a step, steps {decode[0]} to {decode[-1]}"
        told.append(text + ".")
    return " ".join(told)
