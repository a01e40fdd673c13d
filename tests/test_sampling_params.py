import dataclasses
import pickle

import pytest

from minivllm.errors import RequestError
from minivllm.sampling_params import SamplingParams

NAN, INF = float("nan"), float("inf")

WRONG = {
    "temperature": [-0.1, -1, NAN, INF, -INF, "1", None, True, [1.0], 10**400, 1j],
    "top_p": [0, 0.0, -0.5, 1.001, 2, NAN, INF, "0.9", None, True],
    "top_k": [-2, 1.0, 2.5, NAN, "5", None, True, [1]],
    "seed": [1.0, NAN, "1", True, [1]],
    "max_tokens": [0, -1, 1.0, NAN, INF, "16", True, [1]],
    "stop_token_ids": [[-1], [1.0], ["a"], "ab", b"ab", 5, 0, False, "", {}, {1}, [[1]], [True]],
    "ignore_eos": [0, 1, None, "yes", 1.0],
}

RIGHT = {
    "temperature": [0, 0.0, 1e-9, 0.7, 2, 100.0],
    "top_p": [1e-9, 0.5, 1, 1.0],
    "top_k": [-1, 0, 1, 10**6],
    "seed": [None, 0, -1, 2**63],
    "max_tokens": [None, 1, 10**9],
    "ignore_eos": [True, False],
}


def cases(table):
    return [
        pytest.param(name, value, id=f"{name}={value!r}"[:60])
        for name, values in table.items()
        for value in values
    ]


def test_every_field_is_in_the_table_of_wrong_values():
    assert {f.name for f in dataclasses.fields(SamplingParams)} == WRONG.keys()


@pytest.mark.parametrize(("name", "value"), cases(WRONG))
def test_wrong_value_is_refused_with_its_name_and_value(name, value):
    with pytest.raises(RequestError) as error:
        SamplingParams(**{name: value})
    assert f"{name}={value!r}" in str(error.value)


@pytest.mark.parametrize(("name", "value"), cases(RIGHT))
def test_right_value_is_kept_as_it_is(name, value):
    assert getattr(SamplingParams(**{name: value}), name) == value


def test_a_request_error_is_a_value_error():
    with pytest.raises(ValueError, match="temperature=-1"):
        SamplingParams(temperature=-1)


@pytest.mark.parametrize("ids", [[], (), [0], [5, 5, 2], (7,), range(3)])
def test_stop_token_ids_become_a_tuple(ids):
    assert SamplingParams(stop_token_ids=ids).stop_token_ids == tuple(ids)


def test_no_stop_token_ids_are_an_empty_tuple():
    assert SamplingParams(stop_token_ids=None).stop_token_ids == ()
    assert SamplingParams() == SamplingParams(stop_token_ids=[])


def test_callers_list_is_neither_kept_nor_changed():
    ids = [1, 2]
    params = SamplingParams(stop_token_ids=ids)
    ids.append(3)
    assert params.stop_token_ids == (1, 2)
    assert ids == [1, 2, 3]


def test_params_are_frozen_hashable_and_survive_pickling():
    params = SamplingParams(temperature=0.5, stop_token_ids=[1], seed=4, max_tokens=None)
    assert pickle.loads(pickle.dumps(params)) == params
    assert hash(params) == hash(dataclasses.replace(params))
    with pytest.raises(dataclasses.FrozenInstanceError):
        params.temperature = 1.0


def test_fields_are_named_not_counted():
    with pytest.raises(TypeError):
        SamplingParams(0.5)


def test_unknown_field_is_refused_by_name():
    with pytest.raises(TypeError, match="temprature"):
        SamplingParams(temprature=0.5)


@pytest.mark.parametrize(("temperature", "greedy"), [(0, True), (0.0, True), (1e-6, False)])
def test_only_temperature_0_is_greedy(temperature, greedy):
    assert SamplingParams(temperature=temperature, top_k=5, top_p=0.5).is_greedy is greedy


def test_defaults_are_vllms():
    params = SamplingParams()
    assert (params.temperature, params.top_p, params.max_tokens) == (1.0, 1.0, 16)
    assert params.seed is None
    assert params.ignore_eos is False
