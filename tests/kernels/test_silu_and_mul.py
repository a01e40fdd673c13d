"""SiLU and product against float64."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import NAN, assert_close, dtypes, pairwise
from torch import Tensor
from torch.nn import functional as F

from minivllm.kernels.silu_and_mul import silu_and_mul, silu_and_mul_ref


def rows(num_tokens: int, size: int, dtype: torch.dtype, device: str) -> Tensor:
    random = torch.Generator().manual_seed(size)
    return (torch.randn(num_tokens, 2 * size, generator=random) * 4).to(device, dtype)


def exact_product(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.double().tensor_split(2, dim=1)
    return gate / (1 + torch.exp(-gate)) * up


def with_margin(x: Tensor) -> Tensor:
    return torch.cat([x, torch.full_like(x, NAN)], dim=1)[:, : x.shape[1]]


STRIDES = {
    "contiguous": lambda x: x,
    "margin": with_margin,
    "every_other_column": lambda x: x.repeat_interleave(2, dim=-1)[:, ::2],
    "columns_first": lambda x: x.t().contiguous().t(),  # what a product on a CPU may give
}


@pairwise(
    size=[1, 24, 1000, 1024, 1536, 3072],
    num_tokens=[1, 2, 7],
    strides=list(STRIDES),
    dtype=dtypes(),
)
def test_rows_of_any_size_and_stride(size, num_tokens, strides, dtype, device):
    gate_up = rows(num_tokens, size, dtype, device)
    out = silu_and_mul(STRIDES[strides](gate_up))
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_close(out, exact_product(gate_up), silu_and_mul_ref(gate_up))


@pytest.mark.parametrize("dtype", dtypes()[1:])
def test_rounded_once_it_is_closer_than_the_layer(dtype, device):
    gate_up = rows(16, 512, dtype, device)
    exact = exact_product(gate_up)
    gate, up = gate_up.chunk(2, dim=1)

    def mean_error(out: Tensor) -> float:
        return (out.double() - exact).abs().mean().item()

    assert mean_error(silu_and_mul(gate_up)) < 0.9 * mean_error(F.silu(gate) * up)


@pytest.mark.filterwarnings("ignore:overflow encountered in exp")  # by the interpreter
def test_gates_far_from_zero(device):
    gates = torch.tensor([-60000.0, -200.0, -0.0, 0.0, 200.0, 60000.0], device=device)
    out = silu_and_mul(torch.cat([gates, torch.ones_like(gates)])[None])
    assert torch.equal(out[0], gates.clamp(min=0))


def test_nan_stays_at_its_place(device):
    gate_up = rows(3, 1100, torch.float32, device)
    expected = silu_and_mul(gate_up)
    gate_up[1, 7] = gate_up[2, 1100 + 1050] = NAN
    out = silu_and_mul(gate_up)
    assert torch.equal(out.isnan().nonzero().cpu(), torch.tensor([[1, 7], [2, 1050]]))
    assert torch.equal(out.nan_to_num(0.0), expected.where(~out.isnan(), 0.0))


def test_no_tokens(device):
    assert silu_and_mul(torch.empty(0, 48, device=device)).shape == (0, 24)


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31():
    memory = torch.empty(2**31 + 8192, dtype=torch.bfloat16, device="cuda")
    gate_up = memory.as_strided((3, 2048), (2**30 + 2048, 1))
    gate_up.copy_(rows(3, 1024, torch.bfloat16, "cuda"))
    assert torch.equal(silu_and_mul(gate_up), silu_and_mul(gate_up.clone()))
