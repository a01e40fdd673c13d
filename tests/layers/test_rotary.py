import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from minivllm.layers.rope_parameters import RopeParameters
from minivllm.layers.rotary import RotaryEmbedding, apply_rotary

HEAD_DIM = 64
ROPES = {
    "default": {"theta": 10_000.0},
    "large_theta": {"theta": 1e6},
    "linear": {"rope_type": "linear", "factor": 3.0},
    "llama3": {
        "rope_type": "llama3",
        "theta": 500_000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192,
    },
    "yarn": {
        "rope_type": "yarn",
        "theta": 1e6,
        "factor": 4.0,
        "original_max_position_embeddings": 32_768,
    },
    "yarn_betas": {
        "rope_type": "yarn",
        "factor": 3.0,
        "original_max_position_embeddings": 512,
        "beta_fast": 12.0,
        "beta_slow": 2.0,
    },
    "yarn_untruncated": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "truncate": False,
    },
    "yarn_attention_factor": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
        "attention_factor": 0.7,
    },
    "yarn_mscale": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": 0.707,
        "mscale_all_dim": 1.3,
    },
    "yarn_mscale_alone": {
        "rope_type": "yarn",
        "factor": 40.0,
        "original_max_position_embeddings": 4096,
        "mscale": 0.707,
    },
    "yarn_factor_of_one": {
        "rope_type": "yarn",
        "factor": 1.0,
        "original_max_position_embeddings": 4096,
    },
    "yarn_factor_below_one": {
        "rope_type": "yarn",
        "factor": 0.5,
        "original_max_position_embeddings": 4096,
    },
    "yarn_of_a_length_that_all_planes_turn_over": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 131_072,
    },
    "yarn_of_a_step_between_two_planes": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 4.0,
        "beta_slow": 4.0,
        "truncate": False,
    },
    "yarn_of_a_length_so_short_that_no_plane_turns": {
        "rope_type": "yarn",
        "factor": 2.0,
        "original_max_position_embeddings": 4,
    },
}
POSITIONS = torch.tensor([0, 1, 2, 31, 511, 512, 4095, 4096, 32_767, 131_071, 1_000_000])
EXTRA_KEYS = {
    "linear": ("factor",),
    "llama3": (
        "factor",
        "low_freq_factor",
        "high_freq_factor",
        "original_max_position_embeddings",
    ),
    "yarn": (
        "factor",
        "original_max_position_embeddings",
        "attention_factor",
        "beta_fast",
        "beta_slow",
        "mscale",
        "mscale_all_dim",
        "truncate",
    ),
}


def hf_rotary(rope):
    keys = EXTRA_KEYS.get(rope.rope_type, ())
    extra = {key: getattr(rope, key) for key in keys if getattr(rope, key) is not None}
    config = LlamaConfig(
        hidden_size=4 * HEAD_DIM,
        num_attention_heads=4,
        max_position_embeddings=131_072,
        rope_parameters={"rope_type": rope.rope_type, "rope_theta": rope.theta, **extra},
    )
    return LlamaRotaryEmbedding(config)


def unsigned(sin):
    """The sines as transformers has them: not negated in the first half."""
    half = sin.shape[-1] // 2
    return torch.cat((-sin[..., :half], sin[..., half:]), dim=-1)


@pytest.mark.parametrize("fields", ROPES.values(), ids=ROPES.keys())
def test_frequencies_equal_those_of_transformers_to_the_bit(fields):
    rope = RopeParameters(**fields)
    assert torch.equal(RotaryEmbedding(rope, HEAD_DIM).inv_freq, hf_rotary(rope).inv_freq)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("fields", ROPES.values(), ids=ROPES.keys())
def test_cos_and_sin_equal_those_of_transformers_at_long_positions(fields, dtype):
    rope = RopeParameters(**fields)
    cos, sin = RotaryEmbedding(rope, HEAD_DIM)(POSITIONS, dtype)
    hf_cos, hf_sin = hf_rotary(rope)(torch.empty(1, dtype=dtype), POSITIONS[None])
    assert cos.dtype == sin.dtype == dtype
    # not to the bit: a matrix product may round an angle otherwise than a plain one
    tolerance = 1e-6 if dtype == torch.float32 else 8e-3
    torch.testing.assert_close(cos[:, 0], hf_cos[0], atol=tolerance, rtol=0)
    torch.testing.assert_close(unsigned(sin[:, 0]), hf_sin[0], atol=tolerance, rtol=0)


def test_turned_heads_equal_those_of_transformers():
    rope = RopeParameters()
    q, k = torch.randn(11, 4, HEAD_DIM), torch.randn(11, 2, HEAD_DIM)
    hf_cos_sin = hf_rotary(rope)(q, POSITIONS[None])
    expected = apply_rotary_pos_emb(q.transpose(0, 1)[None], k.transpose(0, 1)[None], *hf_cos_sin)
    cos, sin = RotaryEmbedding(rope, HEAD_DIM)(POSITIONS, torch.float32)
    together = apply_rotary(torch.cat((q, k), dim=1), cos, sin)
    for ours, theirs in zip(together.tensor_split([4], dim=1), expected, strict=True):
        torch.testing.assert_close(ours, theirs[0].transpose(0, 1), atol=1e-5, rtol=0)


def test_scores_depend_on_the_distance_alone():
    rotary = RotaryEmbedding(RopeParameters(), HEAD_DIM)
    q, k = torch.randn(2, 1, 1, HEAD_DIM).unbind()

    def score(q_position, k_position):
        turned_q = apply_rotary(q, *rotary(torch.tensor([q_position]), torch.float32))
        turned_k = apply_rotary(k, *rotary(torch.tensor([k_position]), torch.float32))
        return (turned_q * turned_k).sum()

    torch.testing.assert_close(score(7, 3), score(104, 100), atol=1e-3, rtol=0)
    assert (score(7, 3) - score(7, 4)).abs() > 1e-3


def test_frequencies_stay_float32_when_the_model_is_cast():
    rotary = RotaryEmbedding(RopeParameters(), HEAD_DIM)
    before = rotary(POSITIONS, torch.float32)
    after = rotary.to(torch.bfloat16)(POSITIONS, torch.float32)
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])


def test_frequencies_stay_float32_when_the_model_is_built_in_bfloat16():
    torch.set_default_dtype(torch.bfloat16)
    try:
        rotary = RotaryEmbedding(RopeParameters(**ROPES["yarn"]), HEAD_DIM)
    finally:
        torch.set_default_dtype(torch.float32)
    expected = RotaryEmbedding(RopeParameters(**ROPES["yarn"]), HEAD_DIM)
    assert torch.equal(rotary.inv_freq, expected.inv_freq)
