import pytest
from parity import assert_parity, in_chunks, in_one_step
from tiny_models import hf_model

from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention

CASES = {
    "full_attention": {"sliding_window": None},
    "window": {"sliding_window": 5},
    "window_of_one": {"sliding_window": 1},
    "window_beyond_the_prompts": {"sliding_window": 64},
    "tied": {"sliding_window": 5, "tie_word_embeddings": True},
    "wide_heads": {"sliding_window": None, "head_dim": 16},
}


@pytest.mark.parametrize("backend", [ReferenceAttention, SdpaAttention])
@pytest.mark.parametrize("plan", [in_one_step, in_chunks])
@pytest.mark.parametrize("overrides", CASES.values(), ids=CASES.keys())
def test_logits_equal_those_of_transformers(overrides, plan, backend):
    assert_parity(hf_model("mistral", **overrides), backend(), plan)
