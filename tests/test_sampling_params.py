import dataclasses
import pickle

import pytest

from minivllm.errors import RequestError
from minivllm.sampling_params import SamplingParams

NAN, INF = float("nan"), float("inf")

NO_BOOLS = [0, 1, None, "yes", 1.0]
NO_TEXTS = [5, "", [""], ["a", ""], [1], b"ab", [b"ab"], {"a"}, {"a": 1}, True, [None]]

WRONG = {
    "n": [0, -1, 1.0, "1", None, True],
    "temperature": [-0.1, -1, NAN, INF, -INF, "1", None, True, [1.0], 10**400, 1j],
    "top_p": [0, 0.0, -0.5, 1.001, 2, NAN, INF, "0.9", None, True],
    "top_k": [-2, 1.0, 2.5, NAN, "5", None, True, [1]],
    "min_p": [-0.1, 1.01, NAN, INF, "0.1", None, True],
    "seed": [1.0, NAN, "1", True, [1]],
    "presence_penalty": [-2.1, 2.1, NAN, INF, "1", None, True],
    "frequency_penalty": [-2.1, 2.1, NAN, INF, "1", None, True],
    "repetition_penalty": [0, -1, NAN, INF, "1", None, True],
    "logit_bias": [[1], "ab", {-1: 0.0}, {1.0: 1.0}, {"1": 1.0}, {1: NAN}, {1: INF}, {1: "a"}, 0],
    "bad_words": NO_TEXTS[2:],
    "max_tokens": [0, -1, 1.0, NAN, INF, "16", True, [1]],
    "min_tokens": [-1, 17, 1.0, NAN, "1", None, True],
    "stop": [value for value in NO_TEXTS if value != ["a"]],
    "stop_token_ids": [[-1], [1.0], ["a"], "ab", b"ab", 5, 0, False, "", {}, {1}, [[1]], [True]],
    "include_stop_str_in_output": NO_BOOLS,
    "ignore_eos": NO_BOOLS,
    "logprobs": [-1, 1.0, "1", True, NAN],
    "prompt_logprobs": [-1, 1.0, "1", True, NAN],
    "skip_special_tokens": NO_BOOLS,
    "detokenize": NO_BOOLS,
}

RIGHT = {
    "n": [1, 5],
    "temperature": [0, 0.0, 1e-9, 0.7, 2, 100.0],
    "top_p": [1e-9, 0.5, 1, 1.0],
    "top_k": [-1, 0, 1, 10**6],
    "min_p": [0, 0.5, 1.0],
    "seed": [None, 0, -1, 2**63],
    "presence_penalty": [-2, 0, 0.5, 2.0],
    "frequency_penalty": [-2, 0, 0.5, 2.0],
    "repetition_penalty": [0.1, 1, 2.0, 5],
    "logit_bias": [{}, {0: -100.0, 5: 3}],
    "max_tokens": [None, 1, 10**9],
    "min_tokens": [0, 1, 16],
    "logprobs": [None, 0, 20],
    "prompt_logprobs": [None, 0, 20],
    "ignore_eos": [True, False],
    "detokenize": [True, False],
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


@pytest.mark.parametrize("name", ["stop", "bad_words"])
@pytest.mark.parametrize(
    ("texts", "kept"), [(None, ()), ("end", ("end",)), (["a", "b"], ("a", "b")), ([], ())]
)
def test_texts_become_a_tuple(name, texts, kept):
    assert getattr(SamplingParams(**{name: texts}), name) == kept


def test_callers_lists_are_neither_kept_nor_changed():
    ids, texts, bias = [1, 2], ["a"], {3: 1.0}
    params = SamplingParams(stop_token_ids=ids, stop=texts, bad_words=texts, logit_bias=bias)
    ids.append(3)
    texts.append("b")
    bias[4] = 2.0
    assert params.stop_token_ids == (1, 2)
    assert (params.stop, params.bad_words) == (("a",), ("a",))
    assert params.logit_bias == {3: 1.0}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"min_tokens": 5, "max_tokens": 4}, "min_tokens=5 is more than max_tokens=4"),
        ({"n": 2, "temperature": 0}, "n=2 .* temperature"),
        ({"stop": "end", "detokenize": False}, "stop=.*end.* detokenize"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields, message):
    with pytest.raises(RequestError, match=message):
        SamplingParams(**fields)


def test_min_tokens_may_equal_max_tokens():
    assert SamplingParams(min_tokens=4, max_tokens=4).min_tokens == 4
    assert SamplingParams(min_tokens=400, max_tokens=None).min_tokens == 400


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
