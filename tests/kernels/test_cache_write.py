"""Every slot of the cache, after a write: the right bits where they belong, and NaN as before."""

from __future__ import annotations

import pytest
import torch
from kernel_cases import LAYOUTS, dtypes, pairwise
from torch import Tensor

from minivllm.kernels.cache_write import cache_write, cache_write_ref


def slices_of_qkv(num_tokens: int, num_kv_heads: int, head_dim: int, dtype, device):
    """Keys and values as a model has them: columns of one product, after the queries."""
    random = torch.Generator().manual_seed(0)
    qkv = torch.randn(num_tokens, 4 * num_kv_heads, head_dim, generator=random).to(device, dtype)
    return qkv[:, 2 * num_kv_heads : 3 * num_kv_heads], qkv[:, 3 * num_kv_heads :]


def random_slots(num_tokens: int, num_slots: int, device: str) -> Tensor:
    """The last slot, the first, and others in any order; each fourth token is padding."""
    random = torch.Generator().manual_seed(1)
    others = torch.randperm(num_slots - 2, generator=random) + 1
    slots = torch.cat([torch.tensor([num_slots - 1, 0]), others])[:num_tokens]
    slots[2::4] = -1
    return slots.to(device)


def written_one_by_one(cache: Tensor, tokens: Tensor, slots: Tensor) -> Tensor:
    expected, block_size = cache.clone(), cache.shape[1]
    for token, slot in zip(tokens, slots.tolist(), strict=True):
        if slot != -1:
            expected[slot // block_size, slot % block_size] = token
    return expected


def assert_same(out: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(out, expected, rtol=0, atol=0, equal_nan=True)


@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    num_kv_heads=[1, 2, 3, 8],
    block_size=[1, 8, 16, 256],
    num_tokens=[1, 2, 9],
    layout=list(LAYOUTS),
    dtype=dtypes(),
)
def test_tokens_are_at_their_slots(
    head_dim, num_kv_heads, block_size, num_tokens, layout, dtype, device
):
    k, v = slices_of_qkv(num_tokens, num_kv_heads, head_dim, dtype, device)
    num_blocks = 2 + 16 // block_size
    shape = (num_blocks, block_size, num_kv_heads, head_dim)
    key_cache, value_cache = (LAYOUTS[layout](shape, k) for _ in range(2))
    slots = random_slots(num_tokens, num_blocks * block_size, device)
    expected_keys = written_one_by_one(key_cache, k, slots)
    expected_values = written_one_by_one(value_cache, v, slots)

    cache_write(k, v, key_cache, value_cache, slots)
    assert_same(key_cache, expected_keys)
    assert_same(value_cache, expected_values)

    cache_write_ref(k, v, key_cache.fill_(torch.nan), value_cache.fill_(torch.nan), slots)
    assert_same(key_cache, expected_keys)
    assert_same(value_cache, expected_values)


def test_all_strides_differ(device):
    k, v = slices_of_qkv(5, 2, 64, torch.float32, device)
    key_cache = LAYOUTS["slots_last"]((3, 8, 2, 64), k)
    value_cache = LAYOUTS["margin"]((3, 8, 2, 64), k)
    slots = random_slots(5, 24, device).repeat_interleave(2)[::2]
    expected_keys = written_one_by_one(key_cache, k, slots)
    expected_values = written_one_by_one(value_cache, v, slots)
    k = k.permute(2, 0, 1).contiguous().permute(1, 2, 0)
    cache_write(k, v, key_cache, value_cache, slots)
    assert_same(key_cache, expected_keys)
    assert_same(value_cache, expected_values)


def test_padding_alone_writes_nothing(device):
    k, v = slices_of_qkv(4, 2, 64, torch.float32, device)
    cache = torch.zeros(2, 3, 8, 2, 64, device=device)
    cache_write(k, v, cache[0], cache[1], torch.full((4,), -1, device=device))
    assert not cache.any()


def test_no_tokens(device):
    k, v = slices_of_qkv(0, 2, 64, torch.float32, device)
    cache = torch.zeros(2, 3, 8, 2, 64, device=device)
    cache_write(k, v, cache[0], cache[1], torch.empty(0, dtype=torch.int64, device=device))
    assert not cache.any()


@pytest.mark.gpu
def test_blocks_beyond_two_to_the_31():
    k, v = slices_of_qkv(3, 8, 128, torch.bfloat16, "cuda")
    num_blocks = 2**31 // (16 * 8 * 128) + 2
    key_cache, value_cache = torch.zeros(
        2, num_blocks, 16, 8, 128, dtype=torch.bfloat16, device="cuda"
    )
    slots = torch.tensor([num_blocks * 16 - 1, 5, (num_blocks - 1) * 16], device="cuda")
    cache_write(k, v, key_cache, value_cache, slots)
    assert torch.equal(key_cache.flatten(0, 1)[slots], k)
    assert torch.equal(value_cache.flatten(0, 1)[slots], v)
    assert key_cache.count_nonzero() == k.count_nonzero()
