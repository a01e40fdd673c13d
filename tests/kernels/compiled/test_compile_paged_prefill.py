"""Paged prefill compiles for every GPU it is meant for, and fits."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import COMPILED_HEADS, start_loc

from minivllm.kernels.paged_prefill import paged_prefill


def launch(
    *,
    query_len: int = 5,
    num_reqs: int = 1,
    max_num_blocks: int = 3,
    block_size: int = 16,
    head_dim: int = 64,
    dtype: torch.dtype,
    sliding_window: int | None = None,
) -> None:
    cache = torch.empty(num_reqs * max_num_blocks, block_size, 2, head_dim, dtype=dtype)
    paged_prefill(
        torch.empty(num_reqs * query_len, 4, head_dim, dtype=dtype),
        cache,
        cache,
        torch.empty(num_reqs, max_num_blocks, dtype=torch.int32),
        start_loc([query_len] * num_reqs, "cpu"),
        torch.empty(num_reqs, dtype=torch.int32),
        max_query_len=query_len,
        scale=0.1,
        sliding_window=sliding_window,
    )


@pytest.mark.parametrize(("arch", "head_dim", "dtype"), COMPILED_HEADS, ids=str)
def test_every_width_of_heads_fits(compile_for, arch, head_dim, dtype):
    with compile_for(arch) as launched:
        launch(head_dim=head_dim, dtype=dtype)
    assert [kernel.name for kernel in launched] == ["_paged_prefill"]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(("block_size", "sliding_window"), [(8, None), (16, 100), (256, None)])
def test_pages_and_windows_compile_in_float16(compile_for, arch, block_size, sliding_window):
    with compile_for(arch) as launched:
        launch(dtype=torch.float16, block_size=block_size, sliding_window=sliding_window)
    assert len(launched) == 1


def test_more_requests_longer_ones_and_wider_tables_compile_nothing_new(compile_for):
    with compile_for(90) as launched:
        for num_reqs, query_len, width in [(1, 1, 1), (1, 16, 2), (3, 33, 16), (16, 64, 33)]:
            launch(
                num_reqs=num_reqs, query_len=query_len, max_num_blocks=width, dtype=torch.float16
            )
    assert len({kernel.hash for kernel in launched}) == 1
