"""Admission, budget, chunks, order and ends; all with blocks to spare."""

import pytest
from tiny_planner import TinyPlanner, make_request

from minivllm.config import SchedulerConfig
from minivllm.core.request import RequestStatus
from minivllm.core.scheduler import Scheduler
from minivllm.errors import RequestError
from minivllm.messages import ModelRunnerOutput


def test_worked_example_of_the_module_docstring():
    planner = TinyPlanner(max_num_batched_tokens=8)
    planner.add("A", 3)
    planner.add("B", 12)
    assert planner.step() == {"A": 3, "B": 5}
    assert planner.step() == {"A": 1, "B": 7}
    planner.add("C", 2)
    assert planner.step() == {"A": 1, "B": 1, "C": 2}


def test_nothing_to_do_gives_an_empty_plan():
    plan = TinyPlanner().plan()
    assert plan.total_num_scheduled_tokens == 0
    assert plan.num_scheduled_tokens == {}


@pytest.mark.parametrize("budget", [1, 2, 3, 4, 5, 64])
def test_budget_is_never_exceeded_and_chunks_add_up(budget):
    planner = TinyPlanner(max_num_batched_tokens=budget)
    planner.add("a", 9, max_tokens=1)
    chunks = []
    while planner.scheduler.requests:
        chunks.append(planner.step()["a"])
    full, rest = divmod(9, budget)
    assert chunks == [budget] * full + [rest] * (rest > 0)
    assert planner.requests["a"].output_token_ids == [7]


def test_unfinished_chunk_samples_nothing():
    planner = TinyPlanner(max_num_batched_tokens=4)
    request = planner.add("a", 9)
    planner.step()
    assert planner.outputs == []
    planner.step()
    assert planner.outputs == []
    planner.step()
    assert [output.new_token_ids for output in planner.outputs] == [(7,)]
    assert request.num_tokens == 10


def test_request_that_samples_before_its_last_token_is_our_mistake():
    planner = TinyPlanner(max_num_batched_tokens=4)
    planner.add("a", 9)
    plan = planner.plan()
    early = ModelRunnerOutput(request_ids=["a"], sampled_token_ids=[7])
    with pytest.raises(AssertionError, match="nothing left to compute samples"):
        planner.scheduler.update_from_output(plan, early)


def test_progress_moves_only_once_the_step_has_run():
    planner = TinyPlanner()
    request = planner.add("a", 5)
    plan = planner.plan()
    assert request.num_computed_tokens == 0
    planner.finish(plan)
    assert (request.num_computed_tokens, request.num_tokens) == (5, 6)


def test_prompt_is_not_split_while_chunking_is_off():
    planner = TinyPlanner(max_model_len=16, max_num_batched_tokens=16, enable_chunked_prefill=False)
    planner.add("a", 10)
    planner.add("b", 7)
    assert planner.step() == {"a": 10}
    assert planner.step() == {"a": 1, "b": 7}


def test_prompt_that_fills_the_budget_waits_for_a_step_of_its_own_while_chunking_is_off():
    planner = TinyPlanner(max_model_len=16, max_num_batched_tokens=16, enable_chunked_prefill=False)
    planner.add("a", 4, max_tokens=3)
    planner.step()
    planner.add("b", 15, max_tokens=1)
    planner.add("c", 2)
    assert planner.step() == {"a": 1, "b": 15}
    assert planner.step() == {"a": 1, "c": 2}


def test_head_that_does_not_fit_the_budget_is_not_overtaken():
    planner = TinyPlanner(max_model_len=16, max_num_batched_tokens=16, enable_chunked_prefill=False)
    planner.add("a", 9)
    planner.add("long", 8)
    planner.add("short", 1)
    assert planner.step() == {"a": 9}
    assert planner.waiting_ids() == ["long", "short"]


def test_running_requests_come_before_waiting_ones():
    planner = TinyPlanner(max_num_batched_tokens=4)
    planner.add("a", 4)
    planner.step()
    planner.add("b", 40)
    for _ in range(5):
        assert planner.step() == {"a": 1, "b": 3}


def test_steady_arrivals_never_starve_a_decode():
    planner = TinyPlanner(64, max_num_batched_tokens=8)
    planner.add("a", 3, max_tokens=30)
    planner.step()
    for i in range(20):
        planner.add(f"late{i}", 20, max_tokens=1)
        assert planner.step()["a"] == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_no_more_than_max_num_seqs_run(limit):
    planner = TinyPlanner(max_num_seqs=limit)
    for name in "abcde":
        planner.add(name, 2, max_tokens=3)
    ended = []
    while planner.scheduler.requests:
        assert len(planner.step()) <= limit
        assert len(planner.running_ids()) <= limit
        ended += [o.request_id for o in planner.outputs if o.finish_reason]
    assert ended == list("abcde")


