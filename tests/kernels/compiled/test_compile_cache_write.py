"""Cache write compiles for every GPU it is meant for, and doesn't compile again."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.cache_write import cache_write


def launch(
    num_tokens: int = 2,
    num_blocks: int = 3,
    *,
    num_kv_heads: int = 2,
    head_dim: int = 64,
    dtype: torch.dtype = torch.float16,
) -> None:
    heads = torch.empty(num_tokens, num_kv_heads, head_dim, dtype=dtype)
    cache = torch.empty(num_blocks, 16, num_kv_heads, head_dim, dtype=dtype)
    cache_write(heads, heads, cache, cache, torch.empty(num_tokens, dtype=torch.int64))


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(
    ("num_kv_heads", "head_dim"), [(1, 64), (3, 80), (8, 96), (8, 128), (16, 256)]
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_heads_of_every_shape_compile(compile_for, arch, num_kv_heads, head_dim, dtype):
    with compile_for(arch) as launched:
        launch(num_kv_heads=num_kv_heads, head_dim=head_dim, dtype=dtype)
    assert [kernel.shared for kernel in launched] == [0]  # no thread needs what another has


def test_more_tokens_and_blocks_compile_nothing_new(compile_for):
    with compile_for(90) as launched:
        for num_tokens, num_blocks in [(1, 1), (2, 16), (15, 17), (16, 1000), (17, 1)]:
            launch(num_tokens, num_blocks)
    assert len(launched) == 5
    assert len({kernel.hash for kernel in launched}) == 1
