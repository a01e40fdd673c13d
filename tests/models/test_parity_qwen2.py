import pytest
from parity import assert_parity, in_chunks, in_one_step
from tiny_models import hf_model

from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention

WINDOW = {"use_sliding_window": True, "sliding_window": 5}
CASES = {
    "default": {},
    "tied": {"tie_word_embeddings": True},
    "window_from_the_second_layer": WINDOW | {"max_window_layers": 1},
    "window_by_layer": WINDOW
    | {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    "window_switched_off": {"use_sliding_window": False, "sliding_window": 5},
    "yarn": {
        "rope_parameters": {
            "rope_type": "yarn",
            "rope_theta": 1e6,
            "factor": 4.0,
            "original_max_position_embeddings": 32,
        }
    },
}


@pytest.mark.parametrize("backend", [ReferenceAttention, SdpaAttention])
@pytest.mark.parametrize("plan", [in_one_step, in_chunks])
@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES.keys())
def test_logits_equal_those_of_transformers(overrides, plan, backend):
    assert_parity(hf_model("qwen2", **overrides), backend(), plan)
