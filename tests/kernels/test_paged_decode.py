"""One query per request over a paged cache, with its keys in one part or in many."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from kernel_cases import LAYOUTS, NAN, SCORES, Batch, batch, dtypes, pairwise
from torch import Tensor

from minivllm.kernels import paged_decode as module
from minivllm.kernels.paged_decode import paged_decode, paged_decode_ref

SPLITS = [None, 1, 2, 3, 4, 5, 6, 7, 8]


def decodes(seq_lens: list[int], **shape: object) -> Batch:
    return batch([1] * len(seq_lens), seq_lens, **shape)


def decode_inputs(requests: Batch) -> tuple[Tensor, ...]:
    return (
        requests.q,
        requests.key_cache,
        requests.value_cache,
        requests.block_table,
        requests.seq_lens,
    )


def run(
    requests: Batch, *, sliding_window: int | None = None, num_splits: int | None = None
) -> Tensor:
    return paged_decode(
        *decode_inputs(requests),
        scale=requests.scale,
        sliding_window=sliding_window,
        num_splits=num_splits,
    )


def assert_right(
    requests: Batch, sliding_window: int | None = None, num_splits: int | None = None
) -> None:
    out = run(requests, sliding_window=sliding_window, num_splits=num_splits)
    requests.assert_close(out, sliding_window=sliding_window)


@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    group_size=range(1, 17),
    num_kv_heads=[1, 2],
    block_size=[8, 16, 32, 64, 128, 256],
    dtype=dtypes(),
    num_splits=[None, 1, 3],
)
def test_every_shape_of_heads_and_pages(
    device, head_dim, group_size, num_kv_heads, block_size, dtype, num_splits
):
    requests = decodes(
        [1, 9, 130],
        head_dim=head_dim,
        group_size=group_size,
        num_kv_heads=num_kv_heads,
        block_size=block_size,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, num_splits=num_splits)


@pairwise(
    seq_len=[1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300],
    num_splits=SPLITS,
    sliding_window=[None, 1, 31, 32, 33, 64, 65, 1000],
    block_size=[8, 16, 64],
    dtype=dtypes(),
)
def test_lengths_windows_and_parts_at_the_borders_of_tiles(
    device, seq_len, num_splits, sliding_window, block_size, dtype
):
    requests = decodes([seq_len], block_size=block_size, dtype=dtype, device=device)
    assert_right(requests, sliding_window, num_splits)


@pytest.mark.parametrize("sliding_window", [None, 40])
@pytest.mark.parametrize("num_splits", [*SPLITS, 16, 33])
def test_ragged_lengths_with_more_parts_than_some_have_tiles(device, num_splits, sliding_window):
    assert_right(decodes([1, 200, 33, 64, 7], device=device), sliding_window, num_splits)


@pairwise(
    layout=LAYOUTS,
    block_size=[8, 16, 64],
    head_dim=[64, 80],
    num_kv_heads=[1, 3],
    num_splits=[1, 3],
    dtype=dtypes(),
)
def test_any_layout_of_the_cache_in_memory(
    device, layout, block_size, head_dim, num_kv_heads, num_splits, dtype
):
    requests = decodes(
        [40, 3, 100],
        layout=layout,
        block_size=block_size,
        head_dim=head_dim,
        num_kv_heads=num_kv_heads,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, num_splits=num_splits)


@pairwise(scores=SCORES, dtype=dtypes(), sliding_window=[None, 20], num_splits=[1, 2, 5])
def test_scores_that_a_careless_softmax_gets_wrong(
    device, scores, dtype, sliding_window, num_splits
):
    requests = decodes([40, 150], scores=scores, dtype=dtype, device=device)
    assert_right(requests, sliding_window, num_splits)


@pytest.mark.parametrize("num_splits", [None, 1, 2, 8])
@pytest.mark.parametrize("seq_lens", [[0], [0, 0], [0, 70, 0, 5], [70, 0]])
def test_a_row_of_padding_gives_zeros_whatever_it_holds(device, seq_lens, num_splits):
    requests = decodes(seq_lens, device=device)
    is_padding = requests.seq_lens == 0
    requests.q[is_padding] = NAN
    out = run(requests, num_splits=num_splits)
    assert (out[is_padding] == 0).all()
    requests.queries[:] = [torch.nan_to_num(q) for q in requests.queries]
    requests.assert_close(out)


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_request_alone_gives_the_same_bits_as_in_a_crowd(device, num_splits):
    crowd = decodes([3, 75, 30, 130], device=device)
    out = run(crowd, num_splits=num_splits)
    for i in range(4):
        row = slice(i, i + 1)
        alone = replace(
            crowd,
            q=crowd.q[row],
            block_table=crowd.block_table[row],
            seq_lens=crowd.seq_lens[row],
        )
        assert torch.equal(run(alone, num_splits=num_splits), out[row])


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_table_that_is_a_part_of_a_larger_one(device, num_splits):
    requests = decodes([9, 70], device=device)
    larger = requests.block_table.new_zeros(4, requests.block_table.shape[1] + 7)
    larger[1:3, : requests.block_table.shape[1]] = requests.block_table
    assert_right(replace(requests, block_table=larger[1:3]), num_splits=num_splits)


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_column_of_the_queries_may_be_a_row_in_memory(device, num_splits):
    requests = decodes([9, 70], num_kv_heads=2, group_size=3, device=device)
    q = requests.q.permute(2, 1, 0).contiguous().permute(2, 1, 0)
    assert_right(replace(requests, q=q), num_splits=num_splits)


def test_without_requests_there_is_nothing_to_do(device):
    requests = decodes([5], device=device)
    nothing = replace(
        requests,
        q=requests.q[:0],
        block_table=requests.block_table[:0],
        seq_lens=requests.seq_lens[:0],
    )
    assert run(nothing).shape == (0, *requests.q.shape[1:])


def random_case(seed: int, device: str) -> tuple[Batch, int | None, int | None]:
    """Up to six requests of any lengths and pages, in any number of parts."""
    choose = random.Random(seed)
    requests = decodes(
        [choose.choice([0, 1, choose.randint(1, 300)]) for _ in range(choose.randint(1, 6))],
        head_dim=choose.choice([64, 80]),
        num_kv_heads=choose.choice([1, 2]),
        group_size=choose.randint(1, 16),
        block_size=choose.choice([8, 16, 32, 64, 128, 256]),
        dtype=choose.choice(dtypes()),
        layout=choose.choice(list(LAYOUTS)),
        scores=choose.choice(["random", *SCORES]),
        device=device,
        seed=seed,
    )
    window = choose.choice([None, choose.randint(1, 200)])
    return requests, window, choose.choice(SPLITS)


@pytest.mark.parametrize("seed", range(40))
def test_requests_drawn_at_random(device, seed):
    assert_right(*random_case(seed, device))


@pytest.mark.parametrize("seed", range(40, 50))
def test_the_reference_says_the_same(device, seed):
    requests, window, num_splits = random_case(seed, device)
    out = paged_decode_ref(
        *decode_inputs(requests),
        scale=requests.scale,
        sliding_window=window,
        num_splits=num_splits,
    )
    requests.assert_close(out, sliding_window=window)


@pytest.mark.gpu
@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    block_size=[8, 16, 256],
    dtype=dtypes(),
    sliding_window=[None, 700],
    num_splits=[None, 1, 7, 64],
)
def test_thousands_of_tokens(device, head_dim, block_size, dtype, sliding_window, num_splits):
    requests = decodes(
        [5000, 1, 2100, 0],
        head_dim=head_dim,
        num_kv_heads=2,
        block_size=block_size,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, sliding_window, num_splits)


@pytest.mark.gpu
@pytest.mark.parametrize("num_splits", [None, 1])
@pytest.mark.parametrize("layout", ["apart", "key_or_value", "heads_before_slots"])
def test_addresses_past_two_to_the_31_elements(device, layout, num_splits):
    first_block = 2**31 // (16 * 2 * 64) - 3  # the border is among the requests' blocks
    requests = decodes(
        [70, 90],
        num_kv_heads=2,
        layout=layout,
        first_block=first_block,
        dtype=torch.float16,
        device=device,
    )
    assert_right(requests, num_splits=num_splits)


@pytest.mark.gpu
@pytest.mark.parametrize("num_splits", [None, 1, 4])
def test_a_recorded_launch_follows_what_is_written_into_its_inputs(device, num_splits):
    recorded, other = (decodes([9, 70], seed=seed, device=device) for seed in (0, 1))
    run(recorded, num_splits=num_splits)  # compiles, which a recording can't
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(recorded, num_splits=num_splits)
    for mine, theirs in zip(decode_inputs(recorded), decode_inputs(other), strict=True):
        mine.copy_(theirs)
    graph.replay()
    other.assert_close(out)


@pytest.mark.parametrize("last_program_merges", [True, False])
@pytest.mark.parametrize("sliding_window", [None, 600])
@pytest.mark.parametrize("num_splits", [1, 2, 8, 64])
@pytest.mark.parametrize("dtype", dtypes())
def test_parts_of_long_requests_are_merged(
    device, dtype, num_splits, sliding_window, last_program_merges, monkeypatch
):
    """More than the tiles of keys below which nothing is split, merged in both ways."""
    monkeypatch.setattr(module, "last_program_merges", lambda q: last_program_merges)
    requests = decodes([3, 1100, 700, 0, 257], dtype=dtype, device=device)
    assert_right(requests, sliding_window, num_splits)
    assert_right(requests, sliding_window, num_splits)  # the counters of parts are at 0 again
