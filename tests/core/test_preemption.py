"""What happens when blocks run out: who gives way, and how it comes back."""

from tiny_planner import TinyPlanner

from minivllm.core.request import RequestStatus


def two_that_need_five_blocks(**options):
    """Two requests that fill all 4 blocks, one token before both need a fifth."""
    planner = TinyPlanner(4, **options)
    planner.add("a", 7, max_tokens=6)
    planner.add("b", 7, max_tokens=6)
    assert planner.step() == {"a": 7, "b": 7}
    assert planner.step() == {"a": 1, "b": 1}
    return planner


def test_newest_gives_way_first_come_first_served():
    planner = two_that_need_five_blocks()
    plan = planner.plan()
    assert plan.preempted_request_ids == ["b"]
    assert plan.num_scheduled_tokens == {"a": 1}
    assert planner.table("a") == [0, 1, 3]  # b's last block was freed first
    assert planner.table("b") == []


def test_preempted_request_waits_with_nothing_computed_and_all_its_tokens():
    planner = two_that_need_five_blocks()
    request = planner.requests["b"]
    planner.step()
    assert request.status is RequestStatus.PREEMPTED
    assert (request.num_computed_tokens, request.num_cached_blocks) == (0, 0)
    assert request.num_preemptions == 1
    assert request.num_tokens == 9
    assert request.num_prompt_tokens == 7
    assert planner.waiting_ids() == ["b"]


def test_preempted_request_is_sent_in_full_when_it_comes_back():
    planner = two_that_need_five_blocks(caching=False)
    while True:
        plan = planner.plan()
        if plan.new_requests:
            break
        planner.finish(plan)
    (resumed,) = plan.new_requests
    assert resumed.request_id == "b"
    assert list(resumed.token_ids) == [2000 + i for i in range(7)] + [7, 7]
    assert resumed.num_prompt_tokens == 7
    assert resumed.num_computed_tokens == 0
    assert plan.num_scheduled_tokens["b"] == 9
    planner.finish(plan)
    assert planner.requests["b"].output_token_ids == [7, 7, 7]  # one new token, not two


def test_preempted_request_may_hit_its_own_blocks():
    planner = two_that_need_five_blocks()
    planner.run_to_end()
    b = planner.requests["b"]
    assert b.num_preemptions == 1
    assert b.output_token_ids == [7] * 6
    assert b.num_cached_tokens == 0  # what the cache saved of its prompt when it first ran


def test_preemptions_are_counted_to_the_end():
    planner = two_that_need_five_blocks()
    while planner.scheduler.requests:
        planner.step()
    assert [planner.requests[name].num_preemptions for name in "ab"] == [0, 1]


def test_nothing_starts_in_a_step_that_preempts():
    planner = two_that_need_five_blocks()
    planner.add("tiny", 1, max_tokens=1)
    plan = planner.plan()
    assert plan.preempted_request_ids == ["b"]
    assert plan.new_requests == []


def test_not_even_an_urgent_request_starts_in_a_step_that_preempts():
    planner = two_that_need_five_blocks(scheduling_policy="priority")
    planner.add("urgent", 1, max_tokens=1, priority=-1)
    plan = planner.plan()
    assert plan.preempted_request_ids == ["b"]
    assert planner.pool.num_free_blocks == 1  # enough for it
    assert plan.new_requests == []
    planner.finish(plan)
    assert [new.request_id for new in planner.plan().new_requests] == ["urgent"]


def test_preempted_request_comes_back_before_those_that_arrived_later():
    planner = two_that_need_five_blocks()
    planner.add("late", 1, max_tokens=1)
    planner.step()
    assert planner.waiting_ids() == ["b", "late"]
    started = []
    while planner.scheduler.requests:
        plan = planner.plan()
        started += [new.request_id for new in plan.new_requests]
        planner.finish(plan)
    assert started == ["b", "late"]


def test_victims_are_taken_until_the_blocks_suffice():
    planner = TinyPlanner(6, max_num_batched_tokens=64)
    planner.add("a", 15, max_tokens=9)
    planner.add("b", 4, max_tokens=2)
    planner.add("c", 3, max_tokens=5)
    planner.step()
    assert planner.pool.num_free_blocks == 0
    plan = planner.plan()  # a: position 16 still fits; b needs a block, and takes c's
    assert plan.preempted_request_ids == ["c"]
    assert plan.num_scheduled_tokens == {"a": 1, "b": 1}


def test_newest_gives_way_even_if_it_is_the_one_in_need():
    planner = TinyPlanner(4)
    planner.add("a", 9, max_tokens=8)
    planner.add("b", 4, max_tokens=4)
    planner.step()
    plan = planner.plan()
    assert plan.preempted_request_ids == ["b"]
    assert plan.num_scheduled_tokens == {"a": 1}


def test_largest_priority_number_gives_way():
    planner = TinyPlanner(4, scheduling_policy="priority")
    planner.add("low", 7, max_tokens=6, priority=1)
    planner.add("high", 7, max_tokens=6, priority=0)
    planner.step()
    planner.step()
    plan = planner.plan()
    assert plan.preempted_request_ids == ["low"]
    assert plan.num_scheduled_tokens == {"high": 1}


