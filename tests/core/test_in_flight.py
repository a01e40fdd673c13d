"""Plans that are made while the tokens of the step before are still being sampled."""

import pytest
from tiny_planner import TinyInFlightPlanner, TinyPlanner

from minivllm.core.request import RequestStatus
from minivllm.messages import PromptLogprobs, TokenLogprobs

LOGPROBS = TokenLogprobs([7], [-0.5], [1])
OF_PROMPT = PromptLogprobs(1, [LOGPROBS])


def test_a_token_is_planned_before_it_is_known():
    planner = TinyInFlightPlanner()
    request = planner.add("a", 3)
    assert planner.step() == {"a": 3}
    assert planner.told() == []
    assert planner.step() == {"a": 1}
    assert planner.told() == [("a", (7,))]
    assert (request.num_tokens, request.num_computed_tokens, request.num_in_flight) == (4, 4, 1)


def test_a_chunk_of_a_prompt_puts_no_token_in_flight():
    planner = TinyInFlightPlanner(max_num_batched_tokens=2)
    request = planner.add("a", 3)
    assert planner.step() == {"a": 2}
    assert request.num_in_flight == 0
    assert planner.step() == {"a": 1}
    assert (request.num_in_flight, planner.told()) == (1, [])


def test_plans_are_those_of_the_plain_scheduler_one_step_ahead():
    plain, ahead = (
        kind(12, max_num_batched_tokens=6) for kind in (TinyPlanner, TinyInFlightPlanner)
    )
    for planner in (plain, ahead):
        planner.add("a", 3, ignore_eos=True, max_tokens=9)
        planner.add("b", 14, ignore_eos=True, max_tokens=9)
    steps = [(plain.step(), ahead.step()) for _ in range(9)]
    assert [first == second for first, second in steps] == [True] * 9


@pytest.mark.parametrize("max_tokens", [1, 2, 5])
def test_an_end_by_length_costs_no_computation(max_tokens):
    planner = TinyInFlightPlanner()
    request = planner.add("a", 3, max_tokens=max_tokens)
    computed = [planner.step().get("a", 0) for _ in range(max_tokens + 1)]
    assert computed == [3] + [1] * (max_tokens - 1) + [0]
    assert request.finish_reason == "length"
    assert request.output_token_ids == [7] * max_tokens
    assert planner.pool.num_free_blocks == 16
    assert planner.plan().finished_request_ids == ["a"]


def test_nothing_is_computed_beyond_the_context_length():
    planner = TinyInFlightPlanner(max_model_len=6)
    request = planner.add("a", 3, max_tokens=None)
    assert [planner.step().get("a", 0) for _ in range(4)] == [3, 1, 1, 0]
    assert (request.num_tokens, request.finish_reason) == (6, "length")


@pytest.mark.parametrize("end", [{"eos": frozenset({7})}, {"stop_token_ids": [7]}])
def test_an_end_by_token_costs_one_token_that_nobody_sees(end):
    planner = TinyInFlightPlanner()
    request = planner.add("a", 3, **end)
    assert [planner.step(), planner.step()] == [{"a": 3}, {"a": 1}]
    assert planner.outputs[0].finish_reason == "stop"
    assert planner.pool.num_free_blocks == 16

    assert planner.step() == {}
    assert planner.told() == []
    assert (request.output_token_ids, request.num_in_flight) == ([7], 0)


def test_a_request_whose_last_token_is_in_flight_takes_no_budget():
    planner = TinyInFlightPlanner(max_num_batched_tokens=4)
    planner.add("a", 1, max_tokens=2)
    planner.add("b", 9)
    assert planner.step() == {"a": 1, "b": 3}
    assert planner.step() == {"a": 1, "b": 3}
    assert planner.step() == {"b": 3}
    assert planner.told() == [("a", (7,))]


def test_a_place_is_free_one_step_after_the_last_token_was_planned():
    planner = TinyInFlightPlanner(max_num_seqs=1)
    planner.add("a", 2, max_tokens=1)
    planner.add("b", 2, max_tokens=1)
    assert [planner.step() for _ in range(4)] == [{"a": 2}, {}, {"b": 2}, {}]


def test_abort_throws_the_token_in_flight_away():
    planner = TinyInFlightPlanner()
    request = planner.add("a", 3)
    planner.step()
    planner.scheduler.abort(["a"])
    assert planner.pool.num_free_blocks == 16
    assert planner.step() == {}
    assert planner.told() == []
    assert request.output_token_ids == []


def test_a_new_request_never_gets_the_token_of_an_old_one_of_its_name():
    planner = TinyInFlightPlanner()
    old = planner.add("a", 3)
    planner.step()
    planner.scheduler.abort(["a"])
    new = planner.add("a", 5)
    assert planner.step(token_id=8) == {"a": 5}
    assert planner.told() == []
    assert (new.num_in_flight, old.num_in_flight) == (1, 0)
    planner.step(token_id=9)
    assert planner.told() == [("a", (9,))]
    assert (old.output_token_ids, new.output_token_ids) == ([], [9])


