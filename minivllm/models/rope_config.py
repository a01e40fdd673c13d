"""parse_rope: how a model's config.json says that positions become rotation angles.

The same facts stand in three places, by the age of the file: `rope_theta` and `rope_scaling`
(transformers 4.x), or both inside `rope_parameters` (5.x). This module brings them under one set
of names. Next file: `minivllm/layers/rope_frequencies.py`, which turns them into frequencies.
"""

from __future__ import annotations

from minivllm.errors import CheckpointError
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.models.json_fields import JsonFields

DEFAULT_THETA = 10_000.0  # of all four families, when the file names none


def parse_rope(config: JsonFields) -> RopeParameters:
    """The rotary parameters of a config.json of either age.

    Raises:
        CheckpointError: The kind of scaling is unknown, or a number is missing or wrong.
    """
    old, new = config.section("rope_scaling"), config.section("rope_parameters")
    scaling = old if old.values else new  # where a file has both, transformers 5 takes the old one
    theta = _theta(new, config, old)
    _refuse_other_rotations(config, scaling)
    kind = scaling.values.get("rope_type") or scaling.values.get("type") or "default"
    match kind:
        case "default":
            return RopeParameters(theta=theta)
        case "linear":
            return RopeParameters(rope_type="linear", theta=theta, factor=scaling.number("factor"))
        case "llama3":
            return _llama3(theta, scaling, _original_length(config, scaling))
        case "yarn":
            return _yarn(theta, scaling, config)
    raise CheckpointError(
        f"{scaling.where}: rope_type={kind!r} is not supported; "
        "the known ones are default, linear, llama3, yarn"
    )


def _theta(*places: JsonFields) -> float:
    for place in places:
        if place.has("rope_theta"):
            return place.number("rope_theta")
    return DEFAULT_THETA


def _refuse_other_rotations(config: JsonFields, scaling: JsonFields) -> None:
    for place in (scaling, config):
        if place.has("partial_rotary_factor") and place.number("partial_rotary_factor") != 1:
            raise place.error("partial_rotary_factor", "is not supported: only whole heads rotate")
    for name, value in scaling.values.items():
        if isinstance(value, dict):
            raise scaling.error(name, "is not supported: all layers share one rotation")


def _llama3(theta: float, scaling: JsonFields, original_length: int) -> RopeParameters:
    low, high = scaling.number("low_freq_factor"), scaling.number("high_freq_factor")
    if high <= low:
        raise scaling.error("high_freq_factor", f"must be above low_freq_factor={low}")
    return RopeParameters(
        rope_type="llama3",
        theta=theta,
        factor=scaling.number("factor"),
        original_max_position_embeddings=original_length,
        low_freq_factor=low,
        high_freq_factor=high,
    )


def _yarn(theta: float, scaling: JsonFields, config: JsonFields) -> RopeParameters:
    def optional(name: str) -> float | None:
        return scaling.number(name) if scaling.values.get(name) else None  # 0 is "not set" here

    original_length = _original_length(config, scaling)
    if "factor" in scaling.values and not scaling.has("factor"):
        factor = config.integer("max_position_embeddings") / original_length
    else:
        factor = scaling.number("factor")
    return RopeParameters(
        rope_type="yarn",
        theta=theta,
        factor=factor,
        original_max_position_embeddings=original_length,
        attention_factor=optional("attention_factor"),
        beta_fast=optional("beta_fast") or 32.0,
        beta_slow=optional("beta_slow") or 1.0,
        mscale=optional("mscale"),
        mscale_all_dim=optional("mscale_all_dim"),
        truncate=scaling.flag("truncate") if "truncate" in scaling.values else True,
    )


def _original_length(config: JsonFields, scaling: JsonFields) -> int:
    """The context the model was trained on, before its rotation was stretched."""
    for place in (config, scaling):
        if place.has("original_max_position_embeddings"):
            return place.integer("original_max_position_embeddings")
    return config.integer("max_position_embeddings")
