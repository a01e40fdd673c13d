"""Both norms compile for every GPU they are meant for, fit, and don't compile again."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.rms_norm import add_rms_norm, rms_norm

DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("size", [64, 576, 1024, 8192])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_rows_of_every_size_fit(compile_for, arch, size, dtype):
    x = torch.empty(3, size, dtype=dtype)
    with compile_for(arch) as launched:
        rms_norm(x, x[0], 1e-6)
        add_rms_norm(x, x, x[0], 1e-6)
    assert [kernel.name for kernel in launched] == ["_rms_norm", "_rms_norm"]


@pytest.mark.parametrize("size", [128, 1024])
def test_more_rows_compile_nothing_new(compile_for, size):
    with compile_for(90) as launched:
        for num_rows in [1, 2, 15, 16, 17, 4096]:
            x = torch.empty(num_rows, size, dtype=torch.float16)
            add_rms_norm(x, x, x[0], 1e-6)
    assert len(launched) == 6
    assert len({kernel.hash for kernel in launched}) == 1