def test_free_place_is_taken_in_the_next_step():
    planner = TinyPlanner(max_num_seqs=1)
    planner.add("a", 2, max_tokens=1)
    planner.add("b", 2, max_tokens=1)
    assert planner.step() == {"a": 2}
    assert planner.step() == {"b": 2}


def test_budget_below_the_number_of_running_requests_serves_them_in_turn():
    planner = TinyPlanner(max_num_batched_tokens=4)
    for name in "abcde":
        planner.add(name, 1, max_tokens=20)
    assert planner.step() == {"a": 1, "b": 1, "c": 1, "d": 1}
    assert planner.step() == {"a": 1, "b": 1, "c": 1, "d": 1}
    planner = TinyPlanner(max_num_batched_tokens=8)
    for name in "abcde":
        planner.add(name, 1, max_tokens=20)
    planner.step()
    planner.scheduler.token_budget = 2
    served = [tuple(planner.step()) for _ in range(5)]
    assert served == [("a", "b"), ("c", "d"), ("e", "a"), ("b", "c"), ("d", "e")]


def test_long_prompt_left_out_by_a_small_budget_has_its_turn():
    planner = TinyPlanner(max_num_batched_tokens=3)
    planner.add("a", 1, max_tokens=20)
    planner.add("b", 1, max_tokens=20)
    planner.add("long", 20)
    assert planner.step() == {"a": 1, "b": 1, "long": 1}
    for _ in range(19):
        assert planner.step() == {"a": 1, "b": 1, "long": 1}


def test_priority_decides_who_starts():
    planner = TinyPlanner(scheduling_policy="priority", max_num_seqs=2)
    planner.add("low", 2, priority=5)
    planner.add("high", 2, priority=-1)
    planner.add("mid", 2, priority=0)
    assert list(planner.step()) == ["high", "mid"]
    assert planner.waiting_ids() == ["low"]


def test_waiting_request_of_high_priority_does_not_stop_running_ones():
    planner = TinyPlanner(scheduling_policy="priority", max_num_seqs=1)
    planner.add("low", 2, priority=5, max_tokens=2)
    planner.step()
    planner.add("high", 2, priority=-1)
    assert planner.step() == {"low": 1}
    assert planner.step() == {"high": 2}


def test_arrival_decides_where_priorities_are_not_asked_for():
    planner = TinyPlanner(max_num_seqs=1)
    planner.add("first", 2, priority=5)
    planner.add("second", 2, priority=-1)
    assert list(planner.step()) == ["first"]


def test_request_of_one_token_computes_its_prompt_and_ends():
    planner = TinyPlanner()
    request = planner.add("a", 5, max_tokens=1)
    planner.step()
    (output,) = planner.outputs
    assert (output.new_token_ids, output.finish_reason) == ((7,), "length")
    assert request.status is RequestStatus.FINISHED
    assert planner.pool.num_free_blocks == 16
    assert planner.running_ids() == []


def test_prompt_one_short_of_the_context_gives_one_token():
    planner = TinyPlanner(max_model_len=8)
    request = planner.add("a", 7, max_tokens=None)
    assert planner.run_to_end() == 1
    assert request.output_token_ids == [7]
    assert request.finish_reason == "length"


def test_stop_token_ends_a_request_and_frees_its_blocks():
    planner = TinyPlanner()
    planner.add("a", 5, stop_token_ids=[9])
    planner.add("b", 5, stop_token_ids=[8])
    planner.step(token_id=9)
    assert [(o.request_id, o.finish_reason, o.stop_reason) for o in planner.outputs] == [
        ("a", "stop", 9),
        ("b", None, None),
    ]
    assert planner.running_ids() == ["b"]
    assert planner.pool.num_free_blocks == 14


def test_several_requests_may_end_in_one_step():
    planner = TinyPlanner()
    for name in "abc":
        planner.add(name, 2, max_tokens=1 if name != "b" else 3)
    planner.step()
    assert planner.running_ids() == ["b"]
    planner.step()
    assert [output.request_id for output in planner.outputs] == ["b"]


def test_results_are_matched_by_id_not_by_position():
    planner = TinyPlanner()
    first, second = planner.add("a", 2), planner.add("b", 2)
    plan = planner.plan()
    result = ModelRunnerOutput(request_ids=["b", "a"], sampled_token_ids=[20, 10])
    outputs = planner.scheduler.update_from_output(plan, result)
    assert (first.output_token_ids, second.output_token_ids) == ([10], [20])
    assert {o.request_id: o.new_token_ids for o in outputs} == {"a": (10,), "b": (20,)}


def test_result_with_too_few_tokens_is_refused():
    planner = TinyPlanner()
    planner.add("a", 2)
    planner.add("b", 2)
    plan = planner.plan()
    short = ModelRunnerOutput(request_ids=["a", "b"], sampled_token_ids=[1])
    with pytest.raises(ValueError, match="zip"):
        planner.scheduler.update_from_output(plan, short)
    assert planner.requests["a"].output_token_ids == []


