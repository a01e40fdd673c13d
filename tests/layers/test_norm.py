import pytest
import torch
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from minivllm.layers.norm import RMSNorm


def both(size, dtype, eps=1e-5):
    ours, theirs = RMSNorm(size, eps).to(dtype), LlamaRMSNorm(size, eps).to(dtype)
    weight = torch.randn(size, generator=torch.Generator().manual_seed(0))
    ours.weight.copy_(weight)
    theirs.weight.data.copy_(weight)
    return ours, theirs


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(1, 24), (7, 24), (5, 3, 24)])
def test_rms_norm_equals_that_of_transformers(shape, dtype):
    ours, theirs = both(24, dtype)
    x = (torch.randn(shape) * 3).to(dtype)
    assert torch.equal(ours(x), theirs(x))


def test_eps_counts_for_tiny_rows():
    ours, theirs = both(24, torch.float32, eps=1e-2)
    x = torch.randn(4, 24) * 1e-3
    assert torch.equal(ours(x), theirs(x))
    assert ours(x).abs().max() < 0.2


def test_squares_that_overflow_float16_do_not_matter():
    ours, _ = both(24, torch.float16)
    assert torch.isfinite(ours(torch.full((2, 24), 1000.0, dtype=torch.float16))).all()


def test_the_input_is_left_alone():
    ours, _ = both(24, torch.float32)
    x = torch.randn(4, 24)
    before = x.clone()
    ours(x)
    assert torch.equal(x, before)


def test_a_transposed_input_gives_the_same_rows():
    ours, theirs = both(24, torch.float32)
    x = torch.randn(24, 6).t()
    torch.testing.assert_close(ours(x), theirs(x.contiguous()))
