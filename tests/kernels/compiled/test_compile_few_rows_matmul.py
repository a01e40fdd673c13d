"""The products of few rows, compiled for GPUs that are not here."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.few_rows_matmul import few_rows_matmul

SHARED_MEMORY = {80: 166_912, 90: 232_448}


@pytest.mark.parametrize("arch", SHARED_MEMORY)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_rows", [1, 3])
@pytest.mark.parametrize("out_features", [1024, 6144, 151_936])
@pytest.mark.parametrize("in_features", [1024, 1100])
def test_compiles(
    arch: int,
    dtype: torch.dtype,
    num_rows: int,
    out_features: int,
    in_features: int,
    compile_for,
) -> None:
    x = torch.empty(num_rows, in_features, dtype=dtype)
    weight = torch.empty(out_features, in_features, dtype=dtype)
    with compile_for(arch) as launched:
        few_rows_matmul(x, weight, None)
        few_rows_matmul(x, weight, weight[:, 0])
    assert {kernel.name for kernel in launched} == {"_one_row" if num_rows == 1 else "_few_rows"}
    assert max(kernel.shared for kernel in launched) <= SHARED_MEMORY[arch]


def test_two_kernels_serve_1_to_16_rows(compile_for) -> None:
    weight = torch.empty(1024, 512, dtype=torch.float16)
    with compile_for(90) as launched:
        for num_rows in range(1, 17):
            few_rows_matmul(torch.empty(num_rows, 512, dtype=torch.float16), weight)
    assert len({kernel.hash for kernel in launched}) == 2
