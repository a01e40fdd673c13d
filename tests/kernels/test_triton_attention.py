"""The backend on our kernels against the reference, over whatever a step can hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from ragged_batch import RaggedBatch, ragged_batch

from minivllm.attention.backend import HeadNorms
from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.triton import TritonAttention
from minivllm.layers.attention import PagedAttention
from minivllm.layers.norm import RMSNorm
from minivllm.layers.rotary import apply_rotary

STEPS = {
    "one_token": ([1], [1]),
    "one_prompt": ([7], [7]),
    "prompts": ([5, 1, 17], [5, 1, 17]),
    "decodes": ([1, 1, 1], [1, 16, 33]),
    "chunks": ([3, 8], [20, 9]),
    "decodes_then_prompt": ([1, 1, 9], [12, 3, 9]),
    "decodes_apart": ([1, 6, 1, 3], [8, 6, 9, 21]),
}


def paged(step: str, device: str, **options: object) -> RaggedBatch:
    keywords: dict = {"block_size": 8, "device": device, **options}
    return ragged_batch(*STEPS[step], **keywords)


def assert_equals_reference(
    batch: RaggedBatch, sliding_window: int | None = None, atol: float = 5e-6
) -> None:
    expected = batch.run(ReferenceAttention(), sliding_window)
    out = batch.run(TritonAttention(), sliding_window)
    torch.testing.assert_close(out, expected, atol=atol, rtol=0)


@pytest.mark.parametrize("sliding_window", [None, 3])
@pytest.mark.parametrize("step", STEPS)
def test_every_kind_of_step_equals_reference(
    step: str, sliding_window: int | None, device: str
) -> None:
    assert_equals_reference(paged(step, device), sliding_window)


@pytest.mark.parametrize("block_size", [8, 32])
def test_block_sizes_at_their_borders(block_size: int, device: str) -> None:
    lens = [block_size, block_size + 1, 2 * block_size]
    batch = ragged_batch([1] * 3 + lens, lens * 2, block_size=block_size, device=device)
    assert_equals_reference(batch)


@pytest.mark.parametrize(
    ("num_heads", "num_kv_heads", "head_dim"), [(3, 3, 16), (8, 1, 32), (4, 2, 80)]
)
def test_head_shapes(num_heads: int, num_kv_heads: int, head_dim: int, device: str) -> None:
    shape = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
    assert_equals_reference(paged("decodes_apart", device, **shape))


def test_half_precision(device: str) -> None:
    assert_equals_reference(paged("decodes_apart", device, dtype=torch.float16), atol=2e-3)


def test_slices_of_a_fused_qkv(device: str) -> None:
    batch = paged("decodes_apart", device)
    q, k, v = torch.cat([batch.q, batch.k, batch.v], dim=1).split([4, 2, 2], dim=1)
    assert not q.is_contiguous()
    assert_equals_reference(replace(batch, q=q, k=k, v=v))


def test_scores_beyond_the_range_of_exp(device: str) -> None:
    batch = paged("decodes_apart", device, q_factor=200)
    assert_equals_reference(batch, atol=1e-4)


def test_layers_with_different_windows_share_one_step(device: str) -> None:
    batch, backend = paged("decodes_apart", device), TritonAttention()
    metadata = backend.build(batch.metadata)
    backend.write(batch.k, batch.v, batch.kv_cache, metadata.slot_mapping)
    for window in (None, 3, None):
        out = backend.attend(batch.q, batch.kv_cache, metadata, batch.scale, window)
        np.testing.assert_allclose(out.cpu().numpy(), batch.dense(window), atol=5e-6)


@pytest.mark.parametrize(
    ("step", "parts"),
    [
        ("one_token", (1, 1, 1)),
        ("decodes", (3, 3, 1)),
        ("one_prompt", (0, 7, 7)),
        ("decodes_then_prompt", (2, 11, 9)),
        ("decodes_apart", (1, 11, 6)),
    ],
)
def test_a_step_has_two_parts(step: str, parts: tuple[int, int, int]) -> None:
    metadata = TritonAttention().build(paged(step, "cpu").metadata)
    assert (metadata.num_decodes, metadata.num_tokens, metadata.max_query_len) == parts


def padded(batch: RaggedBatch, num_rows: int) -> RaggedBatch:
    """The same step with rows behind it that belong to nobody."""
    rows = (num_rows, *batch.q.shape[1:])
    kv_rows = (num_rows, *batch.k.shape[1:])
    slots = batch.metadata.slot_mapping
    return replace(
        batch,
        q=torch.cat([batch.q, batch.q.new_full(rows, 7.0)]),
        k=torch.cat([batch.k, batch.k.new_full(kv_rows, 7.0)]),
        v=torch.cat([batch.v, batch.v.new_full(kv_rows, 7.0)]),
        metadata=replace(
            batch.metadata, slot_mapping=torch.cat([slots, slots.new_full((num_rows,), -1)])
        ),
    )


@pytest.mark.parametrize("step", ["decodes", "prompts"])
def test_padding_rows_are_neither_written_nor_computed(step: str, device: str) -> None:
    batch = paged(step, device)
    num_tokens = len(batch.q)
    out = padded(batch, 3).run(TritonAttention())
    assert torch.equal(out[:num_tokens], batch.run(TritonAttention()))
    assert torch.equal(out[num_tokens:], torch.zeros_like(out[num_tokens:]))


def test_lengths_of_decodes_are_read_on_the_device_and_one_of_0_gives_zeros(device: str) -> None:
    """What a captured step needs: the host knows nothing but how many rows there are."""
    batch = paged("decodes", device)
    expected = batch.run(TritonAttention())
    lens = batch.metadata.seq_lens.clone()
    lens[1] = 0  # takes no part
    slots = batch.metadata.slot_mapping.clone()
    slots[1] = -1
    unknown = replace(
        batch.metadata, seq_lens=lens, slot_mapping=slots, seq_lens_host=np.zeros(3, np.int32)
    )
    out = replace(batch, metadata=unknown).run(TritonAttention())
    assert torch.equal(out[[0, 2]], expected[[0, 2]])
    assert torch.equal(out[1], torch.zeros_like(out[1]))


def test_write_skips_slot_minus_one_wherever_it_stands(device: str) -> None:
    cache = LayerKVCache(*(torch.zeros(2, 8, 1, 16, device=device) for _ in range(2)))
    k = torch.arange(1.0, 5.0, device=device)[:, None, None].expand(4, 1, 16).contiguous()
    TritonAttention().write(k, -k, cache, torch.tensor([-1, 5, -1, 8], device=device))
    assert cache.key.flatten(0, 1)[:, 0, 0].tolist() == [0] * 5 + [2, 0, 0, 4] + [0] * 7
    assert cache.value.flatten(0, 1)[:, 0, 0].tolist() == [0] * 5 + [-2, 0, 0, -4] + [0] * 7


@pytest.mark.parametrize("has_norms", [False, True])
def test_heads_that_a_kernel_prepares_are_those_that_a_model_prepares(
    has_norms: bool, device: str
) -> None:
    batch = paged("decodes_apart", device)
    random = torch.Generator().manual_seed(1)
    angles = torch.rand(len(batch.q), 1, 8, generator=random).to(device).repeat(1, 1, 2)
    sign = torch.tensor([-1.0] * 8 + [1.0] * 8, device=device)  # as `RotaryEmbedding` gives them
    cos_sin = (angles.cos(), angles.sin() * sign)
    norms = [RMSNorm(16, 1e-6).to(device) for _ in range(2)]
    for norm in norms:
        norm.weight.copy_(torch.rand(16, generator=random) + 0.5)
    q, k = (norm(x) for norm, x in zip(norms, (batch.q, batch.k), strict=True))
    q, k = (q, k) if has_norms else (batch.q, batch.k)
    heads = HeadNorms(norms[0].weight, norms[1].weight, 1e-6)

    backend = TritonAttention()
    layer, metadata = PagedAttention(backend, 16, None), backend.build(batch.metadata)
    caches = [LayerKVCache(*(side.clone() for side in batch.kv_cache)) for _ in range(2)]
    qkv = torch.cat([batch.q, batch.k, batch.v], dim=1).flatten(1)
    fused = layer.from_qkv(qkv, heads if has_norms else None, cos_sin, caches[0], metadata)
    rotated = (apply_rotary(x, *cos_sin) for x in (q, k))
    plain = layer(*rotated, batch.v, caches[1], metadata)

    torch.testing.assert_close(fused, plain, atol=1e-5, rtol=0)
    for side, expected in zip(*caches, strict=True):
        torch.testing.assert_close(side, expected, atol=1e-5, rtol=0, equal_nan=True)