def planner_with_a_victim(**params):
    """Two requests in 4 blocks: the next plan gives those of "b" to "a".

    The second token of "b" is in flight then, and is entered after that plan.
    """
    planner = TinyInFlightPlanner(4, caching=False)
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, **{"max_tokens": 6, **params})
    assert planner.step() == {"a": 7, "b": 7}
    assert planner.step(token_id=5) == {"a": 1, "b": 1}
    return planner


def test_a_preempted_request_keeps_the_token_in_flight():
    planner = planner_with_a_victim()
    victim = planner.requests["b"]
    assert planner.step(token_id=6) == {"a": 1}
    assert victim.status is RequestStatus.PREEMPTED
    assert planner.told() == [("a", (6,)), ("b", (6,))]
    assert (victim.num_tokens, victim.num_in_flight, victim.num_computed_tokens) == (9, 0, 0)
    planner.run_to_end()
    assert [len(r.output_token_ids) for r in planner.requests.values()] == [6, 6]
    assert victim.num_preemptions == 1


@pytest.mark.parametrize(
    ("params", "reason"), [({"stop_token_ids": [6]}, "stop"), ({"max_tokens": 2}, "length")]
)
def test_a_preempted_request_may_end_by_the_token_in_flight(params, reason):
    planner = planner_with_a_victim(**params)
    victim = planner.requests["b"]
    planner.step(token_id=6)
    assert (victim.finish_reason, victim.num_preemptions) == (reason, 1)
    assert planner.waiting_ids() == []
    assert planner.table("b") == []
    planner.run_to_end()
    assert planner.pool.num_free_blocks == 4


def test_a_preempted_request_can_be_aborted_with_its_token_in_flight():
    planner = planner_with_a_victim()
    planner.plan()
    planner.scheduler.abort(["b"])
    planner.enter()
    assert planner.waiting_ids() == []
    assert planner.told() == [("a", (7,))]


def test_a_block_can_be_hit_one_step_after_its_last_token_was_sampled():
    planner = TinyInFlightPlanner()
    planner.add("a", [0, 1, 2])
    planner.step()
    planner.add("too early", [0, 1, 2, 7, 9])
    assert planner.step() == {"a": 1, "too early": 5}
    planner.add("late enough", [0, 1, 2, 7, 9])
    assert planner.step() == {"a": 1, "too early": 1, "late enough": 1}


def test_blocks_of_a_prompt_can_be_hit_in_the_step_that_fills_them():
    planner = TinyInFlightPlanner()
    planner.add("a", list(range(9)))
    planner.add("b", list(range(9)))
    assert planner.step() == {"a": 9, "b": 1}


def test_no_block_is_named_after_a_token_that_ended_its_request():
    planner = TinyInFlightPlanner()
    planner.add("a", [0, 1, 2], eos=frozenset({7}))
    planner.step()
    planner.step()
    assert planner.requests["a"].finish_reason == "stop"
    assert planner.pool.num_cached_hashes == 0


def test_a_token_entered_before_the_next_plan_fills_no_block_until_it_is_planned():
    planner = TinyInFlightPlanner()
    planner.add("a", [0, 1, 2])
    planner.step()
    planner.enter()
    assert planner.pool.num_cached_hashes == 0
    planner.step()
    assert planner.pool.num_cached_hashes == 1


def test_logprobs_of_a_token_that_nobody_wants_are_thrown_away_with_it():
    planner = TinyInFlightPlanner()
    planner.add("a", 3, stop_token_ids=[7], logprobs=1)
    planner.add("b", 3, logprobs=1)
    planner.step()
    planner.step(logprobs={"a": LOGPROBS, "b": LOGPROBS})
    assert [output.logprobs for output in planner.outputs] == [LOGPROBS, LOGPROBS]
    planner.step(logprobs={"a": LOGPROBS, "b": LOGPROBS})
    assert [(output.request_id, output.logprobs) for output in planner.outputs] == [("b", LOGPROBS)]


@pytest.mark.parametrize("is_used_again", [False, True])
def test_logprobs_of_a_prompt_are_not_told_after_its_abort(is_used_again):
    planner = TinyInFlightPlanner(max_num_batched_tokens=2)
    planner.add("a", 3, prompt_logprobs=1)
    planner.step()
    planner.scheduler.abort(["a"])
    if is_used_again:
        planner.add("a", 5, prompt_logprobs=1)
    planner.step(prompt_logprobs={"a": OF_PROMPT})
    assert planner.outputs == []


def test_logprobs_of_a_chunk_are_told_without_a_token():
    planner = TinyInFlightPlanner(max_num_batched_tokens=2)
    planner.add("a", 3, prompt_logprobs=1)
    planner.step()
    planner.step(prompt_logprobs={"a": OF_PROMPT})
    assert planner.told() == [("a", ())]
    assert planner.outputs[0].prompt_logprobs == OF_PROMPT


def test_recovery_forgets_what_is_in_flight_and_samples_it_again():
    planner = TinyInFlightPlanner()
    request = planner.add("a", 3, max_tokens=3)
    planner.step()
    planner.step(token_id=5)
    planner.scheduler.recover()
    planner._under_way = None
    assert (request.token_ids[3:], request.num_in_flight) == ([5], 0)
    other = planner.add("b", 2, max_tokens=1)
    assert planner.step() == {"a": 4, "b": 2}
    planner.run_to_end()
    assert (request.output_token_ids, other.output_token_ids) == ([5, 7, 7], [7])
