"""Requests that end early, and steps that fail."""

import pytest
from interrupt import InterruptError, interrupt_after
from tiny_planner import TinyPlanner

from minivllm.core.request import RequestStatus
from minivllm.messages import ModelRunnerOutput

ALL_FREE = 16


def planner_with_all_kinds():
    """One decodes, one is in the middle of its prompt, one waits; the budget is 4."""
    planner = TinyPlanner(max_num_batched_tokens=4)
    planner.add("decodes", 3)
    planner.step()
    planner.add("chunk", 20)
    planner.step()
    planner.add("waits", 5)
    assert planner.running_ids() == ["decodes", "chunk"]
    return planner


@pytest.mark.parametrize("victim", ["decodes", "chunk", "waits"])
def test_abort_gives_everything_back_and_leaves_the_others(victim):
    planner = planner_with_all_kinds()
    planner.scheduler.abort([victim])
    planner.manager.check()
    assert planner.table(victim) == []
    assert victim not in planner.running_ids() + planner.waiting_ids()
    assert planner.requests[victim].finish_reason == "abort"
    assert planner.requests[victim].status is RequestStatus.FINISHED
    planner.run_to_end()
    assert planner.pool.num_free_blocks == ALL_FREE
    others = set(planner.requests) - {victim}
    assert all(planner.requests[name].finish_reason == "length" for name in others)
    assert all(len(planner.requests[name].output_token_ids) == 16 for name in others)


def test_abort_of_a_preempted_request():
    planner = TinyPlanner(4)
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, max_tokens=6)
    for _ in range(3):
        planner.step()
    assert planner.requests["b"].status is RequestStatus.PREEMPTED
    planner.scheduler.abort(["b"])
    assert planner.waiting_ids() == []
    assert planner.plan().finished_request_ids == ["b"]


def test_abort_of_unknown_or_ended_requests_is_ignored():
    planner = TinyPlanner()
    planner.add("a", 2, max_tokens=1)
    planner.scheduler.abort(["nobody"])
    planner.step()
    planner.scheduler.abort(["a"])
    assert planner.requests["a"].finish_reason == "length"
    assert planner.plan().finished_request_ids == ["a"]


def test_abort_twice_in_one_call_ends_once():
    planner = TinyPlanner()
    planner.add("a", 2)
    planner.scheduler.abort(["a", "a"])
    planner.scheduler.abort(["a"])
    assert planner.plan().finished_request_ids == ["a"]
    assert planner.plan().finished_request_ids == []


def test_abort_of_everything():
    planner = planner_with_all_kinds()
    planner.scheduler.abort(planner.requests)
    assert planner.scheduler.requests == {}
    assert planner.pool.num_free_blocks == ALL_FREE
    plan = planner.plan()
    assert plan.total_num_scheduled_tokens == 0
    assert sorted(plan.finished_request_ids) == ["chunk", "decodes", "waits"]


def test_id_of_an_aborted_request_can_be_used_at_once():
    planner = TinyPlanner()
    old = planner.add("a", 2)
    planner.step()
    planner.scheduler.abort(["a"])
    new = planner.add("a", 5, max_tokens=1)
    plan = planner.plan()
    assert plan.finished_request_ids == ["a"]
    assert plan.num_scheduled_tokens == {"a": 5}
    planner.finish(plan)
    assert (old.finish_reason, new.finish_reason) == ("abort", "length")


def test_aborted_prefix_can_still_be_hit():
    planner = TinyPlanner()
    planner.add("a", list(range(9)))
    planner.step()
    planner.scheduler.abort(["a"])
    planner.add("b", list(range(9)))
    assert planner.step() == {"b": 1}


@pytest.mark.parametrize("how", ["abort", "recover"])
def test_blocks_of_an_unfinished_prompt_hit_only_as_far_as_they_were_computed(how):
    planner = TinyPlanner(max_num_batched_tokens=8)
    planner.add("a", list(range(20)))
    planner.step()
    planner.scheduler.abort(["a"])
    if how == "recover":
        planner.scheduler.recover()
    planner.add("b", list(range(20)))
    planner.step()
    assert planner.requests["b"].num_cached_tokens == {"abort": 8, "recover": 0}[how]


def test_recovery_keeps_tokens_and_takes_blocks_and_cache():
    planner = planner_with_all_kinds()
    planner.plan()
    planner.scheduler.recover()
    planner.manager.check()
    assert planner.pool.num_free_blocks == ALL_FREE
    assert planner.pool.num_cached_hashes == 0
    assert planner.running_ids() == []
    assert planner.waiting_ids() == ["decodes", "chunk", "waits"]
    assert planner.requests["decodes"].output_token_ids == [7, 7]
    assert all(r.num_computed_tokens == 0 for r in planner.requests.values())


