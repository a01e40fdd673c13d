"""The rotation speed of each plane of a head, and the four ways to stretch a model's context.

Plane i turns `theta ** (-2i / head_dim)` radians per token: the first planes spin and tell
neighbours apart, the last ones creep and tell far from near. At positions beyond the training
length the creeping planes reach angles that the model has never met. The remedies slow planes down:

    default   none
    linear    all by `factor`
    llama3    by `factor` those that turn less than `low_freq_factor` times over the training
              length; none that turn more than `high_freq_factor` times; a blend in between
    yarn      the same with `beta_slow` and `beta_fast`, where the blend runs linearly over the
              planes; and cos and sin grow a little (`rotation_magnitude`)

All of it in float32, in the order of operations of Hugging Face's modeling_rope_utils.py, so that
the angles are the same to the last bit. Next file to read: `attention.py`.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float32
from torch import Tensor

from minivllm.layers.rope_parameters import RopeParameters


def inverse_frequencies(rope: RopeParameters, head_dim: int) -> Float32[Tensor, " half_head_dim"]:
    """Radians per token of each plane, on the CPU."""
    # The device is named: inside `with torch.device("cuda")` powers may round differently.
    exponents = torch.arange(0, head_dim, 2, dtype=torch.float32, device="cpu") / head_dim
    tokens_per_radian = rope.theta**exponents
    match rope.rope_type:
        case "default":
            return 1.0 / tokens_per_radian
        case "linear":
            return 1.0 / tokens_per_radian / rope.factor
        case "llama3":
            return _llama3(rope, 1.0 / tokens_per_radian)
        case "yarn":
            return _yarn(rope, tokens_per_radian)


def rotation_magnitude(rope: RopeParameters) -> float:
    """What cos and sin are multiplied by; 1.0 except for yarn.

    Scores grow by its square, which keeps attention over a longer context as sharp as before.
    Paper: YaRN, arXiv:2309.00071, section 3.4.
    """
    if rope.rope_type != "yarn":
        return 1.0
    if rope.attention_factor is not None:
        return rope.attention_factor
    if rope.mscale and rope.mscale_all_dim:
        return _yarn_scale(rope, rope.mscale) / _yarn_scale(rope, rope.mscale_all_dim)
    return _yarn_scale(rope, 1.0)


def _yarn_scale(rope: RopeParameters, weight: float) -> float:
    return 1.0 if rope.factor <= 1 else 0.1 * weight * math.log(rope.factor) + 1.0


def _llama3(rope: RopeParameters, inv_freq: Tensor) -> Tensor:
    """Source: Llama 3.1, models/llama3/reference_impl/model.py, `apply_scaling`."""
    length = rope.original_max_position_embeddings
    low, high = rope.low_freq_factor, rope.high_freq_factor
    assert length, "a llama3 config names the training length"
    assert low, "a llama3 config names low_freq_factor"
    assert high, "a llama3 config names high_freq_factor"
    turns = length / (2 * math.pi / inv_freq)  # over the training length
    keep = ((turns - low) / (high - low)).clamp(0, 1)  # 1 is the full speed
    return (1 - keep) * inv_freq / rope.factor + keep * inv_freq


def _yarn(rope: RopeParameters, tokens_per_radian: Tensor) -> Tensor:
    """Paper: YaRN, arXiv:2309.00071, section 3.2."""
    first, last = _yarn_blend(rope, head_dim=2 * len(tokens_per_radian))
    planes = torch.arange(len(tokens_per_radian), dtype=torch.float32, device="cpu")
    keep = 1 - ((planes - first) / (last - first)).clamp(0, 1)  # 1 is the full speed
    slow, full = 1.0 / (rope.factor * tokens_per_radian), 1.0 / tokens_per_radian
    return slow * (1 - keep) + full * keep


def _yarn_blend(rope: RopeParameters, head_dim: int) -> tuple[float, float]:
    """The planes between which full speed turns into slow speed."""
    length = rope.original_max_position_embeddings
    assert length, "a yarn config names the training length"

    def plane_that_turns(times: float) -> float:
        """Solves `length * theta ** (-2i / head_dim) == 2 pi * times` for i."""
        return head_dim * math.log(length / (times * 2 * math.pi)) / (2 * math.log(rope.theta))

    first, last = plane_that_turns(rope.beta_fast), plane_that_turns(rope.beta_slow)
    if rope.truncate:
        first, last = float(math.floor(first)), float(math.ceil(last))
    first, last = max(first, 0.0), min(last, head_dim - 1.0)
    return first, last if last != first else last + 0.001  # no division by zero
