"""Norm, rotation and cache write compile for every GPU they are meant for, and not again."""

from __future__ import annotations

import pytest
import torch

from minivllm.kernels.qk_norm_rope import qk_norm_rope_cache_write


def launch(
    num_tokens: int = 2,
    num_blocks: int = 3,
    *,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 64,
    has_norm: bool = True,
    dtype: torch.dtype = torch.float16,
) -> None:
    weight = torch.empty(head_dim, dtype=dtype) if has_norm else None
    cos_sin = torch.empty(num_tokens, 1, head_dim, dtype=dtype)
    cache = torch.empty(num_blocks, 16, num_kv_heads, head_dim, dtype=dtype)
    qk_norm_rope_cache_write(
        qkv=torch.empty(num_tokens, (num_heads + 2 * num_kv_heads) * head_dim, dtype=dtype),
        q_weight=weight,
        k_weight=weight,
        cos=cos_sin,
        sin=cos_sin,
        eps=1e-6,
        key_cache=cache,
        value_cache=cache,
        slot_mapping=torch.empty(num_tokens, dtype=torch.int64),
        num_heads=num_heads,
    )


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("head_dim", [64, 80, 96, 128, 256])
@pytest.mark.parametrize("has_norm", [True, False])
def test_every_width_of_heads_compiles(compile_for, arch, head_dim, has_norm):
    with compile_for(arch) as launched:
        launch(head_dim=head_dim, num_heads=16, num_kv_heads=8, has_norm=has_norm)
    # A plane's two elements and a head's sum stay within a warp: no shared memory is needed.
    assert [kernel.shared for kernel in launched] == [0]


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("heads", [(9, 3), (14, 2), (16, 1), (32, 8)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_every_group_size_compiles(compile_for, arch, heads, dtype):
    with compile_for(arch) as launched:
        launch(num_heads=heads[0], num_kv_heads=heads[1], dtype=dtype)
    assert [kernel.name for kernel in launched] == ["_qk_norm_rope_cache_write"]


def test_more_tokens_and_blocks_compile_nothing_new(compile_for):
    with compile_for(90) as launched:
        for num_tokens, num_blocks in [(1, 1), (2, 16), (15, 17), (16, 1000), (17, 1)]:
            launch(num_tokens, num_blocks)
    assert len(launched) == 5
    assert len({kernel.hash for kernel in launched}) == 1
