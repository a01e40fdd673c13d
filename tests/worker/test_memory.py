"""The largest step: what the GPU memory profile is measured on."""

import pytest

from minivllm.config import SchedulerConfig
from minivllm.worker.memory import largest_plan, physical_memory


@pytest.mark.parametrize(
    ("budget", "max_num_seqs", "max_model_len"),
    [(64, 4, 100), (64, 100, 100), (7, 3, 100), (64, 2, 8), (1, 1, 2)],
)
def test_largest_plan_fills_the_budget_with_as_many_requests_as_fit(
    budget, max_num_seqs, max_model_len
):
    config = SchedulerConfig(
        max_num_batched_tokens=budget, max_num_seqs=max_num_seqs, max_model_len=max_model_len
    )

    plan = largest_plan(config, block_size=4)

    assert len(plan.new_requests) == min(budget, max_num_seqs)
    assert plan.total_num_scheduled_tokens == min(budget, max_num_seqs * (max_model_len - 1))
    # each is a prompt that leaves room for the token it samples
    assert all(1 <= len(new.token_ids) < max_model_len for new in plan.new_requests)
    block_ids = [block_id for new in plan.new_requests for block_id in new.block_ids]
    assert block_ids == list(range(len(block_ids)))
    assert all(len(new.block_ids) * 4 >= len(new.token_ids) for new in plan.new_requests)


def test_physical_memory_is_that_of_a_real_machine():
    assert 2**28 < physical_memory() < 2**50
