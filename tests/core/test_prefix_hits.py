"""Prefix hits as the scheduler sees them: progress, budget, and blocks shared within a step."""

import pytest
from tiny_planner import TinyPlanner

SHARED = list(range(8))


def run_first(planner, prompt, **options):
    """A request that has come and gone."""
    planner.add("first", prompt, **options)
    planner.run_to_end()
    return planner.requests["first"]


@pytest.mark.parametrize("length", [4, 5, 7, 8, 9, 12, 13])
def test_same_prompt_again_computes_only_what_the_full_blocks_leave(length):
    planner = TinyPlanner()
    prompt = list(range(length))
    run_first(planner, prompt, max_tokens=1)
    request = planner.add("again", prompt)
    num_hit = (length - 1) // 4 * 4
    assert planner.step() == {"again": length - num_hit}
    assert request.num_cached_tokens == num_hit
    assert request.num_computed_tokens == length


def test_hit_is_told_to_the_worker_as_progress_and_blocks():
    planner = TinyPlanner()
    run_first(planner, [*SHARED, 50], max_tokens=1)
    planner.add("again", [*SHARED, 60, 61])
    plan = planner.plan()
    (new,) = plan.new_requests
    assert new.num_computed_tokens == 8
    assert new.block_ids == [0, 1, 3]
    assert plan.num_scheduled_tokens == {"again": 2}


def test_cached_tokens_do_not_count_against_the_budget():
    planner = TinyPlanner(max_num_batched_tokens=4)
    run_first(planner, SHARED + SHARED, max_tokens=1)
    planner.add("a", [*SHARED, *SHARED, 50])
    planner.add("b", [*SHARED, *SHARED, 60])
    assert planner.step() == {"a": 1, "b": 1}


def test_hit_prompt_fits_a_whole_budget_while_chunking_is_off():
    planner = TinyPlanner(max_model_len=16, max_num_batched_tokens=16, enable_chunked_prefill=False)
    run_first(planner, SHARED, max_tokens=1)
    planner.add("long", 10)
    planner.add("hit", [*SHARED, 60, 61])
    assert planner.step() == {"long": 10, "hit": 2}


def test_equal_prompts_in_one_step_share_their_full_blocks():
    planner = TinyPlanner()
    prompt = [*SHARED, 50]
    planner.add("a", prompt)
    planner.add("b", prompt)
    assert planner.step() == {"a": 9, "b": 1}
    assert planner.table("a") == [0, 1, 2]
    assert planner.table("b") == [0, 1, 3]


def test_end_of_one_sharer_leaves_the_others_blocks():
    planner = TinyPlanner()
    prompt = [*SHARED, 50]
    planner.add("a", prompt, max_tokens=1)
    planner.add("b", prompt, max_tokens=3)
    planner.step()
    assert [planner.pool.blocks[i].ref_count for i in range(4)] == [1, 1, 0, 1]
    planner.add("c", prompt)
    assert planner.step() == {"b": 1, "c": 1}
    assert planner.table("c")[:2] == [0, 1]


def test_chunk_shares_only_what_it_computes_in_this_step():
    planner = TinyPlanner(max_num_batched_tokens=6, max_num_seqs=2)
    prompt = [*range(12), 50]
    planner.add("a", prompt)
    assert planner.step() == {"a": 6}
    planner.add("b", prompt)
    assert planner.step() == {"a": 6}
    assert planner.step() == {"a": 1, "b": 1}
    assert planner.requests["b"].num_cached_tokens == 12


def test_last_full_block_of_equal_prompts_is_held_twice():
    planner = TinyPlanner()
    planner.add("a", SHARED)
    planner.add("b", SHARED)
    planner.step()
    assert (planner.table("a"), planner.table("b")) == ([0, 1], [0, 2])
    assert planner.pool.blocks[1].block_hash == planner.pool.blocks[2].block_hash is not None
    planner.run_to_end()
    assert planner.pool.num_free_blocks == 16


def test_follow_up_hits_the_blocks_of_the_answer():
    planner = TinyPlanner()
    first = run_first(planner, list(range(6)), max_tokens=7)  # 12 tokens computed
    follow_up = planner.add("next", [*first.token_ids, 99])
    assert planner.step() == {"next": 2}
    assert follow_up.num_cached_tokens == 12


def test_last_generated_token_is_never_in_the_cache():
    planner = TinyPlanner()
    first = run_first(planner, list(range(6)), max_tokens=6)  # 12 tokens, 11 computed
    follow_up = planner.add("next", [*first.token_ids, 99])
    planner.step()
    assert follow_up.num_cached_tokens == 8


def test_nothing_is_shared_while_caching_is_off():
    planner = TinyPlanner(caching=False)
    planner.add("a", [*SHARED, 50])
    planner.add("b", [*SHARED, 50])
    assert planner.step() == {"a": 9, "b": 9}
    assert planner.pool.num_cached_hashes == 0


def test_hits_of_the_first_admission_are_kept_for_good():
    planner = TinyPlanner()
    run_first(planner, [*SHARED, 50], max_tokens=1)
    planner.add("again", [*SHARED, 60], max_tokens=3)
    while planner.scheduler.requests:
        planner.step()
        assert planner.requests["again"].num_cached_tokens == 8


def test_prefix_survives_as_long_as_other_blocks_are_free():
    planner = TinyPlanner(6)
    run_first(planner, [*SHARED, 50], max_tokens=1)  # frees 2, 1, 0 behind 3, 4, 5
    planner.add("other", 13, max_tokens=1)  # takes 3, 4, 5, 2
    planner.run_to_end()
    again = planner.add("again", [*SHARED, 60], max_tokens=1)
    planner.run_to_end()
    assert again.num_cached_tokens == 8


def test_long_shared_prefix_is_used_again_and_again():
    planner = TinyPlanner(64, max_model_len=128, max_num_batched_tokens=128)
    prefix = list(range(48))
    computed = []
    for i in range(5):
        planner.add(f"r{i}", [*prefix, 900 + i], max_tokens=1)
        computed.append(planner.step()[f"r{i}"])
    assert computed == [49, 1, 1, 1, 1]


def test_hits_after_a_reset_are_none():
    planner = TinyPlanner()
    run_first(planner, SHARED, max_tokens=1)
    assert planner.manager.reset_prefix_cache() is True
    planner.add("again", SHARED)
    assert planner.step() == {"again": 8}


def test_reset_is_refused_while_a_request_runs_but_not_while_one_waits():
    planner = TinyPlanner()
    planner.add("a", SHARED)
    assert planner.manager.reset_prefix_cache() is True
    planner.step()
    assert planner.manager.reset_prefix_cache() is False
    assert planner.pool.num_cached_hashes == 2
    planner.run_to_end()


def test_request_that_was_preempted_hits_what_is_left_of_its_blocks():
    """10 tokens computed in blocks 0, 1, 2; they are freed as 2, 1, 0 and only 2 is evicted."""
    planner = TinyPlanner(5)
    planner.add("a", 7, max_tokens=3)
    planner.add("b", 10, max_tokens=4)
    planner.step()  # a: 2 blocks, b: 3 blocks
    planner.step()
    plan = planner.plan()  # a needs a third block
    assert plan.preempted_request_ids == ["b"]
    planner.finish(plan)  # and ends
    plan = planner.plan()
    (resumed,) = plan.new_requests
    assert resumed.num_computed_tokens == 8
    assert len(resumed.token_ids) == 12
    assert plan.num_scheduled_tokens == {"b": 4}
    planner.finish(plan)
    assert planner.requests["b"].num_computed_tokens == 12
    assert planner.requests["b"].num_cached_tokens == 0