def test_among_equal_priorities_the_later_gives_way():
    planner = TinyPlanner(4, scheduling_policy="priority")
    planner.add("first", 7, max_tokens=6, priority=3)
    planner.add("second", 7, max_tokens=6, priority=3)
    planner.step()
    planner.step()
    assert planner.plan().preempted_request_ids == ["second"]


def planned_and_then_preempted():
    """`low` is planned first, then loses its blocks to `high`, in one step.

    low has filled its two blocks up to one token; in the step it computes the last one, which
    would complete (and publish) its second block. high needs a third block, and none is free.
    """
    planner = TinyPlanner(4, scheduling_policy="priority")
    low = planner.add("low", 6, max_tokens=8, priority=1)
    planner.step()
    high = planner.add("high", 8, max_tokens=4, priority=0)
    planner.step()
    assert planner.running_ids() == ["low", "high"]
    assert (low.num_computed_tokens, high.num_computed_tokens) == (7, 8)
    return planner


def test_victim_that_was_planned_already_is_taken_out_of_the_plan():
    planner = planned_and_then_preempted()
    plan = planner.plan()
    assert plan.preempted_request_ids == ["low"]
    assert plan.num_scheduled_tokens == {"high": 1}
    assert plan.total_num_scheduled_tokens == 1
    assert list(plan.cached_requests.request_ids) == ["high"]
    assert planner.finish(plan)[0].request_id == "high"


def test_withdrawn_victim_publishes_no_block_that_was_never_filled():
    planner = planned_and_then_preempted()
    low = planner.requests["low"]
    before = planner.pool.num_cached_hashes
    planner.plan()
    full = planner.manager.find_cached_prefix(low)
    assert [block.block_id for block in full] == [0]  # not the one its withdrawn token completes
    assert planner.pool.num_cached_hashes == before
    planner.manager.check()


def test_budget_of_a_withdrawn_victim_is_given_to_others():
    planner = TinyPlanner(5, scheduling_policy="priority")
    planner.add("low", 6, max_tokens=8, priority=2)
    planner.step()
    planner.add("high", 8, max_tokens=4, priority=0)
    planner.add("other", 2, max_tokens=4, priority=1)
    planner.step()
    planner.scheduler.token_budget = 2
    plan = planner.plan()
    assert plan.preempted_request_ids == ["low"]
    assert plan.num_scheduled_tokens == {"high": 1, "other": 1}


def test_blocks_of_a_victim_still_used_by_others_stay_with_them():
    planner = TinyPlanner(4)
    shared = list(range(8))
    planner.add("a", [*shared, 50], max_tokens=6)
    planner.add("b", [*shared, 60], max_tokens=6)
    planner.step()
    assert planner.table("a") == [0, 1, 2]
    assert planner.table("b") == [0, 1, 3]
    for _ in range(3):
        planner.step()
    plan = planner.plan()
    assert plan.preempted_request_ids == ["b"]
    assert planner.table("a") == [0, 1, 2, 3]
    assert [block.ref_count for block in planner.pool.blocks] == [1, 1, 1, 1]


def test_tokens_are_the_same_in_a_tiny_and_a_large_pool():
    outputs = []
    for num_blocks in (4, 100):
        planner = TinyPlanner(num_blocks)
        for name in "abcd":
            planner.add(name, 5, max_tokens=11)
        planner.run_to_end()
        outputs.append({name: r.output_token_ids for name, r in planner.requests.items()})
        assert (planner.requests["d"].num_preemptions > 0) == (num_blocks == 4)
    assert outputs[0] == outputs[1]


def test_number_of_preemptions_stays_bounded():
    planner = TinyPlanner(8)
    for i in range(8):
        planner.add(str(i), 4, max_tokens=20)
    num_steps = planner.run_to_end()
    assert num_steps < 8 * 24
    assert sum(r.num_preemptions for r in planner.requests.values()) < 40
    assert planner.requests["0"].num_preemptions == 0


def test_no_request_is_preempted_while_blocks_are_left():
    planner = TinyPlanner(8 * 6)
    for i in range(8):
        planner.add(str(i), 4, max_tokens=20)
    planner.run_to_end()
    assert all(r.num_preemptions == 0 for r in planner.requests.values())


def test_request_preempted_in_the_middle_of_its_prompt_starts_over():
    planner = TinyPlanner(5, max_num_batched_tokens=4, caching=False)
    planner.add("a", 3, max_tokens=12)
    planner.step()
    planner.add("b", 16, max_tokens=1)
    assert planner.step() == {"a": 1, "b": 3}
    plan = planner.plan()  # a's fifth token needs a block
    assert plan.preempted_request_ids == ["b"]
    planner.finish(plan)
    assert planner.requests["b"].num_computed_tokens == 0
    planner.run_to_end()
    assert planner.requests["b"].output_token_ids == [7]
