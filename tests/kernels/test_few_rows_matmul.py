"""Products of a few rows: against float64, whatever the sizes, the strides and the tiles."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import NAN, assert_close, dtypes, pairwise
from torch import Tensor
from torch.nn import functional as F

from minivllm.kernels.few_rows_matmul import (
    MAX_ROWS,
    Tiles,
    few_rows_matmul,
    few_rows_matmul_ref,
    few_rows_tiles,
    multiply,
)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def check(out: Tensor, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
    """`out` is as near to the exact product as float32 sums, rounded once, are.

    A GPU's own product of float32 is no measure, as it may be in tf32: the measure is the CPU's.
    """
    assert out.dtype == x.dtype
    assert out.device == x.device
    x, weight, bias = (None if t is None else t.cpu() for t in (x, weight, bias))
    exact = F.linear(x.double(), weight.double(), None if bias is None else bias.double())
    assert_close(out.cpu(), exact, few_rows_matmul_ref(x, weight, bias))
    if x.dtype == torch.float32:
        lengths = x.double().norm(dim=1)[:, None] * weight.double().norm(dim=1)
        assert ((out.cpu() - exact).abs() <= 1e-6 * lengths.clamp(min=1)).all()


@pairwise(
    num_rows=[1, 2, 3, 8, 15, 16, 17, 32],
    in_features=[1, 16, 100, 1024, 1100],
    out_features=[1, 7, 40],
    dtype=dtypes(),
    has_bias=[False, True],
)
def test_product_is_exact_to_rounding(
    num_rows: int,
    in_features: int,
    out_features: int,
    dtype: torch.dtype,
    has_bias: bool,
    device: str,
) -> None:
    x = normal(num_rows, in_features, seed=1).to(device, dtype)
    weight = normal(out_features, in_features, seed=2).to(device, dtype)
    bias = normal(out_features, seed=3).to(device, dtype) if has_bias else None
    check(few_rows_matmul(x, weight, bias), x, weight, bias)


@pytest.mark.parametrize("num_rows", [1, 2, 16, 21])
@pytest.mark.parametrize("dtype", dtypes())
def test_a_residual_is_added_row_by_row(num_rows: int, dtype: torch.dtype, device: str) -> None:
    x = normal(num_rows, 100, seed=1).to(device, dtype)
    weight = normal(37, 100, seed=2).to(device, dtype)
    residual = normal(37, num_rows, seed=3).to(device, dtype).t()  # any strides
    before = residual.clone()
    out = few_rows_matmul(x, weight, residual)
    exact = x.double() @ weight.double().t() + residual.double()
    assert_close(out.cpu(), exact.cpu(), few_rows_matmul_ref(x.cpu(), weight.cpu(), residual.cpu()))
    assert torch.equal(residual, before)


TILES = [Tiles(4, 64, 1, 1), Tiles(8, 32, 2, 2), Tiles(16, 16, 8, 4), Tiles(32, 128, 4, 3)]
CASES = [(num_rows, tiles) for num_rows in (1, 2, 5, 16) for tiles in TILES]
CASES += [  # what is chosen for some product or other
    (num_rows, few_rows_tiles(num_rows, out_features, 2))
    for num_rows in (1, 2, 5, 16)
    for out_features in (1024, 4096, 6144, 151_936)
]


@pytest.mark.parametrize(("num_rows", "tiles"), dict.fromkeys(CASES), ids=str)
@pytest.mark.parametrize("in_features", [512, 576, 520])
def test_all_tiles_give_the_product(
    num_rows: int, tiles: Tiles, in_features: int, device: str
) -> None:
    x = normal(num_rows, in_features).half().to(device)
    weight = normal(37, in_features, seed=1).half().to(device)
    check(multiply(x, weight, None, tiles), x, weight, None)


@pytest.mark.parametrize("num_rows", [1, 6])
def test_margins_of_the_operands_do_not_count(num_rows: int, device: str) -> None:
    def with_margins(matrix: Tensor) -> Tensor:
        """The same in rows and columns of its own amid NaN, which no product of 0 hides."""
        memory = torch.full((2 * len(matrix) + 1, 2 * matrix.shape[1] + 1), NAN)
        memory[1::2, 1::2] = matrix
        return memory.to(device)[1::2, 1::2]

    x, weight, bias = (
        with_margins(normal(*shape)) for shape in ((num_rows, 90), (21, 90), (1, 21))
    )
    check(few_rows_matmul(x, weight, bias[0]), x, weight, bias[0])


@pytest.mark.parametrize("num_rows", [1, 6])
def test_transposed_and_expanded_operands(num_rows: int, device: str) -> None:
    x = normal(90, num_rows).to(device).T
    weight = normal(90, 21).to(device).T
    check(few_rows_matmul(x, weight), x, weight, None)
    x = x[:1].expand(num_rows, -1)
    check(few_rows_matmul(x, weight), x, weight, None)


@pytest.mark.parametrize("num_rows", [1, 16])
def test_products_beyond_float16_add_up(num_rows: int, device: str) -> None:
    x = torch.full((num_rows, 100), 300.0, dtype=torch.float16, device=device)
    weight = torch.full((5, 100), 300.0, dtype=torch.float16, device=device)
    weight[:, 1::2] = -300  # 90,000 - 90,000 + ...: infinity - infinity in float16
    weight[:, 0] = 310
    assert torch.equal(few_rows_matmul(x, weight), torch.full_like(x[:, :5], 3000))


@pytest.mark.parametrize("num_rows", [1, 3])
def test_nan_stays_in_its_own_row_and_column(num_rows: int, device: str) -> None:
    x, weight = normal(num_rows, 70).to(device), normal(9, 70).to(device)
    x[-1, 5], weight[2, 60] = NAN, NAN
    is_nan = torch.zeros(num_rows, 9, dtype=torch.bool)
    is_nan[-1], is_nan[:, 2] = True, True
    assert torch.equal(few_rows_matmul(x, weight).isnan().cpu(), is_nan)


@pytest.mark.parametrize("num_rows", [0, 1, 2])
def test_no_rows_or_nothing_to_add_up(num_rows: int, device: str) -> None:
    x, weight = torch.ones(num_rows, 0, device=device), torch.ones(4, 0, device=device)
    out = few_rows_matmul(x, weight, torch.arange(4.0, device=device))
    assert out.tolist() == [[0.0, 1.0, 2.0, 3.0]] * num_rows


def test_more_than_32_rows_are_refused(device: str) -> None:
    x, weight = torch.ones(MAX_ROWS + 1, 8, device=device), torch.ones(4, 8, device=device)
    with pytest.raises(ValueError, match=r"num_rows=33 .* at most 32; use F\.linear"):
        few_rows_matmul(x, weight)


@pytest.mark.gpu
@pytest.mark.parametrize("num_rows", [1, 2, 16])
@pytest.mark.parametrize(
    ("in_features", "out_features"),
    [(1024, 4096), (2048, 1024), (1024, 6144), (3072, 1024), (1024, 151_936)],
)
def test_shapes_of_qwen3(num_rows: int, in_features: int, out_features: int) -> None:
    x = normal(num_rows, in_features).bfloat16().cuda()
    weight = normal(out_features, in_features, seed=1).bfloat16().cuda()
    check(few_rows_matmul(x, weight), x, weight, None)


@pytest.mark.gpu
@pytest.mark.parametrize("num_rows", [1, 4])
def test_weight_beyond_2_to_the_31_elements(num_rows: int) -> None:
    weight = torch.zeros(2**15 + 16, 2**16, dtype=torch.bfloat16, device="cuda")
    weight[-3:, 77] = torch.tensor([1.0, 2, 3])
    x = torch.ones(num_rows, 2**16, dtype=torch.bfloat16, device="cuda")
    out = few_rows_matmul(x, weight)
    assert out[:, -4:].tolist() == [[0.0, 1.0, 2.0, 3.0]] * num_rows
