"""Causal attention over a paged cache, whole prompts and chunks, against float64."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from kernel_cases import LAYOUTS, NAN, SCORES, Batch, batch, dtypes, pairwise, start_loc
from torch import Tensor

from minivllm.kernels.paged_prefill import paged_prefill, paged_prefill_ref


def run(
    requests: Batch, *, sliding_window: int | None = None, max_query_len: int | None = None
) -> Tensor:
    return paged_prefill(
        *prefill_inputs(requests),
        max_query_len=max_query_len or requests.max_query_len,
        scale=requests.scale,
        sliding_window=sliding_window,
    )


def prefill_inputs(requests: Batch) -> tuple[Tensor, ...]:
    return (
        requests.q,
        requests.key_cache,
        requests.value_cache,
        requests.block_table,
        requests.query_start_loc,
        requests.seq_lens,
    )


def assert_right(requests: Batch, sliding_window: int | None = None) -> None:
    requests.assert_close(
        run(requests, sliding_window=sliding_window), sliding_window=sliding_window
    )


@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    group_size=[1, 2, 3, 4, 7, 8, 16],
    num_kv_heads=[1, 2],
    block_size=[8, 16, 32, 64, 128, 256],
    dtype=dtypes(),
    sliding_window=[None, 1, 5, 40],
)
def test_every_shape_of_heads_and_pages(
    device, head_dim, group_size, num_kv_heads, block_size, dtype, sliding_window
):
    requests = batch(
        [1, 5, 37],
        [1, 9, 70],
        head_dim=head_dim,
        group_size=group_size,
        num_kv_heads=num_kv_heads,
        block_size=block_size,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, sliding_window)


@pairwise(
    query_len=[1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130],
    num_cached=[0, 1, 31, 32, 33, 64, 100],
    block_size=[8, 16, 64],
    dtype=dtypes(),
    sliding_window=[None, 32, 33, 64],
)
def test_lengths_at_the_borders_of_tiles_and_pages(
    device, query_len, num_cached, block_size, dtype, sliding_window
):
    requests = batch(
        [query_len],
        [query_len + num_cached],
        group_size=1,
        block_size=block_size,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, sliding_window)


@pairwise(
    layout=LAYOUTS, block_size=[8, 16, 64], head_dim=[64, 80], num_kv_heads=[1, 3], dtype=dtypes()
)
def test_any_layout_of_the_cache_in_memory(
    device, layout, block_size, head_dim, num_kv_heads, dtype
):
    requests = batch(
        [3, 20],
        [40, 20],
        layout=layout,
        block_size=block_size,
        head_dim=head_dim,
        num_kv_heads=num_kv_heads,
        dtype=dtype,
        device=device,
    )
    assert_right(requests)


@pairwise(scores=SCORES, dtype=dtypes(), sliding_window=[None, 20])
def test_scores_that_a_careless_softmax_gets_wrong(device, scores, dtype, sliding_window):
    requests = batch([40, 100], [90, 100], scores=scores, dtype=dtype, device=device)
    assert_right(requests, sliding_window)


def test_prompts_chunks_and_decodes_in_one_launch(device):
    assert_right(batch([1, 33, 1, 8, 1, 50], [90, 33, 1, 70, 17, 50], device=device))


def test_a_prompt_in_chunks_gives_what_it_gives_whole(device):
    prompt = batch([90], [90], device=device)
    chunks = []
    for begin, end in [(0, 1), (1, 34), (34, 64), (64, 90)]:
        chunk = replace(
            prompt,
            q=prompt.q[begin:end],
            queries=[prompt.queries[0][begin:end]],
            query_start_loc=start_loc([end - begin], device),
            seq_lens=torch.tensor([end], dtype=torch.int32, device=device),
        )
        chunks.append(run(chunk))
    prompt.assert_close(torch.cat(chunks))


def test_a_request_alone_gives_the_same_bits_as_in_a_crowd(device):
    crowd = batch([3, 40, 1, 9], [3, 75, 30, 9], device=device)
    out = run(crowd)
    starts = crowd.query_start_loc.tolist()
    for i in range(4):
        rows = slice(starts[i], starts[i + 1])
        alone = replace(
            crowd,
            q=crowd.q[rows],
            queries=crowd.queries[i : i + 1],
            block_table=crowd.block_table[i : i + 1],
            query_start_loc=start_loc([rows.stop - rows.start], device),
            seq_lens=crowd.seq_lens[i : i + 1],
        )
        assert torch.equal(run(alone), out[rows])


def test_requests_without_queries_and_room_for_more_queries(device):
    requests = batch([0, 5, 0, 37, 0], [30, 9, 0, 70, 1], device=device)
    requests.assert_close(run(requests, max_query_len=500))


def test_rows_of_no_request_are_not_read(device):
    requests = batch([5, 37], [9, 70], device=device)
    frame = requests.q.new_full((3, *requests.q.shape[1:]), NAN)
    framed = replace(
        requests,
        q=torch.cat([frame, requests.q, frame]),
        query_start_loc=start_loc([5, 37], device, first=3),
    )
    requests.assert_close(run(framed)[3:-3])


def test_a_table_that_is_a_part_of_a_larger_one(device):
    requests = batch([5, 37], [9, 70], device=device)
    larger = requests.block_table.new_zeros(4, requests.block_table.shape[1] + 7)
    larger[1:3, : requests.block_table.shape[1]] = requests.block_table
    assert_right(replace(requests, block_table=larger[1:3]))


def test_a_column_of_the_queries_may_be_a_row_in_memory(device):
    requests = batch([5, 37], [9, 70], device=device)
    assert_right(replace(requests, q=requests.q.permute(2, 1, 0).contiguous().permute(2, 1, 0)))


@pytest.mark.parametrize("num_reqs", [0, 1])
def test_without_queries_there_is_nothing_to_do(device, num_reqs):
    requests = batch([0], [5], device=device)
    nothing = replace(
        requests,
        block_table=requests.block_table[:num_reqs],
        query_start_loc=requests.query_start_loc[: num_reqs + 1],
        seq_lens=requests.seq_lens[:num_reqs],
    )
    assert run(nothing).shape == requests.q.shape


def random_case(seed: int, device: str) -> tuple[Batch, int | None]:
    """Up to five requests of any lengths, chunks and pages."""
    choose = random.Random(seed)
    num_reqs = choose.randint(1, 5)
    query_lens = [choose.choice([0, 1, choose.randint(1, 80)]) for _ in range(num_reqs - 1)] + [1]
    requests = batch(
        query_lens,
        [query_len + choose.choice([0, choose.randint(0, 80)]) for query_len in query_lens],
        head_dim=choose.choice([64, 80]),
        num_kv_heads=choose.choice([1, 2]),
        group_size=choose.randint(1, 5),
        block_size=choose.choice([8, 16, 32, 64, 128, 256]),
        dtype=choose.choice(dtypes()),
        layout=choose.choice(list(LAYOUTS)),
        scores=choose.choice(["random", *SCORES]),
        device=device,
        seed=seed,
    )
    return requests, choose.choice([None, choose.randint(1, 100)])


@pytest.mark.parametrize("seed", range(30))
def test_requests_drawn_at_random(device, seed):
    assert_right(*random_case(seed, device))


@pytest.mark.parametrize("seed", range(30, 40))
def test_the_reference_says_the_same(device, seed):
    requests, window = random_case(seed, device)
    out = paged_prefill_ref(
        *prefill_inputs(requests),
        max_query_len=requests.max_query_len,
        scale=requests.scale,
        sliding_window=window,
    )
    requests.assert_close(out, sliding_window=window)


@pytest.mark.gpu
@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    block_size=[8, 16, 256],
    dtype=dtypes(),
    sliding_window=[None, 700],
)
def test_thousands_of_tokens(device, head_dim, block_size, dtype, sliding_window):
    requests = batch(
        [1500, 700, 1],
        [1500, 2100, 900],
        head_dim=head_dim,
        num_kv_heads=2,
        block_size=block_size,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, sliding_window)


@pytest.mark.gpu
@pytest.mark.parametrize("layout", ["apart", "key_or_value", "heads_before_slots"])
def test_addresses_past_two_to_the_31_elements(device, layout):
    first_block = 2**31 // (16 * 2 * 64) - 3  # the border is among the requests' blocks
    requests = batch(
        [70, 3],
        [70, 90],
        num_kv_heads=2,
        layout=layout,
        first_block=first_block,
        dtype=torch.float16,
        device=device,
    )
    assert_right(requests)


@pytest.mark.gpu
def test_a_recorded_launch_follows_what_is_written_into_its_inputs(device):
    recorded, other = (batch([5, 37], [9, 70], seed=seed, device=device) for seed in (0, 1))
    run(recorded)  # compiles, which a recording can't
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = run(recorded)
    for mine, theirs in zip(prefill_inputs(recorded), prefill_inputs(other), strict=True):
        mine.copy_(theirs)
    graph.replay()
    other.assert_close(out)
