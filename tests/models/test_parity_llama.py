import pytest
from parity import assert_parity, in_chunks, in_one_step
from tiny_models import hf_model

from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention

LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 10000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = {
    "default": {},
    "tied": {"tie_word_embeddings": True},
    "linear": {"rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}},
    "llama3": {"rope_parameters": LLAMA3},
    "yarn": {"rope_parameters": YARN},
    "yarn_untruncated": {"rope_parameters": YARN | {"truncate": False, "attention_factor": 0.8}},
    "attention_bias": {"attention_bias": True},
    "mlp_bias": {"mlp_bias": True},
    "wide_heads": {"head_dim": 16},
    "one_kv_head": {"num_key_value_heads": 1},
    "no_shared_kv_heads": {"num_key_value_heads": 4},
}


@pytest.mark.parametrize("backend", [ReferenceAttention, SdpaAttention])
@pytest.mark.parametrize("plan", [in_one_step, in_chunks])
@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES.keys())
def test_logits_equal_those_of_transformers(overrides, plan, backend):
    assert_parity(hf_model("llama", **overrides), backend(), plan)
