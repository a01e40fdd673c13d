"""The data of chapter 00's grids: by hand, and against what the real engine records."""

from __future__ import annotations

import pytest

from minivllm import LLM, SamplingParams
from minivllm.course.frames.ch00 import Work, frames, in_words, recorded
from minivllm.trace import RequestAdded, RequestScheduled, StepFailed


def tokens(steps):
    return [{work.request: work.num_tokens for work in step} for step in steps]


def test_one_request_is_its_prompt_and_then_one_token_a_step():
    steps = frames([5], num_new_tokens=3, token_budget=8, at_once=1)
    assert steps == [[Work(1, 5, True)], [Work(1, 1, False)], [Work(1, 1, False)]]


def test_a_prompt_that_does_not_fit_is_cut_and_the_first_request_does_not_wait():
    steps = frames([2, 7], num_new_tokens=3, token_budget=4, at_once=2)
    assert tokens(steps) == [{1: 2, 2: 2}, {1: 1, 2: 3}, {1: 1, 2: 2}, {2: 1}, {2: 1}]
    assert [work.is_prefill for work in steps[2]] == [False, True]


def test_a_request_whose_turn_it_is_waits_if_the_budget_is_spent():
    steps = frames([1, 1, 1], num_new_tokens=2, token_budget=2, at_once=3)
    assert tokens(steps) == [{1: 1, 2: 1}, {1: 1, 2: 1}, {3: 1}, {3: 1}]


def test_a_seat_is_taken_again_in_the_step_after_a_request_ends():
    steps = frames([3, 1, 1], num_new_tokens=1, token_budget=8, at_once=2)
    assert tokens(steps) == [{1: 3, 2: 1}, {3: 1}]


@pytest.mark.parametrize("at_once", [1, 2, 4])
@pytest.mark.parametrize("token_budget", [1, 3, 6, 24, 64])
def test_it_is_what_the_engine_does(token_budget, at_once):
    lengths = [4, 35, 6, 12]
    with LLM(
        "dummy-qwen3",
        load_format="dummy",
        device="cpu",
        max_model_len=64,
        max_num_batched_tokens=token_budget,
        max_num_seqs=at_once,
        enable_prefix_caching=False,
        trace=True,
    ) as llm:
        prompts = [[7] * length for length in lengths]
        params = SamplingParams(temperature=0, max_tokens=8, ignore_eos=True)
        llm.generate(prompts, params, use_tqdm=False)
        events = list(llm.trace.events)
    assert recorded(events) == frames(lengths, 8, token_budget, at_once)


def test_a_trace_is_read_by_the_order_in_which_requests_came():
    events = [
        RequestAdded(step=3, request_id="b", num_prompt_tokens=4),
        RequestAdded(step=3, request_id="a", num_prompt_tokens=2),
        RequestScheduled(
            step=4, request_id="b", num_tokens=4, num_computed_tokens=0, num_known_tokens=4
        ),
        StepFailed(step=5),
        RequestScheduled(
            step=6, request_id="a", num_tokens=1, num_computed_tokens=2, num_known_tokens=3
        ),
    ]
    assert recorded(events) == [[Work(1, 4, True)], [Work(2, 1, False)]]


def test_words_tell_chunks_and_single_tokens():
    assert in_words(frames([2, 5], num_new_tokens=2, token_budget=4, at_once=2)) == (
        "A grid of 2 requests and 3 steps. "
        "Request 1: prompt tokens 2 in step 1; one token a step, steps 2 to 2. "
        "Request 2: prompt tokens 2 in step 1, 3 in step 2; one token a step, steps 3 to 3."
    )
