"""Both norms against float64, and against the layer they stand in for."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import NAN, assert_close, dtypes, pairwise
from torch import Tensor

from minivllm.kernels.rms_norm import add_rms_norm, add_rms_norm_ref, rms_norm, rms_norm_ref
from minivllm.layers.norm import RMSNorm

EPS = 1e-6


def normal(*shape: int, dtype: torch.dtype, device: str, seed: int = 0) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=random).to(device, dtype)


def exact_norm(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    rows = x.double()
    length = torch.linalg.vector_norm(rows, dim=-1, keepdim=True)
    return weight.double() * rows / (length**2 / rows.shape[-1] + eps).sqrt()


def with_margin(x: Tensor) -> Tensor:
    memory = x.new_full((*x.shape[:-1], x.shape[-1] + 3), NAN)
    memory[..., :-3] = x
    return memory[..., :-3]


def share_of_differing(a: Tensor, b: Tensor) -> float:
    """Not 0 for the same roundings: float32 sums in another order may tip one now and then."""
    return (a != b).float().mean().item()


STRIDES = {
    "contiguous": lambda x: x,
    "margin": with_margin,
    "every_other_column": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "columns_first": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1),
}
SHAPES = [(1,), (3,), (9,), (2, 5), (2, 1, 3)]
SIZES = [1, 24, 64, 80, 128, 576, 1024, 2560]


@pairwise(size=SIZES, shape=SHAPES, strides=list(STRIDES), dtype=dtypes())
def test_rows_of_any_size_shape_and_stride(size, shape, strides, dtype, device):
    x = normal(*shape, size, dtype=dtype, device=device)
    residual = normal(*shape, size, dtype=dtype, device=device, seed=1)
    weight = normal(size, dtype=dtype, device=device, seed=2)
    x_view, residual_view = STRIDES[strides](x), STRIDES[strides](residual)

    out = rms_norm(x_view, weight, EPS)
    assert out.dtype == dtype
    assert out.is_contiguous()
    assert_close(out, exact_norm(x, weight), rms_norm_ref(x, weight, EPS))

    normed, new_residual = add_rms_norm(x_view, residual_view, weight, EPS)
    assert torch.equal(new_residual, x + residual)
    rough = add_rms_norm_ref(x, residual, weight, EPS).normed
    assert_close(normed, exact_norm(x + residual, weight), rough)
    assert torch.equal(x_view, x), "the inputs are left alone"
    assert torch.equal(residual_view, residual)


@pytest.mark.parametrize("dtype", dtypes())
def test_a_row_of_8192(dtype, device):
    x, weight = (normal(*shape, 8192, dtype=dtype, device=device) for shape in [(2,), ()])
    out = rms_norm(x * 5, weight, EPS)
    assert_close(out, exact_norm(x * 5, weight), rms_norm_ref(x * 5, weight, EPS))


@pytest.mark.parametrize("dtype", dtypes())
def test_x_and_residual_of_different_strides(dtype, device):
    x = normal(5, 80, dtype=dtype, device=device)
    residual = normal(5, 80, dtype=dtype, device=device, seed=1)
    weight = normal(80, dtype=dtype, device=device, seed=2)
    views = STRIDES["columns_first"](x), STRIDES["margin"](residual), weight.repeat(2, 1).t()[:, 0]
    normed, new_residual = add_rms_norm(*views, EPS)
    assert torch.equal(new_residual, x + residual)
    rough = add_rms_norm_ref(x, residual, weight, EPS).normed
    assert_close(normed, exact_norm(x + residual, weight), rough)


@pytest.mark.parametrize("dtype", dtypes()[1:])
def test_the_norm_is_that_of_the_rounded_sum(dtype, device):
    x, residual = (normal(20, 576, dtype=dtype, device=device, seed=seed) for seed in range(2))
    weight = normal(576, dtype=dtype, device=device, seed=2)
    normed, new_residual = add_rms_norm(x, residual, weight, EPS)
    assert share_of_differing(normed, rms_norm(new_residual, weight, EPS)) < 0.01
    unrounded = rms_norm(x.float() + residual.float(), torch.ones_like(weight).float(), EPS)
    assert share_of_differing(normed, unrounded.to(dtype) * weight) > 0.1, "it would be seen"


@pytest.mark.parametrize("dtype", dtypes()[1:])
def test_it_rounds_where_the_layer_rounds(dtype, device):
    layer = RMSNorm(576, EPS).to(device, dtype)
    layer.weight.copy_(normal(576, dtype=dtype, device=device))
    x = normal(20, 576, dtype=dtype, device=device, seed=1)
    ours, once = rms_norm(x, layer.weight, EPS), exact_norm(x, layer.weight).to(dtype)
    assert share_of_differing(ours, layer(x)) < 0.01
    assert share_of_differing(once, layer(x)) > 0.1, "it would be seen"


def test_eps_counts_for_tiny_rows_and_keeps_zeros(device):
    x = normal(3, 24, dtype=torch.float32, device=device) * 1e-3
    x[1] = 0
    weight = normal(24, dtype=torch.float32, device=device)
    out = rms_norm(x, weight, 1e-2)
    assert_close(out, exact_norm(x, weight, 1e-2), rms_norm_ref(x, weight, 1e-2))
    assert not out[1].any()


def test_squares_that_overflow_float16_do_not_matter(device):
    x = torch.full((2, 24), -1000.0, dtype=torch.float16, device=device)
    out = rms_norm(x, torch.ones(24, dtype=torch.float16, device=device), EPS)
    assert torch.equal(out, torch.full_like(out, -1.0))


@pytest.mark.parametrize("size", [64, 1024])
def test_a_row_with_nan_stays_alone(size, device):
    x = normal(6, size, dtype=torch.float32, device=device)
    weight = normal(size, dtype=torch.float32, device=device)
    expected = rms_norm(x, weight, EPS)
    x[2, 5] = NAN
    out = rms_norm(x, weight, EPS)
    assert out[2].isnan().all()
    others = [0, 1, 3, 4, 5]
    assert torch.equal(out[others], expected[others])


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_no_rows(shape, device):
    x, weight = torch.empty(*shape, 64, device=device), torch.ones(64, device=device)
    assert rms_norm(x, weight, EPS).shape == x.shape
    assert [part.shape for part in add_rms_norm(x, x, weight, EPS)] == [x.shape, x.shape]


@pytest.mark.gpu
def test_rows_beyond_two_to_the_31():
    memory = torch.empty(2**31 + 2048, dtype=torch.bfloat16, device="cuda")
    x = memory.as_strided((3, 1024), (2**30 + 512, 1))
    x.copy_(normal(3, 1024, dtype=x.dtype, device="cuda"))
    weight = torch.ones(1024, dtype=x.dtype, device="cuda")
    assert torch.equal(rms_norm(x, weight, EPS), rms_norm(x.clone(), weight, EPS))
