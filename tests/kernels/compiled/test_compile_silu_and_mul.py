"""SiLU and product compiles for every GPU it is meant for, and doesn't compile again."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.silu_and_mul import silu_and_mul


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("size", [1536, 3072])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_every_dtype_compiles(compile_for, arch, size, dtype):
    with compile_for(arch) as launched:
        silu_and_mul(torch.empty(2, 2 * size, dtype=dtype))
    assert [kernel.shared for kernel in launched] == [0]  # no thread needs what another has


def test_more_tokens_compile_nothing_new(compile_for):
    with compile_for(90) as launched:
        for num_tokens in [1, 2, 15, 16, 17, 4096]:
            silu_and_mul(torch.empty(num_tokens, 256, dtype=torch.float16))
    assert len(launched) == 6
    assert len({kernel.hash for kernel in launched}) == 1
