"""Paged decode compiles for every GPU it is meant for, and fits."""

from __future__ import annotations

from collections import defaultdict

import pytest
import torch
from kernel_cases import COMPILED_HEADS

from minivllm.kernels import paged_decode as module
from minivllm.kernels.paged_decode import paged_decode

BOTH = ["_paged_decode", "merge"]


@pytest.fixture
def in_a_graph(monkeypatch):
    """Parts are merged by a kernel of its own, as where launches are captured."""
    monkeypatch.setattr(module, "last_program_merges", lambda q: False)


def launch(
    *,
    num_reqs: int = 2,
    max_num_blocks: int = 9,
    block_size: int = 16,
    group_size: int = 2,
    head_dim: int = 64,
    dtype: torch.dtype,
    sliding_window: int | None = None,
    num_splits: int | None = None,
) -> None:
    cache = torch.empty(num_reqs * max_num_blocks, block_size, 2, head_dim, dtype=dtype)
    paged_decode(
        torch.empty(num_reqs, 2 * group_size, head_dim, dtype=dtype),
        cache,
        cache,
        torch.empty(num_reqs, max_num_blocks, dtype=torch.int32),
        torch.empty(num_reqs, dtype=torch.int32),
        scale=0.1,
        sliding_window=sliding_window,
        num_splits=num_splits,
    )


@pytest.mark.parametrize(("arch", "head_dim", "dtype"), COMPILED_HEADS, ids=str)
def test_every_width_of_heads_fits(compile_for, arch, head_dim, dtype):
    with compile_for(arch) as launched:
        launch(head_dim=head_dim, dtype=dtype, num_splits=4)
    assert [kernel.name for kernel in launched] == BOTH[:1]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("head_dim", [64, 96, 256])
@pytest.mark.usefixtures("in_a_graph")
def test_parts_are_merged_by_a_kernel_of_its_own(compile_for, arch, head_dim):
    with compile_for(arch) as launched:
        launch(head_dim=head_dim, dtype=torch.float16, num_splits=4)
    assert [kernel.name for kernel in launched] == BOTH


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize(
    ("block_size", "group_size", "sliding_window"), [(8, 1, None), (16, 7, 100), (256, 16, None)]
)
def test_pages_groups_and_windows_compile_in_float16(
    compile_for, arch, block_size, group_size, sliding_window
):
    with compile_for(arch) as launched:
        launch(
            dtype=torch.float16,
            block_size=block_size,
            group_size=group_size,
            sliding_window=sliding_window,
            num_splits=1,
        )
    assert [kernel.name for kernel in launched] == BOTH[:1]


@pytest.mark.parametrize("num_splits", [1, 8])
def test_more_requests_and_wider_tables_compile_nothing_new(compile_for, num_splits):
    with compile_for(90) as launched:
        for num_reqs, width in [(1, 9), (2, 16), (3, 33), (16, 64), (17, 65)]:
            launch(
                num_reqs=num_reqs, max_num_blocks=width, num_splits=num_splits, dtype=torch.float16
            )
    variants = defaultdict(set)
    for kernel in launched:
        variants[kernel.name].add(kernel.hash)
    assert {name: len(hashes) for name, hashes in variants.items()} == dict.fromkeys(variants, 1)


@pytest.mark.usefixtures("in_a_graph")
def test_the_number_of_parts_changes_nothing_but_whether_there_are_several(compile_for):
    variants = defaultdict(set)
    with compile_for(90) as launched:
        for num_splits in range(1, 17):
            launch(num_splits=num_splits, max_num_blocks=64, dtype=torch.float16)
    for kernel in launched:
        variants[kernel.name].add(kernel.hash)
    assert {name: len(hashes) for name, hashes in variants.items()} == {
        "_paged_decode": 2,
        "merge": 1,
    }