def test_result_without_a_token_that_is_due_is_refused():
    planner = TinyPlanner()
    planner.add("a", 2)
    planner.add("b", 2)
    plan = planner.plan()
    with pytest.raises(KeyError, match="b"):
        planner.scheduler.update_from_output(
            plan, ModelRunnerOutput(request_ids=["a"], sampled_token_ids=[1])
        )


def test_result_for_a_request_that_is_not_in_the_plan_is_refused():
    planner = TinyPlanner()
    planner.add("a", 2)
    plan = planner.plan()
    with pytest.raises(AssertionError, match="nothing left to compute samples"):
        planner.scheduler.update_from_output(
            plan, ModelRunnerOutput(request_ids=["a", "x"], sampled_token_ids=[1, 2])
        )


def test_id_in_use_is_refused_and_the_first_request_goes_on():
    planner = TinyPlanner()
    request = planner.add("a", 2, max_tokens=1)
    with pytest.raises(RequestError, match=r"request_id='a' is in use"):
        planner.scheduler.add_request(make_request("a", 4))
    planner.step()
    assert planner.scheduler.requests == {}
    assert request.output_token_ids == [7]


def test_id_can_be_used_again_after_the_end():
    planner = TinyPlanner()
    planner.add("a", 2, max_tokens=1)
    planner.step()
    planner.add("a", 3, max_tokens=1)
    plan = planner.plan()
    assert plan.finished_request_ids == ["a"]
    assert [new.request_id for new in plan.new_requests] == ["a"]


@pytest.mark.parametrize(
    ("num_blocks", "prompt", "max_tokens", "fits"),
    [
        (4, 16, 1, True),  # the generated token is never computed
        (4, 16, 2, False),
        (4, 17, 1, False),
        (4, 5, 12, True),
        (4, 5, 13, False),
        (1, 1, 4, True),
        (1, 4, 1, True),
        (1, 5, 1, False),
    ],
)
def test_request_is_refused_if_it_could_never_fit(num_blocks, prompt, max_tokens, fits):
    planner = TinyPlanner(num_blocks)
    if fits:
        request = planner.add("a", prompt, max_tokens=max_tokens)
        planner.run_to_end()
        assert len(request.output_token_ids) == max_tokens
    else:
        with pytest.raises(RequestError):
            planner.add("a", prompt, max_tokens=max_tokens)
        assert planner.scheduler.requests == {}


def test_refusal_names_what_is_needed_and_what_there_is():
    planner = TinyPlanner(4)
    with pytest.raises(RequestError) as error:
        planner.add("big", 20, max_tokens=5)
    message = str(error.value)
    for part in ("'big'", "6 KV-cache blocks", "20 prompt tokens", "5 new", "has 4", "num_blocks"):
        assert part in message


def test_refused_request_does_not_hold_up_later_ones():
    planner = TinyPlanner(4)
    with pytest.raises(RequestError):
        planner.add("big", 20)
    planner.add("small", 5, max_tokens=2)
    assert planner.run_to_end() == 2


def test_head_that_waits_for_blocks_is_not_overtaken():
    planner = TinyPlanner(4)
    planner.add("a", 9, max_tokens=3)
    planner.add("big", 12, max_tokens=1)
    planner.add("small", 1, max_tokens=1)
    assert planner.step() == {"a": 9}
    assert planner.step() == {"a": 1}
    assert planner.step() == {"a": 1}
    assert planner.step() == {"big": 12, "small": 1}


def test_admission_takes_blocks_for_the_whole_prompt_not_for_its_first_chunk():
    planner = TinyPlanner(4, max_num_batched_tokens=4)
    planner.add("a", 12, max_tokens=2)
    planner.step()
    assert planner.table("a") == [0, 1, 2]
    planner.add("b", 8, max_tokens=1)
    for _ in range(3):
        planner.step()
    assert planner.requests["a"].num_preemptions == 0
    assert planner.requests["b"].num_cached_tokens is None  # it had to wait for a's end


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_table_follows_prompt_and_decode_over_every_boundary(size):
    for length in (1, size - 1, size, size + 1, 2 * size, 2 * size + 1):
        if length == 0:
            continue
        planner = TinyPlanner(40, size)
        request = planner.add("a", length, max_tokens=2 * size + 3)
        computed = length
        planner.step()
        while planner.scheduler.requests:
            assert planner.table("a") == list(range(-(-computed // size)))
            assert request.num_computed_tokens == computed
            planner.step()
            computed += 1


def test_default_config_without_a_budget_is_our_mistake():
    manager = TinyPlanner().manager
    with pytest.raises(AssertionError, match="resolves the config first"):
        Scheduler(SchedulerConfig(), manager)
