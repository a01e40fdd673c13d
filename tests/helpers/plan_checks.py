"""What every plan must fulfil, checked against the harness's own record of the requests."""

from __future__ import annotations

from typing import TYPE_CHECKING

from minivllm.messages import NewRequestData, SchedulerOutput

if TYPE_CHECKING:
    from planner import PlannerHarness


def check_plan(harness: PlannerHarness, plan: SchedulerOutput) -> None:
    """Hold `plan` against the state before it."""
    assert plan.step > harness.last_step, "steps are numbered in order"
    total = sum(plan.num_scheduled_tokens.values())
    assert plan.total_num_scheduled_tokens == total <= harness.settings.token_budget
    assert all(count > 0 for count in plan.num_scheduled_tokens.values())
    assert sorted(plan.finished_request_ids) == sorted(harness.finished_ids), "each end told once"
    _check_preemptions(harness, plan)
    _check_running(harness, plan)
    _check_admissions(harness, plan)


def _check_preemptions(harness: PlannerHarness, plan: SchedulerOutput) -> None:
    preempted = set(plan.preempted_request_ids)
    assert len(preempted) == len(plan.preempted_request_ids), "each preemption is told once"
    assert preempted <= harness.running, "only what runs is preempted"
    assert not preempted & plan.num_scheduled_tokens.keys(), "a victim is not in the plan"
    if preempted:
        assert not plan.new_requests, "none starts in a step that is short of blocks"
        kept = harness.running - preempted
        assert kept, "the first in order is never a victim"
        mildest = min(harness.live[victim].key for victim in preempted)
        assert mildest > max(harness.live[other].key for other in kept), "the last in order go"


def _check_running(harness: PlannerHarness, plan: SchedulerOutput) -> None:
    settings = harness.settings
    going_on = harness.running - set(plan.preempted_request_ids)
    cached = plan.cached_requests
    assert set(cached.request_ids) <= going_on, "only what runs can go on"
    used_up = plan.total_num_scheduled_tokens == settings.token_budget
    for request_id in going_on:
        tracked = harness.live[request_id]
        num_tokens = plan.num_scheduled_tokens.get(request_id, 0)
        num_left = tracked.num_left
        assert num_tokens <= num_left
        assert num_tokens == num_left or used_up, "each gets all it can use while budget is left"
        is_left_out = num_left > 0 and num_tokens == 0
        tracked.num_steps_left_out = tracked.num_steps_left_out + 1 if is_left_out else 0
        rounds = -(-settings.max_num_seqs // settings.token_budget)
        assert tracked.num_steps_left_out <= rounds, "those left out have their turn"
        assert not is_left_out or len(going_on) > settings.token_budget, "each gets a token"
        computed = tracked.num_computed + num_tokens
        num_blocks = max(tracked.num_reserved_blocks, -(-computed // settings.block_size))
        held = len(harness.manager.block_ids(tracked.request))
        assert held == num_blocks, "as many blocks as the tokens fill, and no more"


def _check_admissions(harness: PlannerHarness, plan: SchedulerOutput) -> None:
    settings = harness.settings
    order = sorted(harness.waiting, key=lambda request_id: harness.live[request_id].key)
    num_new = len(plan.new_requests)
    assert [new.request_id for new in plan.new_requests] == order[:num_new], "in order, no gap"
    for new in plan.new_requests:
        _check_new(harness, new, plan.num_scheduled_tokens[new.request_id])
    budget_left = settings.token_budget - plan.total_num_scheduled_tokens
    num_running = len(harness.running) + num_new
    if plan.preempted_request_ids or not budget_left or num_running == settings.max_num_seqs:
        return
    if num_new < len(order):  # the head stays although there is budget and a place: why?
        head = harness.live[order[num_new]]
        no_blocks = -(-head.num_tokens // settings.block_size) > harness.pool.num_free_blocks
        too_long = not settings.chunking and head.num_tokens > budget_left
        assert no_blocks or too_long, "the head waits only for blocks or for a whole budget"


def _check_new(harness: PlannerHarness, new: NewRequestData, num_scheduled: int) -> None:
    settings = harness.settings
    tracked = harness.live[new.request_id]
    request = tracked.request
    assert list(new.token_ids) == request.token_ids, "all tokens known so far are sent"
    assert len(new.token_ids) == tracked.num_tokens
    assert new.num_prompt_tokens == tracked.num_tokens - len(tracked.received)
    assert new.sampling_params is request.sampling_params
    assert new.seed == request.seed
    assert list(new.block_ids) == harness.manager.block_ids(request)
    assert len(new.block_ids) == -(-tracked.num_tokens // settings.block_size)
    assert new.num_computed_tokens % settings.block_size == 0, "only whole blocks hit"
    assert settings.caching or new.num_computed_tokens == 0, "no hit while caching is off"
    num_left = tracked.num_tokens - new.num_computed_tokens
    assert 0 < num_scheduled <= num_left, "a hit leaves a token to compute"
    assert settings.chunking or num_scheduled == num_left, "no chunk while chunking is off"
