import pytest
import torch
from torch.nn import functional as F

from minivllm.layers.linear import FusedLinear, RowParallelLinear, matmul
from minivllm.parallel import TensorParallel

TP = TensorParallel()
ROWS = [1, 2, 3, 8, 9, 12, 15, 16, 17, 64, 128, 129]


def random(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


def fill(module):
    for parameter in module.parameters():
        parameter.copy_(random(*parameter.shape))
    return module


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("num_rows", ROWS)
def test_matmul_equals_the_product_in_float64(num_rows, has_bias):
    x, weight, bias = random(num_rows, 24), random(40, 24), random(40)
    expected = x.double() @ weight.double().T + (bias.double() if has_bias else 0)
    torch.testing.assert_close(
        matmul(x, weight, bias if has_bias else None).double(), expected, atol=1e-5, rtol=1e-5
    )


@pytest.mark.parametrize("num_rows", ROWS)
def test_matmul_takes_a_transposed_input(num_rows):
    x, weight = random(24, num_rows).t(), random(40, 24)
    torch.testing.assert_close(matmul(x, weight), F.linear(x, weight), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("num_rows", [1, 12])
def test_matmul_pads_with_nothing_of_its_own(num_rows):
    """A row is the same product whatever the rows beside it, added zero rows included."""
    x, weight = random(num_rows, 24), random(40, 24)
    before = x.clone()
    out = matmul(x, weight)
    assert out.shape == (num_rows, 40)
    assert torch.equal(x, before)
    torch.testing.assert_close(out[:1], matmul(x[:1], weight))


@pytest.mark.parametrize("num_rows", [1, 12, 32, 200])
def test_matmul_copies_no_weight(num_rows):
    x, weight = torch.randn(num_rows, 8), torch.randn(100_000, 8)
    with torch.profiler.profile(profile_memory=True) as profile:
        matmul(x, weight)
    num_columns = {1: 2, 12: 16}.get(num_rows, num_rows)
    result_bytes = num_columns * 100_000 * 4
    largest = max(event.self_cpu_memory_usage for event in profile.key_averages())
    assert largest <= result_bytes + 4096


@pytest.mark.parametrize("num_rows", [1, 40])
def test_matmul_in_bfloat16_is_that_of_torch(num_rows):
    x, weight = random(num_rows, 24).bfloat16(), random(40, 24).bfloat16()
    assert torch.equal(matmul(x, weight), F.linear(x, weight))


def test_fused_linear_gives_the_outputs_of_its_parts_side_by_side():
    fused = fill(FusedLinear(24, {"q_proj": 16, "k_proj": 8, "v_proj": 8}, bias=True, tp=TP))
    assert fused.part_rows == {
        "q_proj": slice(0, 16),
        "k_proj": slice(16, 24),
        "v_proj": slice(24, 32),
    }
    x = random(5, 24)
    parts = [F.linear(x, fused.weight[r], fused.bias[r]) for r in fused.part_rows.values()]
    torch.testing.assert_close(fused(x), torch.cat(parts, dim=-1), atol=1e-5, rtol=1e-5)


def test_fused_linear_without_bias_has_one_parameter():
    fused = FusedLinear(24, {"gate_proj": 8, "up_proj": 8}, bias=False, tp=TP)
    assert [name for name, _ in fused.named_parameters()] == ["weight"]


def test_row_parallel_linear_adds_its_bias_once():
    class TwoDevices(TensorParallel):
        """As if a second device held the same columns."""

        def all_reduce(self, x):
            return x + x

    layer = fill(RowParallelLinear(24, 16, bias=True, tp=TwoDevices()))
    x = random(5, 24)
    expected = 2 * F.linear(x, layer.weight) + layer.bias
    torch.testing.assert_close(layer(x), expected, atol=1e-5, rtol=1e-5)
