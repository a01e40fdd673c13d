from typing import Any

import pytest

from minivllm.errors import CheckpointError
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.models.json_fields import JsonFields
from minivllm.models.rope_config import parse_rope

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}


def parse(**fields: Any) -> RopeParameters:
    return parse_rope(JsonFields({"max_position_embeddings": 4096, **fields}, "config.json"))


@pytest.mark.parametrize(
    ("fields", "theta"),
    [
        ({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}, 1e6),
        ({"rope_parameters": {"rope_theta": 1e6}, "rope_theta": 5e5}, 1e6),
        ({"rope_parameters": {"rope_type": "default"}, "rope_theta": 5e5}, 5e5),
        ({"rope_theta": 500_000}, 5e5),
        ({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 2.0}}, 5e5),
        ({"rope_scaling": {"type": "linear", "factor": 2.0, "rope_theta": 3e5}}, 3e5),
        ({"rope_parameters": None, "rope_scaling": None, "rope_theta": None}, 10_000.0),
        ({"rope_parameters": {}, "rope_scaling": {}}, 10_000.0),
        ({}, 10_000.0),
    ],
)
def test_theta_is_found_where_the_file_keeps_it(fields: dict[str, Any], theta: float) -> None:
    assert parse(**fields).theta == theta


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"rope_scaling": None},
        {"rope_scaling": {"type": "default"}},
        {"rope_scaling": {"rope_type": None}},
        {"rope_parameters": {"rope_theta": 10_000.0, "rope_type": "default"}},
        {"rope_parameters": {"rope_theta": 10_000.0, "partial_rotary_factor": 1.0}},
    ],
)
def test_no_scaling_in_any_spelling_is_the_default(fields: dict[str, Any]) -> None:
    assert parse(**fields) == RopeParameters()


@pytest.mark.parametrize("name", ["dynamic", "longrope", "su", "mrope", "proportional", ["yarn"]])
@pytest.mark.parametrize("place", ["rope_scaling", "rope_parameters"])
@pytest.mark.parametrize("spelling", ["type", "rope_type"])
def test_other_scaling_is_refused_by_name(name: object, place: str, spelling: str) -> None:
    with pytest.raises(CheckpointError, match="default, linear, llama3, yarn") as error:
        parse(**{place: {spelling: name, "factor": 2.0}})
    assert f"rope_type={name!r}" in str(error.value)


@pytest.mark.parametrize("missing", ["factor", "low_freq_factor", "high_freq_factor"])
def test_missing_number_of_llama3_is_named(missing: str) -> None:
    scaling = {name: value for name, value in LLAMA3.items() if name != missing}
    with pytest.raises(CheckpointError, match=f"rope_scaling: {missing} is missing"):
        parse(rope_scaling=scaling)


@pytest.mark.parametrize("kind", ["linear", "yarn"])
def test_missing_factor_is_named(kind: str) -> None:
    with pytest.raises(CheckpointError, match="factor is missing"):
        parse(rope_scaling={"type": kind})


@pytest.mark.parametrize("value", ["2", 0, -1.0, True, float("inf"), [2]])
def test_wrong_factor_is_named_with_its_value(value: object) -> None:
    with pytest.raises(CheckpointError) as error:
        parse(rope_scaling={"type": "linear", "factor": value})
    assert f"factor={value!r}" in str(error.value)


def test_llama3_band_must_not_be_empty() -> None:
    with pytest.raises(CheckpointError, match=r"high_freq_factor=1\.0"):
        parse(rope_scaling={**LLAMA3, "high_freq_factor": 1.0})


@pytest.mark.parametrize("scaling", [LLAMA3, YARN], ids=["llama3", "yarn"])
def test_original_length_beside_the_scaling_wins_then_inside_then_the_model_length(
    scaling: dict[str, Any],
) -> None:
    name = "original_max_position_embeddings"
    bare = {key: value for key, value in scaling.items() if key != name}
    both = parse(rope_scaling=scaling, original_max_position_embeddings=99)
    assert both.original_max_position_embeddings == 99
    inside = parse(rope_scaling=scaling)
    assert inside.original_max_position_embeddings == scaling[name]
    assert parse(rope_scaling=bare).original_max_position_embeddings == 4096


def test_yarn_keeps_all_its_numbers() -> None:
    optional = {
        "attention_factor": 1.25,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
        "mscale": 0.5,
        "mscale_all_dim": 0.75,
        "truncate": False,
    }
    rope = parse(rope_parameters={**YARN, **optional, "rope_theta": 1e6})
    assert {name: getattr(rope, name) for name in optional} == optional
    assert (rope.factor, rope.theta) == (4.0, 1e6)


def test_yarn_fills_in_what_is_null_or_zero() -> None:
    rope = parse(rope_scaling={**YARN, "beta_fast": None, "beta_slow": 0, "mscale": 0})
    assert (rope.beta_fast, rope.beta_slow, rope.mscale, rope.truncate) == (32.0, 1.0, None, True)


def test_yarn_with_null_factor_stretches_to_the_model_length() -> None:
    assert parse(rope_scaling={**YARN, "factor": None}).factor == 4096 / 1024


@pytest.mark.parametrize(
    "fields",
    [
        {"partial_rotary_factor": 0.5},
        {"rope_parameters": {"rope_theta": 1e4, "partial_rotary_factor": 0.25}},
    ],
)
def test_partial_rotation_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="partial_rotary_factor"):
        parse(**fields)


def test_rotation_per_layer_type_is_refused() -> None:
    per_type = {"full_attention": {"rope_theta": 1e6}, "sliding_attention": {"rope_theta": 1e4}}
    with pytest.raises(CheckpointError, match="full_attention"):
        parse(rope_parameters=per_type)


def test_scaling_in_both_places_is_the_old_one_with_the_new_theta() -> None:
    rope = parse(
        rope_scaling={"type": "linear", "factor": 2.0},
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
    )
    assert rope == RopeParameters(rope_type="linear", theta=1e6, factor=2.0)
