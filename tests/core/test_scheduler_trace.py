"""The trace of a run, counted by hand."""

from tiny_planner import TinyPlanner

from minivllm.trace import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
    BlockHit,
    RequestAdded,
    RequestFinished,
    RequestPreempted,
    RequestResumed,
    RequestScheduled,
)


def test_trace_of_one_request():
    planner = TinyPlanner(4, tracing=True, max_num_batched_tokens=4)
    request = planner.add("a", 6, max_tokens=2)
    planner.step()
    planner.step()
    planner.step()
    first_hash = request.block_hashes[0].hex()
    assert planner.trace.events == [
        RequestAdded(step=0, request_id="a", num_prompt_tokens=6),
        BlockAllocated(step=0, block_id=0),
        BlockAllocated(step=0, block_id=1),
        BlockCached(step=0, block_id=0, block_hash=first_hash),
        RequestScheduled(
            step=0,
            request_id="a",
            num_tokens=4,
            num_computed_tokens=0,
            num_known_tokens=6,
            new_block_ids=(0, 1),
        ),
        RequestScheduled(
            step=1, request_id="a", num_tokens=2, num_computed_tokens=4, num_known_tokens=6
        ),
        RequestScheduled(
            step=2, request_id="a", num_tokens=1, num_computed_tokens=6, num_known_tokens=7
        ),
        BlockFreed(step=2, block_id=1),
        BlockFreed(step=2, block_id=0),
        RequestFinished(step=2, request_id="a", finish_reason="length"),
    ]


def test_hit_is_traced_with_its_block():
    planner = TinyPlanner(tracing=True)
    planner.add("a", list(range(9)), max_tokens=1)
    planner.step()
    planner.add("b", list(range(9)), max_tokens=1)
    planner.step()
    assert planner.events(BlockHit) == [BlockHit(step=1, block_id=0), BlockHit(step=1, block_id=1)]
    (scheduled,) = [e for e in planner.events(RequestScheduled) if e.request_id == "b"]
    assert (scheduled.step, scheduled.num_tokens, scheduled.num_computed_tokens) == (1, 1, 8)


def test_block_still_in_use_is_not_traced_as_freed():
    planner = TinyPlanner(tracing=True)
    planner.add("a", list(range(9)), max_tokens=1)
    planner.add("b", list(range(9)), max_tokens=2)
    planner.step()
    assert planner.events(BlockFreed) == [BlockFreed(step=0, block_id=2)]


def test_eviction_is_traced_where_the_block_is_taken():
    planner = TinyPlanner(2, tracing=True)
    planner.add("a", 8, max_tokens=1)
    planner.step()
    planner.add("b", 8, max_tokens=1)
    planner.step()
    assert planner.events(BlockEvicted) == [
        BlockEvicted(step=1, block_id=1),
        BlockEvicted(step=1, block_id=0),
    ]


def test_reset_traces_every_prefix_it_forgets():
    planner = TinyPlanner(tracing=True)
    planner.add("a", 8, max_tokens=1)
    planner.step()
    planner.manager.reset_prefix_cache()
    assert [event.block_id for event in planner.events(BlockEvicted)] == [0, 1]


def test_preemption_and_return_are_traced():
    planner = TinyPlanner(4, tracing=True)
    planner.add("a", 7, max_tokens=4)
    planner.add("b", 7, max_tokens=4)
    planner.run_to_end()
    assert planner.events(RequestPreempted) == [RequestPreempted(step=2, request_id="b")]
    assert planner.events(RequestResumed) == [RequestResumed(step=4, request_id="b")]
    scheduled = [
        (e.step, e.num_tokens, e.num_computed_tokens)
        for e in planner.events(RequestScheduled)
        if e.request_id == "b"
    ]
    assert scheduled == [(0, 7, 0), (1, 1, 7), (4, 5, 4), (5, 1, 9)]


def test_withdrawn_request_is_neither_traced_as_scheduled_nor_as_filling_a_block():
    planner = TinyPlanner(4, tracing=True, scheduling_policy="priority")
    planner.add("low", 6, max_tokens=8, priority=1)
    planner.step()
    planner.add("high", 8, max_tokens=4, priority=0)
    planner.step()
    planner.step()
    last = [e.request_id for e in planner.events(RequestScheduled) if e.step == 2]
    assert last == ["high"]
    assert [event for event in planner.events(BlockCached) if event.step == 2] == []


def test_abort_is_traced():
    planner = TinyPlanner(tracing=True)
    planner.add("a", 2)
    planner.step()
    planner.scheduler.abort(["a", "nobody"])
    (event,) = planner.events(RequestFinished)
    assert (event.request_id, event.finish_reason) == ("a", "abort")


def test_request_added_between_steps_belongs_to_the_next_step():
    planner = TinyPlanner(tracing=True)
    planner.add("a", 2)
    planner.step()
    planner.add("b", 2)
    assert [event.step for event in planner.events(RequestAdded)] == [0, 1]


def test_steps_in_the_trace_are_those_of_the_plans():
    planner = TinyPlanner(tracing=True)
    planner.add("a", 2, max_tokens=4)
    steps = []
    while planner.scheduler.requests:
        plan = planner.plan()
        steps.append(plan.step)
        planner.finish(plan)
    assert [event.step for event in planner.events(RequestScheduled)] == steps


def test_run_without_a_trace_is_the_same_run():
    tables = []
    for tracing in (False, True):
        planner = TinyPlanner(4, tracing=tracing)
        planner.add("a", 7, max_tokens=6)
        planner.add("b", 7, max_tokens=6)
        seen = []
        while planner.scheduler.requests:
            plan = planner.plan()
            seen.append((plan, planner.table("a"), planner.table("b")))
            planner.finish(plan)
        tables.append(seen)
    assert planner.trace is not None
    assert tables[0] == tables[1]
