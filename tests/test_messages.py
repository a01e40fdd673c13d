import dataclasses
import pickle

import pytest

from minivllm.messages import (
    CachedRequestData,
    EngineCoreOutput,
    ModelRunnerOutput,
    NewRequestData,
    SchedulerOutput,
)
from minivllm.sampling_params import SamplingParams

NEW = NewRequestData(
    request_id="a",
    token_ids=(1, 2, 3),
    num_prompt_tokens=2,
    sampling_params=SamplingParams(stop_token_ids=[4]),
    seed=9,
    block_ids=[0, 5],
    num_computed_tokens=0,
)
CACHED = CachedRequestData(request_ids=["b"], num_computed_tokens=[7], new_block_ids=[[3]])
PLAN = SchedulerOutput(
    step=2,
    new_requests=[NEW],
    cached_requests=CACHED,
    num_scheduled_tokens={"b": 1, "a": 3},
    total_num_scheduled_tokens=4,
    preempted_request_ids=["c"],
    finished_request_ids=["d"],
)
RESULT = ModelRunnerOutput(request_ids=["b", "a"], sampled_token_ids=[11, 12])
OUTPUT = EngineCoreOutput("a", (12,), "stop", 12)
ALL = [NEW, CACHED, PLAN, RESULT, OUTPUT]


def name_of(message):
    return type(message).__name__


@pytest.mark.parametrize("message", ALL, ids=name_of)
def test_message_survives_pickling(message):
    assert pickle.loads(pickle.dumps(message)) == message


@pytest.mark.parametrize("message", [NEW, CACHED, PLAN, RESULT], ids=name_of)
def test_message_cannot_be_changed(message):
    name = dataclasses.fields(message)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(message, name, "other")


def plain(value):
    """Whether `value` is made of numbers, strings, containers and our own dataclasses."""
    if dataclasses.is_dataclass(value):
        return all(plain(getattr(value, f.name)) for f in dataclasses.fields(value))
    if isinstance(value, dict):
        return plain(list(value)) and plain(list(value.values()))
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or type(value) in (int, float, bool, str)


@pytest.mark.parametrize("message", ALL, ids=name_of)
def test_message_is_plain_data(message):
    assert plain(message)


def test_empty_plan_has_nothing_in_it():
    plan = SchedulerOutput(step=0, num_scheduled_tokens={}, total_num_scheduled_tokens=0)
    assert (plan.new_requests, plan.preempted_request_ids, plan.finished_request_ids) == ((),) * 3
    assert plan.cached_requests == CachedRequestData()


def test_output_of_a_running_request_has_no_reason():
    output = EngineCoreOutput("a", (1,))
    assert output.finish_reason is None
    assert output.stop_reason is None
    assert (output.logprobs, output.prompt_logprobs) == (None, None)