def test_all_requests_are_sent_in_full_after_recovery():
    planner = TinyPlanner()
    planner.add("a", 3)
    planner.step()
    planner.add("b", 2)
    planner.plan()
    planner.scheduler.recover()
    plan = planner.plan()
    assert [new.request_id for new in plan.new_requests] == ["a", "b"]
    assert list(plan.new_requests[0].token_ids) == [1000, 1001, 1002, 7]
    assert plan.num_scheduled_tokens == {"a": 4, "b": 2}


def test_ends_before_a_recovery_are_not_told_after_it():
    """The worker has dropped all its rows: there is none left to end."""
    planner = TinyPlanner()
    planner.add("a", 2)
    planner.step()
    planner.scheduler.abort(["a"])
    planner.scheduler.recover()
    assert planner.plan().finished_request_ids == []


def test_order_after_recovery_is_that_of_the_policy():
    planner = TinyPlanner(scheduling_policy="priority", max_num_seqs=2)
    planner.add("low", 2, priority=3)
    planner.add("mid", 2, priority=2)
    planner.step()
    planner.add("high", 2, priority=0)
    planner.scheduler.recover()
    assert planner.waiting_ids() == ["high", "mid", "low"]


def test_recovered_request_is_told_apart_from_one_that_never_ran():
    planner = TinyPlanner(max_num_seqs=1)
    planner.add("ran", 2)
    planner.add("waits", 2)
    planner.step()
    planner.scheduler.recover()
    assert planner.requests["ran"].status is RequestStatus.PREEMPTED
    assert planner.requests["waits"].status is RequestStatus.WAITING


def test_recovery_of_an_idle_scheduler_is_harmless():
    planner = TinyPlanner()
    planner.scheduler.recover()
    planner.add("a", 2, max_tokens=1)
    assert planner.run_to_end() == 1


def test_request_that_ended_in_the_failed_step_does_not_run_again():
    """The result of b is missing: a's last token is entered before this is seen."""
    planner = TinyPlanner()
    ended = planner.add("a", 2, max_tokens=1)
    planner.add("b", 2)
    plan = planner.plan()
    with pytest.raises(KeyError, match="b"):
        planner.scheduler.update_from_output(
            plan, ModelRunnerOutput(request_ids=["a"], sampled_token_ids=[7])
        )
    planner.scheduler.recover()
    assert ended.output_token_ids == [7]
    assert list(planner.scheduler.requests) == ["b"]
    planner.run_to_end()
    assert planner.pool.num_free_blocks == ALL_FREE


def busy_planner():
    """Too few blocks, hits, chunks, a request about to end, and one that waits."""
    planner = TinyPlanner(5, max_num_batched_tokens=8)
    planner.add("a", [1, 2, 3, 4, 5, 6, 7], max_tokens=4)
    planner.step()
    planner.add("b", [1, 2, 3, 4, 9, 9], max_tokens=9)
    planner.step()
    planner.add("c", 8, max_tokens=2)
    return planner


@pytest.mark.parametrize("where", ["schedule", "update"])
def test_recovery_after_an_interruption_at_any_line(where):
    """Every line of the planner is tried once, until a step gets through without interruption."""
    for num_lines in range(2000):
        planner = busy_planner()
        interrupted = False
        for _ in range(3):
            try:
                if where == "schedule":
                    with interrupt_after(num_lines):
                        plan = planner.plan()
                    planner.finish(plan)
                else:
                    plan = planner.plan()
                    result = planner.result(plan)
                    with interrupt_after(num_lines):
                        planner.scheduler.update_from_output(plan, result)
            except InterruptError:
                interrupted = True
                planner.scheduler.recover()
                planner.manager.check()
                assert planner.pool.num_free_blocks == 5
        planner.run_to_end()
        for request in planner.requests.values():
            assert len(request.output_token_ids) == request.sampling_params.max_tokens
        assert planner.pool.num_free_blocks == 5
        planner.manager.check()
        if not interrupted:
            return
    raise AssertionError("the step never got through")


@pytest.mark.parametrize("victim", ["a", "b", "c"])
def test_recovery_after_an_interrupted_abort(victim):
    for num_lines in range(60):
        planner = busy_planner()
        try:
            with interrupt_after(num_lines):
                planner.scheduler.abort([victim])
        except InterruptError:
            planner.scheduler.recover()
        planner.manager.check()
        planner.run_to_end()
        assert planner.pool.num_free_blocks == 5
