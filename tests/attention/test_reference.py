"""The oracle against a float64 loop that knows no pages."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ragged_batch import ragged_batch

from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.reference import ReferenceAttention

MIXED = ([1, 3, 1, 6, 1], [1, 3, 9, 11, 14])  # decodes, a prompt, a chunk


@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 16, 64])
def test_ragged_batch_equals_dense_loop(block_size: int) -> None:
    batch = ragged_batch(*MIXED, block_size=block_size)
    out = batch.run(ReferenceAttention())
    np.testing.assert_allclose(out.numpy(), batch.dense(), atol=2e-6)


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(3, 3), (4, 2), (6, 2), (8, 1), (16, 2)])
def test_query_heads_share_the_kv_head_of_their_group(num_heads: int, num_kv_heads: int) -> None:
    batch = ragged_batch(*MIXED, num_heads=num_heads, num_kv_heads=num_kv_heads)
    out = batch.run(ReferenceAttention())
    np.testing.assert_allclose(out.numpy(), batch.dense(), atol=2e-6)


@pytest.mark.parametrize("sliding_window", [1, 3, 16, 1000])
def test_window_counts_the_query_itself(sliding_window: int) -> None:
    batch = ragged_batch([1, 20, 5], [18, 20, 31])
    out = batch.run(ReferenceAttention(), sliding_window)
    np.testing.assert_allclose(out.numpy(), batch.dense(sliding_window), atol=2e-6)


def test_half_precision_is_computed_in_float32() -> None:
    batch = ragged_batch(*MIXED, dtype=torch.float16)
    out = batch.run(ReferenceAttention())
    assert out.dtype == torch.float16
    nearest = torch.from_numpy(batch.dense()).half()
    torch.testing.assert_close(out, nearest, atol=1e-6, rtol=2**-10)  # the last bit at most


def test_slot_minus_one_is_not_written() -> None:
    cache = LayerKVCache(torch.zeros(2, 4, 1, 8), torch.zeros(2, 4, 1, 8))
    k, v = torch.ones(3, 1, 8), torch.full((3, 1, 8), 2.0)
    ReferenceAttention().write(k, v, cache, torch.tensor([5, -1, 0]))
    assert cache.key.flatten(0, 1)[:, 0, 0].tolist() == [1, 0, 0, 0, 0, 1, 0, 0]
    assert cache.value.flatten(0, 1)[:, 0, 0].tolist() == [2, 0, 0, 0, 0, 2, 0, 0]
