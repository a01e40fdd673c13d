"""Sampled tokens that the host does not know yet: their places in the rows, and in the inputs."""

import numpy as np
import torch

from minivllm.messages import CachedRequestData, NewRequestData, SchedulerOutput
from minivllm.sampling_params import SamplingParams
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.prepare_inputs import prepare_inputs
from minivllm.worker.step_under_way import HostCopy, SampledStep, StepUnderWay

CPU = torch.device("cpu")


def plan(new=(), computed=None, gone=()):
    """The new requests, how many tokens the others have computed, and who has ended."""
    computed = computed or {}
    return SchedulerOutput(
        step=0,
        new_requests=[
            NewRequestData(
                request_id=name,
                token_ids=token_ids,
                num_prompt_tokens=len(token_ids),
                sampling_params=SamplingParams(temperature=0),
                seed=0,
                block_ids=[number, number + 8],
                num_computed_tokens=0,
            )
            for number, (name, token_ids) in enumerate(new)
        ],
        cached_requests=CachedRequestData(
            request_ids=list(computed),
            num_computed_tokens=list(computed.values()),
            new_block_ids=[[]] * len(computed),
        ),
        num_scheduled_tokens={},
        total_num_scheduled_tokens=0,
        finished_request_ids=gone,
    )


def batch_with(**prompts):
    batch = InputBatch(max_num_seqs=4, max_model_len=8, block_size=4)
    batch.update(plan(new=list(prompts.items())))
    return batch


def known(batch, name):
    row = batch.row_of[name]
    return batch.token_ids[row, : batch.num_tokens[row]].tolist()


def test_a_token_has_its_place_before_it_is_known():
    batch = batch_with(a=[5, 6], b=[7])
    expected = batch.expect_tokens(np.array([1, 0]), np.array([0, 1]))
    assert expected.request_ids == ["b", "a"]
    assert expected.positions.tolist() == [1, 2]
    assert batch.num_tokens[:2].tolist() == [3, 2]
    assert batch.unread[:2].tolist() == [1, 0]

    batch.enter_tokens(expected, np.array([30, 40]))
    assert (known(batch, "a"), known(batch, "b")) == ([5, 6, 40], [7, 30])
    assert batch.unread[:2].tolist() == [-1, -1]


def test_a_token_that_was_followed_by_another_is_entered_and_the_other_stays_unread():
    batch = batch_with(a=[5, 6])
    first = batch.expect_tokens(np.array([0]), np.array([0]))
    second = batch.expect_tokens(np.array([0]), np.array([2]))
    batch.enter_tokens(first, np.array([30]))
    assert batch.unread[0] == 2
    batch.enter_tokens(second, np.array([31]))
    assert (known(batch, "a"), batch.unread[0]) == ([5, 6, 30, 31], -1)


def test_a_token_follows_its_row_to_another_place():
    batch = batch_with(a=[5, 6], b=[7], c=[8])
    expected = batch.expect_tokens(np.array([0, 1, 2]), np.array([0, 1, 2]))
    batch.update(plan(gone=["a"]))
    assert batch.request_ids == ["c", "b"]
    assert batch.unread[:2].tolist() == [2, 1]
    batch.enter_tokens(expected, np.array([30, 31, 32]))
    assert (known(batch, "c"), known(batch, "b")) == ([8, 32], [7, 31])


def test_a_token_of_a_row_that_is_gone_goes_nowhere():
    batch = batch_with(a=[5, 6])
    expected = batch.expect_tokens(np.array([0]), np.array([0]))
    batch.update(plan(gone=["a"], new=[("a", [1, 2, 3])]))
    before = batch.token_ids.copy()
    batch.enter_tokens(expected, np.array([30]))
    assert (batch.token_ids == before).all()
    assert batch.unread[0] == -1
    batch.update(plan(gone=["a"]))
    batch.enter_tokens(expected, np.array([30]))
    assert (batch.token_ids == before).all()


def test_inputs_say_which_tokens_the_device_has_to_fill_in():
    batch = batch_with(a=[5, 6], b=[7, 7, 7], c=[8])
    batch.expect_tokens(np.array([0, 2]), np.array([1, 0]))
    batch.update(plan(computed={"a": 2, "b": 0, "c": 1}))
    inputs = prepare_inputs(batch, {"a": 1, "c": 1, "b": 2}, CPU)
    assert inputs.positions.tolist() == [2, 1, 0, 1]
    assert inputs.unread is not None
    assert inputs.unread.rows.tolist() == [0, 1]
    assert inputs.unread.sources.tolist() == [1, 0]
    assert inputs.sampled_rows.tolist() == [0, 2]
    assert prepare_inputs(batch, {"b": 2}, CPU).unread is None


def test_the_result_of_a_step_tells_its_rows():
    batch = batch_with(a=[5, 6])
    expected = batch.expect_tokens(np.array([0]), np.array([0]))
    sampled = SampledStep(batch=batch, expected=expected, token_ids=HostCopy(torch.tensor([9])))
    output = StepUnderWay(sampled=sampled).result()
    assert (output.request_ids, output.sampled_token_ids) == (["a"], [9])
    assert known(batch, "a") == [5, 6, 9]


def test_a_step_that_samples_nothing_has_an_empty_result():
    output = StepUnderWay().result()
    assert (output.request_ids, output.sampled_token_ids) == ((), ())
