"""The sampling kernels, compiled for GPUs that are not here."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.sample import sample


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("vocab_size", [49_152, 50_257, 151_936])
def test_compiles(arch: int, dtype: torch.dtype, vocab_size: int, compile_for) -> None:
    columns = torch.empty(2, dtype=torch.int64)
    with compile_for(arch) as launched:
        sample(torch.empty(2, vocab_size, dtype=dtype), torch.empty(2), columns, columns)
    assert [kernel.name for kernel in launched] == ["_best_of_parts", "_best_of_rows"]
    assert max(kernel.shared for kernel in launched) <= 1024  # one number per warp


def test_number_of_rows_compiles_nothing_new(compile_for) -> None:
    with compile_for(90) as launched:
        for num_rows in (1, 2, 16, 17, 256):
            columns = torch.empty(num_rows, dtype=torch.int64)
            sample(torch.empty(num_rows, 5000), torch.empty(num_rows), columns, columns)
    assert len({kernel.hash for kernel in launched}) == 2
