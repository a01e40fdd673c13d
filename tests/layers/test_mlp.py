import pytest
import torch
from tiny_models import hf_model
from transformers.models.llama.modeling_llama import LlamaMLP

from minivllm.layers.mlp import SwiGLU
from minivllm.models.loader import destinations
from minivllm.parallel import TensorParallel


@pytest.mark.parametrize("num_rows", [1, 5, 12, 32, 130])
@pytest.mark.parametrize("bias", [False, True])
def test_swiglu_equals_that_of_transformers(bias, num_rows):
    theirs = hf_model("llama", mlp_bias=bias).model.layers[0].mlp
    assert isinstance(theirs, LlamaMLP)
    ours = SwiGLU(32, 48, bias=bias, tp=TensorParallel())
    for name, target in destinations(ours).items():
        target.copy_(theirs.state_dict()[name])
    x = torch.randn(num_rows, 32)
    with torch.inference_mode():
        torch.testing.assert_close(ours(x), theirs(x), atol=1e-5, rtol=1e-5)
