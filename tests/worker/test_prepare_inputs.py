"""Input preparation against loops over single tokens, and against the arrays worked out by hand."""

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.sampling_params import SamplingParams
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.prepare_inputs import (
    prepare_inputs,
    slot_of_tokens,
    start_locations,
    token_positions,
)

CPU = torch.device("cpu")


def new(request_id, token_ids, block_ids, num_computed=0, **params):
    return NewRequestData(
        request_id=request_id,
        token_ids=token_ids,
        num_prompt_tokens=len(token_ids),
        sampling_params=SamplingParams(**params),
        seed=7,
        block_ids=block_ids,
        num_computed_tokens=num_computed,
    )


def plan(num_scheduled_tokens, new_requests=(), **fields):
    return SchedulerOutput(
        step=0,
        new_requests=new_requests,
        num_scheduled_tokens=num_scheduled_tokens,
        total_num_scheduled_tokens=sum(num_scheduled_tokens.values()),
        **fields,
    )


def test_start_locations_of_the_docstring():
    assert start_locations(np.array([2, 1, 3])).tolist() == [0, 2, 3, 6]


def test_positions_go_on_after_computed_tokens():
    # cases.md C8: query lengths [2, 3] after [4, 4] computed tokens
    positions = token_positions(np.array([4, 4]), np.array([2, 3]))
    assert positions.tolist() == [4, 5, 4, 5, 6]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=8),
    st.sampled_from([1, 2, 4, 16]),
    st.randoms(use_true_random=False),
)
def test_positions_and_slots_equal_a_loop_over_tokens(requests, block_size, rng):
    num_computed = np.array([computed for computed, _ in requests])
    query_lens = np.array([length for _, length in requests])
    max_num_blocks = -(-int((num_computed + query_lens).max()) // block_size)
    ids = list(range(len(requests) * max_num_blocks))
    rng.shuffle(ids)
    table = np.array(ids, np.int32).reshape(len(requests), max_num_blocks)
    expected_positions, expected_slots = [], []
    for row, (computed, length) in enumerate(requests):
        for position in range(computed, computed + length):
            expected_positions.append(position)
            block_id = int(table[row][position // block_size])
            expected_slots.append(block_id * block_size + position % block_size)

    positions = token_positions(num_computed, query_lens)
    row_of_token = np.repeat(np.arange(len(requests)), query_lens)

    assert positions.tolist() == expected_positions
    assert slot_of_tokens(table, row_of_token, positions, block_size).tolist() == expected_slots


def test_slots_of_large_pools_do_not_overflow_32_bits():
    table = np.array([[2**27]], np.int32)
    slots = slot_of_tokens(table, np.array([0]), np.array([3]), 256)
    assert slots.tolist() == [2**27 * 256 + 3]


def test_a_mixed_batch_is_laid_end_to_end():
    batch = InputBatch(max_num_seqs=4, max_model_len=16, block_size=4)
    batch.update(
        plan(
            {},
            [
                new("a", [10, 11], [7]),
                new("b", [20, 21, 22, 23, 24, 25], [3, 9], num_computed=5),
                new("c", [30, 31, 32, 33, 34], [1, 0]),
            ],
        )
    )

    inputs = prepare_inputs(batch, {"a": 2, "b": 1, "c": 3}, CPU)

    assert inputs.input_ids.tolist() == [10, 11, 25, 30, 31, 32]
    assert inputs.positions.tolist() == [0, 1, 5, 0, 1, 2]
    metadata = inputs.attn_metadata
    assert metadata.query_start_loc.tolist() == [0, 2, 3, 6]
    assert metadata.seq_lens.tolist() == [2, 6, 3]
    assert metadata.slot_mapping.tolist() == [28, 29, 37, 4, 5, 6]
    assert metadata.block_table.tolist() == [[7, 0], [3, 9], [1, 0]]
    assert inputs.logits_indices.tolist() == [1, 2]  # "c" has two tokens left: it samples nothing
    assert inputs.sampled_rows.tolist() == [0, 1]


def test_rows_follow_the_plan_and_not_their_own_order():
    batch = InputBatch(max_num_seqs=4, max_model_len=16, block_size=4)
    batch.update(plan({}, [new("a", [10], [0]), new("b", [20], [1]), new("c", [30], [2])]))

    inputs = prepare_inputs(batch, {"c": 1, "a": 1}, CPU)

    assert inputs.input_ids.tolist() == [30, 10]
    assert inputs.attn_metadata.slot_mapping.tolist() == [8, 0]
    assert inputs.sampled_rows.tolist() == [2, 0]


def test_sampling_parameters_follow_their_rows():
    batch = InputBatch(max_num_seqs=4, max_model_len=16, block_size=4)
    first = new("a", [10], [0], temperature=0.5, top_p=0.25, top_k=3)
    batch.update(plan({}, [first, new("b", [20, 21], [1], temperature=0.0)]))

    metadata = prepare_inputs(batch, {"b": 2, "a": 1}, CPU).sampling_metadata

    assert metadata.temperatures.tolist() == [0, 0.5]
    assert metadata.top_ps.tolist() == [1, 0.25]
    assert metadata.top_ks.tolist()[1] == 3
    assert metadata.positions.tolist() == [2, 1]  # where the sampled token will stand


def test_a_removed_row_is_filled_by_the_last_one():
    batch = InputBatch(max_num_seqs=3, max_model_len=16, block_size=4)
    batch.update(
        plan(
            {}, [new("a", [10], [0]), new("b", [20], [1]), new("c", [30, 31], [2], temperature=0.0)]
        )
    )

    batch.update(plan({}, finished_request_ids=["a"]))

    assert batch.request_ids == ["c", "b"]
    inputs = prepare_inputs(batch, {"b": 1, "c": 2}, CPU)
    assert inputs.input_ids.tolist() == [20, 30, 31]
    assert inputs.attn_metadata.slot_mapping.tolist() == [4, 8, 9]
    assert inputs.sampling_metadata.temperatures.tolist() == [1, 0]


def test_removing_an_unknown_request_changes_nothing():
    batch = InputBatch(max_num_seqs=2, max_model_len=16, block_size=4)
    batch.update(plan({}, [new("a", [10], [0])]))
    batch.update(plan({}, finished_request_ids=["x"], preempted_request_ids=["y"]))
    assert batch.request_ids == ["a"]


def test_a_request_can_come_back_under_its_id_with_new_blocks():
    batch = InputBatch(max_num_seqs=1, max_model_len=16, block_size=4)
    batch.update(plan({}, [new("a", [10, 11, 12, 13, 14], [3, 2])]))
    batch.update(plan({}, [new("a", [10, 11], [1])], preempted_request_ids=["a"]))
    assert batch.block_table[0].tolist() == [1, 0, 0, 0]
    assert batch.num_tokens[0] == 2


def test_decode_reads_the_sampled_token_from_its_row():
    batch = InputBatch(max_num_seqs=2, max_model_len=16, block_size=4)
    batch.update(plan({}, [new("a", [10, 11, 12, 13], [5])]))
    batch.enter_tokens(batch.expect_tokens(np.array([0]), np.array([0])), np.array([99]))
    batch.update(
        plan(
            {},
            cached_requests=CachedRequestData(
                request_ids=["a"], num_computed_tokens=[4], new_block_ids=[[8]]
            ),
        )
    )

    inputs = prepare_inputs(batch, {"a": 1}, CPU)

    assert inputs.input_ids.tolist() == [99]
    assert inputs.positions.tolist() == [4]
    assert inputs.attn_metadata.slot_mapping.tolist() == [32]
    assert inputs.attn_metadata.block_table.tolist() == [[5, 8]]


def test_changes_of_logits_follow_their_requests_when_rows_move():
    batch = InputBatch(max_num_seqs=3, max_model_len=16, block_size=4)
    last = new("c", [30, 31], [2], presence_penalty=0.5, repetition_penalty=2.0)
    biased = new("b", [20], [1], logit_bias={7: 3.0})
    batch.update(plan({}, [new("a", [10], [0]), biased, last]))
    batch.update(plan({}, finished_request_ids=["a"]))
    batch.enter_tokens(batch.expect_tokens(np.array([0]), np.array([0])), np.array([31]))

    metadata = prepare_inputs(batch, {"b": 1, "c": 3}, CPU).sampling_metadata

    changes = metadata.changes
    assert changes.rows.tolist() == [0, 1, 1]
    assert changes.token_ids.tolist() == [7, 30, 31]
    assert changes.biases.tolist() == [3, 0, 0]
    assert changes.factors.tolist() == [1, 2, 2]
    assert changes.amounts.tolist() == [0, 0, 0.5]


def test_prompt_length_moves_with_its_row():
    batch = InputBatch(max_num_seqs=3, max_model_len=16, block_size=4)
    batch.update(plan({}, [new("a", [10], [0]), new("b", [20, 21, 22], [1])]))
    batch.update(plan({}, finished_request_ids=["a"]))
    assert batch.num_prompt_tokens[0] == 3
