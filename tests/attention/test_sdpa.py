"""The batched backend against the reference, over whatever a step can hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from ragged_batch import RaggedBatch, ragged_batch

from minivllm.attention.decode import GatheredDecode, SparseDecode
from minivllm.attention.groups import PrefillGroup, VisibleKeys
from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention

STEPS = {
    "one_token": ([1], [1]),
    "one_prompt": ([7], [7]),
    "prompts": ([5, 1, 17, 4], [5, 1, 17, 4]),
    "decodes": ([1, 1, 1, 1], [1, 16, 33, 5]),
    "chunks": ([3, 8], [20, 9]),
    "decodes_then_prompt": ([1, 1, 9], [12, 3, 9]),
    "decodes_apart": ([1, 6, 1, 3, 1], [8, 6, 1, 21, 17]),
}


def assert_equals_reference(
    batch: RaggedBatch, sliding_window: int | None = None, atol: float = 3e-6
) -> None:
    expected = batch.run(ReferenceAttention(), sliding_window)
    out = batch.run(SdpaAttention(), sliding_window)
    torch.testing.assert_close(out, expected, atol=atol, rtol=0)


@pytest.mark.parametrize("step", STEPS)
def test_every_kind_of_step_equals_reference(step: str) -> None:
    assert_equals_reference(ragged_batch(*STEPS[step]))


@pytest.mark.parametrize("sliding_window", [1, 3, 16, 1000])
@pytest.mark.parametrize("step", STEPS)
def test_sliding_window_equals_reference(step: str, sliding_window: int) -> None:
    assert_equals_reference(ragged_batch(*STEPS[step]), sliding_window)


@pytest.mark.parametrize("block_size", [1, 2, 8, 16, 32, 64])
def test_any_block_size_at_its_borders(block_size: int) -> None:
    lens = [block_size, block_size + 1, 2 * block_size, 2 * block_size + 1, 3 * block_size + 1]
    decodes_and_prompts = ragged_batch([1] * 5 + lens, lens * 2, block_size=block_size)
    assert_equals_reference(decodes_and_prompts)


@pytest.mark.parametrize("head_dim", [16, 32, 80])
@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(3, 3), (4, 2), (9, 3), (8, 1), (16, 2)])
def test_head_shapes(num_heads: int, num_kv_heads: int, head_dim: int) -> None:
    batch = ragged_batch(
        *STEPS["decodes_apart"],
        num_heads=num_heads,
        num_kv_heads=num_kv_heads,
        head_dim=head_dim,
    )
    assert_equals_reference(batch)


@pytest.mark.parametrize("step", STEPS)
def test_half_precision(step: str) -> None:
    assert_equals_reference(ragged_batch(*STEPS[step], dtype=torch.float16), atol=2e-3)


def test_slices_of_a_fused_qkv() -> None:
    batch = ragged_batch(*STEPS["decodes_apart"], num_heads=4, num_kv_heads=2)
    q, k, v = torch.cat([batch.q, batch.k, batch.v], dim=1).split([4, 2, 2], dim=1)
    assert not q.is_contiguous()
    assert_equals_reference(replace(batch, q=q, k=k, v=v))


@pytest.mark.parametrize("step", STEPS)
def test_scores_beyond_the_range_of_exp(step: str) -> None:
    batch = ragged_batch(*STEPS[step], q_factor=200)
    assert batch.scale * batch.q.abs().max() > 100
    assert_equals_reference(batch, atol=1e-4)


@given(
    requests=st.lists(st.tuples(st.integers(1, 9), st.integers(0, 20)), min_size=1, max_size=7),
    block_size=st.sampled_from([1, 2, 4, 16]),
    sliding_window=st.none() | st.integers(1, 30),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_random_ragged_steps(
    requests: list[tuple[int, int]], block_size: int, sliding_window: int | None, seed: int
) -> None:
    query_lens = [query_len for query_len, _ in requests]
    seq_lens = [query_len + context for query_len, context in requests]
    batch = ragged_batch(query_lens, seq_lens, block_size=block_size, seed=seed)
    assert_equals_reference(batch, sliding_window)


def test_layers_with_different_windows_share_one_step() -> None:
    batch = ragged_batch(*STEPS["decodes_apart"])
    backend = SdpaAttention()
    metadata = backend.build(batch.metadata)
    backend.write(batch.k, batch.v, batch.kv_cache, metadata.slot_mapping)
    for window in (None, 3, None, 16, 3):
        out = backend.attend(batch.q, batch.kv_cache, metadata, batch.scale, window)
        np.testing.assert_allclose(out.numpy(), batch.dense(window), atol=3e-6)


def test_groups_are_made_once_a_step_for_each_window() -> None:
    batch = ragged_batch(*STEPS["decodes_apart"])
    backend = SdpaAttention()
    metadata = backend.build(batch.metadata)
    backend.write(batch.k, batch.v, batch.kv_cache, metadata.slot_mapping)
    made = []
    for window in (None, 3, None, 3):
        backend.attend(batch.q, batch.kv_cache, metadata, batch.scale, window)
        made.append(metadata.groups[window])
    assert made[0] is made[2]
    assert made[1] is made[3]
    assert list(metadata.groups) == [None, 3]


def test_decodes_form_one_group_and_prompts_one_each() -> None:
    batch = ragged_batch(*STEPS["decodes_apart"])
    backend = SdpaAttention()
    metadata = backend.build(batch.metadata)
    backend.attend(batch.q, batch.kv_cache, metadata, batch.scale, None)
    kinds = [type(group) for group in metadata.groups[None]]
    assert kinds == [SparseDecode, PrefillGroup, PrefillGroup]


@pytest.mark.parametrize("first_key", [0, 4])
def test_both_ways_to_decode_agree(first_key: int) -> None:
    batch = ragged_batch([1] * 4, [5, 16, 33, 7], num_heads=9, num_kv_heads=3)
    cache = batch.kv_cache
    SdpaAttention().write(batch.k, batch.v, cache, batch.metadata.slot_mapping)
    first_keys = np.full(4, first_key)
    keys = VisibleKeys.locate(batch.metadata, np.arange(4), first_keys, cache)
    gathered = GatheredDecode(slice(0, 4), keys).attend(batch.q, cache, batch.scale)
    sparse = SparseDecode.make(slice(0, 4), keys, 9, cache).attend(batch.q, cache, batch.scale)
    torch.testing.assert_close(sparse, gathered, atol=3e-6, rtol=0)


def test_decode_of_a_request_is_the_same_in_any_company() -> None:
    crowd = ragged_batch([1] * 4, [5, 16, 33, 7])
    out = crowd.run(SdpaAttention())
    alone = replace(
        crowd,
        q=crowd.q[1:2],
        k=crowd.k[1:2],
        v=crowd.v[1:2],
        metadata=replace(
            crowd.metadata,
            query_start_loc=crowd.metadata.query_start_loc[:2],
            seq_lens=crowd.metadata.seq_lens[1:2],
            block_table=crowd.metadata.block_table[1:2],
            slot_mapping=crowd.metadata.slot_mapping[1:2],
            query_lens_host=crowd.metadata.query_lens_host[1:2],
            seq_lens_host=crowd.metadata.seq_lens_host[1:2],
        ),
    )
    assert torch.equal(alone.run(SdpaAttention())[0], out[1])


def test_padding_rows_are_neither_written_nor_computed() -> None:
    batch = ragged_batch([1, 1], [6, 3])
    padding = torch.full((3, 2, 16), 7.0)
    padded = replace(
        batch,
        q=torch.cat([batch.q, torch.full((3, 4, 16), 7.0)]),
        k=torch.cat([batch.k, padding]),
        v=torch.cat([batch.v, padding]),
        metadata=replace(
            batch.metadata,
            slot_mapping=torch.cat([batch.metadata.slot_mapping, torch.full((3,), -1)]),
        ),
    )
    out = padded.run(SdpaAttention())
    assert torch.equal(out[:2], batch.run(SdpaAttention()))
    assert torch.equal(out[2:], torch.zeros(3, 4, 16))


def test_write_skips_slot_minus_one_wherever_it_stands() -> None:
    cache = LayerKVCache(torch.zeros(2, 4, 1, 8), torch.zeros(2, 4, 1, 8))
    k = torch.arange(1.0, 5.0)[:, None, None].expand(4, 1, 8)
    SdpaAttention().write(k, -k, cache, torch.tensor([-1, 5, -1, 0]))
    assert cache.key.flatten(0, 1)[:, 0, 0].tolist() == [4, 0, 0, 0, 0, 2, 0, 0]
    assert cache.value.flatten(0, 1)[:, 0, 0].tolist() == [-4, 0, 0, 0, 0, -2, 0, 0]


def test_output_does_not_alias_the_queries() -> None:
    batch = ragged_batch(*STEPS["decodes"])
    before = batch.q.clone()
    out = batch.run(SdpaAttention())
    out.fill_(9)
    assert torch.equal(batch.q, before)


@pytest.mark.gpu
class TestOnCuda:
    @pytest.mark.parametrize(
        ("dtype", "atol"),
        [(torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 2e-2)],
    )
    @pytest.mark.parametrize("sliding_window", [None, 3])
    @pytest.mark.parametrize("step", STEPS)
    def test_equals_reference(
        self, step: str, sliding_window: int | None, dtype: torch.dtype, atol: float
    ) -> None:
        batch = ragged_batch(*STEPS[step], dtype=dtype, device="cuda")
        assert_equals_reference(batch, sliding_window, atol)

    def test_never_waits_for_the_device(self) -> None:
        batch = ragged_batch(*STEPS["decodes_apart"], dtype=torch.float16, device="cuda")
        backend = SdpaAttention()
        torch.cuda.set_sync_debug_mode("error")
        try:
            metadata = backend.build(batch.metadata)
            backend.write(batch.k, batch.v, batch.kv_cache, metadata.slot_mapping)
            for window in (None, 3):
                backend.attend(batch.q, batch.kv_cache, metadata, batch.scale, window)
        finally:
            torch.cuda.set_sync_debug_mode("default")
