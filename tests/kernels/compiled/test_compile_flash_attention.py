"""Flash attention compiles for every GPU it is meant for, and fits."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import COMPILED_HEADS, start_loc

from minivllm.kernels.flash_attention import flash_attention


def launch(
    *,
    query_len: int = 5,
    num_reqs: int = 1,
    head_dim: int = 64,
    dtype: torch.dtype,
    is_causal: bool = True,
    sliding_window: int | None = None,
) -> None:
    q = torch.empty(num_reqs * query_len, 4, head_dim, dtype=dtype)
    k = torch.empty(num_reqs * query_len, 2, head_dim, dtype=dtype)
    starts = start_loc([query_len] * num_reqs, "cpu")
    packed = q, k, k, starts, starts
    flash_attention(
        *packed,
        max_query_len=query_len,
        scale=0.1,
        is_causal=is_causal,
        sliding_window=sliding_window,
    )


@pytest.mark.parametrize(("arch", "head_dim", "dtype"), COMPILED_HEADS, ids=str)
def test_every_width_of_heads_fits(compile_for, arch, head_dim, dtype):
    with compile_for(arch) as launched:
        launch(head_dim=head_dim, dtype=dtype)
    assert [kernel.name for kernel in launched] == ["_flash_attention"]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("rules", [{}, {"is_causal": False}, {"sliding_window": 100}], ids=str)
def test_every_rule_compiles_in_float16(compile_for, arch, rules):
    with compile_for(arch) as launched:
        launch(dtype=torch.float16, **rules)
    assert len(launched) == 1


def test_more_requests_and_longer_ones_compile_nothing_new(compile_for):
    with compile_for(90) as launched:
        for num_reqs, query_len in [(1, 1), (1, 16), (2, 3), (3, 33), (16, 64), (1, 1)]:
            launch(num_reqs=num_reqs, query_len=query_len, dtype=torch.float16)
    assert len({kernel.hash for kernel in launched}) == 1
