"""The plan that leaves the scheduler: complete, told once, frozen, plain data."""

import dataclasses
import pickle

import pytest
from tiny_planner import TinyPlanner


def test_new_request_is_sent_in_full_and_later_only_what_changed():
    planner = TinyPlanner()
    request = planner.add("a", 4, max_tokens=3, seed=5)
    plan = planner.plan()
    (new,) = plan.new_requests
    assert (new.request_id, list(new.token_ids)) == ("a", [1000, 1001, 1002, 1003])
    assert (new.num_prompt_tokens, new.num_computed_tokens) == (4, 0)
    assert new.block_ids == [0]
    assert new.sampling_params is request.sampling_params
    assert new.seed == request.seed
    assert list(plan.cached_requests.request_ids) == []
    planner.finish(plan)

    plan = planner.plan()
    assert plan.new_requests == []
    cached = plan.cached_requests
    assert list(cached.request_ids) == ["a"]
    assert list(cached.num_computed_tokens) == [4]
    assert [list(ids) for ids in cached.new_block_ids] == [[1]]
    planner.finish(plan)

    plan = planner.plan()
    assert [list(ids) for ids in plan.cached_requests.new_block_ids] == [[]]


def test_rows_of_going_on_requests_come_before_those_of_new_ones():
    planner = TinyPlanner()
    planner.add("a", 2)
    planner.step()
    planner.add("b", 3)
    plan = planner.plan()
    assert list(plan.num_scheduled_tokens.items()) == [("a", 1), ("b", 3)]
    assert plan.total_num_scheduled_tokens == 4


def test_steps_are_numbered_from_0():
    planner = TinyPlanner()
    planner.add("a", 2)
    numbers = []
    for _ in range(3):
        plan = planner.plan()
        numbers.append(plan.step)
        planner.finish(plan)
    assert numbers == [0, 1, 2]


def test_finished_ids_are_told_in_the_next_plan_and_only_there():
    planner = TinyPlanner()
    planner.add("a", 2, max_tokens=1)
    planner.add("b", 2, max_tokens=4)
    first = planner.plan()
    assert first.finished_request_ids == []
    planner.finish(first)
    second = planner.plan()
    assert second.finished_request_ids == ["a"]
    planner.finish(second)
    assert planner.plan().finished_request_ids == []
    assert first.finished_request_ids == []


def test_preempted_ids_are_told_in_their_own_plan_and_only_there():
    planner = TinyPlanner(4)
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, max_tokens=6)
    told = []
    while planner.scheduler.requests:
        plan = planner.plan()
        told += plan.preempted_request_ids
        planner.finish(plan)
    assert told == ["b"]


def test_plan_cannot_be_changed():
    planner = TinyPlanner()
    planner.add("a", 2)
    plan = planner.plan()
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.step = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        plan.new_requests[0].seed = 3


def test_plan_stays_as_it_was_while_the_planner_goes_on():
    planner = TinyPlanner(4)
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, max_tokens=6)
    kept = []
    while planner.scheduler.requests:
        plan = planner.plan()
        kept.append((plan, pickle.dumps(plan)))
        planner.finish(plan)
    for plan, dumped in kept:
        assert pickle.loads(dumped) == plan


def test_plan_survives_pickling():
    planner = TinyPlanner(4)
    planner.add("a", 7, max_tokens=6, stop_token_ids=[3])
    planner.add("b", 7, max_tokens=6)
    for _ in range(4):
        plan = planner.plan()
        assert pickle.loads(pickle.dumps(plan)) == plan
        planner.finish(plan)
