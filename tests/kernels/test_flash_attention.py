"""Flash attention over packed requests, against float64."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from kernel_cases import (
    NAN,
    SCORES,
    Batch,
    attend,
    batch,
    dtypes,
    pairwise,
    start_loc,
    with_margin,
)
from torch import Tensor

from minivllm.kernels.flash_attention import flash_attention, flash_attention_ref


def key_start_loc(requests: Batch, *, first: int = 0) -> Tensor:
    return start_loc([len(k) for k in requests.keys], requests.q.device, first=first)


def run(requests: Batch, **rules: Any) -> tuple[Tensor, Tensor]:
    return flash_attention(
        requests.q,
        with_margin(torch.cat(requests.keys)),
        with_margin(torch.cat(requests.values)),
        requests.query_start_loc,
        key_start_loc(requests),
        max_query_len=requests.max_query_len,
        scale=requests.scale,
        **rules,
    )


def exact_lse(requests: Batch, **rules: Any) -> Tensor:
    each = zip(requests.queries, requests.keys, requests.values, strict=True)
    return torch.cat([attend(*request, requests.scale, **rules)[1] for request in each], dim=1)


def assert_right(requests: Batch, **rules: Any) -> None:
    out, lse = run(requests, **rules)
    requests.assert_close(out, **rules)
    assert lse.dtype == torch.float32
    torch.testing.assert_close(lse.double(), exact_lse(requests, **rules), atol=2e-5, rtol=1e-5)


@pairwise(
    head_dim=[64, 80, 96, 128, 256],
    group_size=[1, 2, 3, 4, 7, 8, 16],
    num_kv_heads=[1, 2],
    dtype=dtypes(),
    is_causal=[True, False],
    sliding_window=[None, 1, 5, 40],
)
def test_every_shape_of_heads(
    device, head_dim, group_size, num_kv_heads, dtype, is_causal, sliding_window
):
    requests = batch(
        [1, 5, 37],
        [1, 9, 70],
        head_dim=head_dim,
        group_size=group_size,
        num_kv_heads=num_kv_heads,
        dtype=dtype,
        device=device,
    )
    assert_right(requests, is_causal=is_causal, sliding_window=sliding_window)


@pairwise(
    query_len=[1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 130],
    num_cached=[0, 1, 31, 32, 33, 64, 100],
    dtype=dtypes(),
    is_causal=[True, False],
    sliding_window=[None, 32, 33, 64],
)
def test_lengths_at_the_borders_of_tiles(
    device, query_len, num_cached, dtype, is_causal, sliding_window
):
    requests = batch(
        [query_len], [query_len + num_cached], group_size=1, dtype=dtype, device=device
    )
    assert_right(requests, is_causal=is_causal, sliding_window=sliding_window)


@pairwise(scores=SCORES, dtype=dtypes(), is_causal=[True, False], sliding_window=[None, 20])
def test_scores_that_a_careless_softmax_gets_wrong(
    device, scores, dtype, is_causal, sliding_window
):
    requests = batch([40, 100], [90, 100], scores=scores, dtype=dtype, device=device)
    assert_right(requests, is_causal=is_causal, sliding_window=sliding_window)


@pytest.mark.parametrize("num_keys", [0, 1, 3])
def test_a_query_before_the_first_key_gets_zeros_and_minus_infinity(device, num_keys):
    requests = batch([2, 40, 1], [7, num_keys, 4], device=device)
    out, lse = run(requests)
    before = slice(2, 42 - num_keys)
    assert (out[before] == 0).all()
    assert (lse[:, before] == -torch.inf).all()
    assert_right(requests)


def test_all_keys_of_no_query_and_all_queries_of_no_key(device):
    requests = batch([0, 3, 5, 0], [4, 3, 0, 0], device=device)
    assert_right(requests)
    assert_right(requests, is_causal=False)


def test_a_request_alone_gives_the_same_bits_as_in_a_crowd(device):
    crowd = batch([3, 40, 1, 9], [3, 75, 30, 9], device=device)
    out, lse = run(crowd)
    starts = crowd.query_start_loc.tolist()
    for i, (q, k, v) in enumerate(zip(crowd.queries, crowd.keys, crowd.values, strict=True)):
        alone = [start_loc([len(x)], device) for x in (q, k)]
        out_alone, lse_alone = flash_attention(
            q, k, v, *alone, max_query_len=len(q), scale=crowd.scale
        )
        rows = slice(starts[i], starts[i + 1])
        assert torch.equal(out_alone, out[rows])
        assert torch.equal(lse_alone, lse[:, rows])


def test_rows_of_no_request_are_not_read(device):
    requests = batch([5, 37], [9, 70], device=device)

    def framed(heads: Tensor) -> Tensor:
        frame = heads.new_full((3, *heads.shape[1:]), NAN)
        return torch.cat([frame, heads, frame])

    out, lse = flash_attention(
        framed(requests.q),
        framed(torch.cat(requests.keys)),
        framed(torch.cat(requests.values)),
        start_loc([5, 37], device, first=3),
        key_start_loc(requests, first=3),
        max_query_len=37,
        scale=requests.scale,
    )
    requests.assert_close(out[3:-3])
    torch.testing.assert_close(lse[:, 3:-3].double(), exact_lse(requests), atol=2e-5, rtol=1e-5)


def test_more_room_for_queries_than_any_request_has(device):
    requests = batch([5, 37], [9, 70], device=device)
    starts = requests.query_start_loc, key_start_loc(requests)
    packed = requests.q, torch.cat(requests.keys), torch.cat(requests.values)
    out, _ = flash_attention(*packed, *starts, max_query_len=500, scale=requests.scale)
    requests.assert_close(out)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (0, 2, 1), (1, 2, 0)])
def test_any_order_of_the_axes_in_memory(device, order):
    requests = batch([5, 37], [9, 70], num_kv_heads=2, device=device)

    def reordered(heads: Tensor) -> Tensor:
        back = [order.index(axis) for axis in range(3)]
        return heads.permute(order).contiguous().permute(back)

    out, _ = flash_attention(
        *(reordered(x) for x in (requests.q, torch.cat(requests.keys), torch.cat(requests.values))),
        requests.query_start_loc,
        key_start_loc(requests),
        max_query_len=37,
        scale=requests.scale,
    )
    requests.assert_close(out)


def test_slices_of_a_fused_qkv(device):
    requests = batch([5, 37], [5, 37], num_kv_heads=2, group_size=3, head_dim=80, device=device)
    packed = requests.q, torch.cat(requests.keys), torch.cat(requests.values)
    q, k, v = torch.cat(packed, dim=1).split([6, 2, 2], dim=1)
    starts = requests.query_start_loc
    out, _ = flash_attention(q, k, v, starts, starts, max_query_len=37, scale=requests.scale)
    requests.assert_close(out)


def test_two_halves_of_the_keys_merge_into_the_whole(device):
    requests = batch([20], [90], device=device)
    starts = [requests.query_start_loc, start_loc([45], device)]
    sizes = {"max_query_len": 20, "scale": requests.scale, "is_causal": False}
    (first, first_lse), (second, second_lse) = (
        flash_attention(
            requests.q, requests.keys[0][half], requests.values[0][half], *starts, **sizes
        )
        for half in (slice(0, 45), slice(45, 90))
    )
    weight = (first_lse - torch.logaddexp(first_lse, second_lse)).exp().T[:, :, None]
    merged = weight * first + (1 - weight) * second
    requests.assert_close(merged.contiguous(), is_causal=False)


@pytest.mark.parametrize(("num_tokens", "num_reqs"), [(0, 1), (0, 0)])
def test_without_queries_there_is_nothing_to_do(device, num_tokens, num_reqs):
    q, k = torch.ones(num_tokens, 2, 64, device=device), torch.ones(5, 1, 64, device=device)
    query_starts = torch.zeros(num_reqs + 1, dtype=torch.int32, device=device)
    key_starts = torch.tensor([0, 5][: num_reqs + 1], dtype=torch.int32, device=device)
    out, lse = flash_attention(q, k, k, query_starts, key_starts, max_query_len=0, scale=1.0)
    assert out.shape == q.shape
    assert lse.shape == (2, 0)


def random_case(seed: int, device: str) -> tuple[Batch, dict[str, Any]]:
    """Up to five requests of any lengths, chunks and rules."""
    choose = random.Random(seed)
    num_reqs = choose.randint(1, 5)
    query_lens = [choose.choice([0, 1, choose.randint(1, 80)]) for _ in range(num_reqs - 1)] + [1]
    requests = batch(
        query_lens,
        [query_len + choose.choice([0, choose.randint(0, 80)]) for query_len in query_lens],
        head_dim=choose.choice([64, 80]),
        num_kv_heads=choose.choice([1, 2]),
        group_size=choose.randint(1, 5),
        dtype=choose.choice(dtypes()),
        scores=choose.choice(["random", *SCORES]),
        device=device,
        seed=seed,
    )
    window = choose.choice([None, choose.randint(1, 100)])
    return requests, {"is_causal": choose.choice([True, False]), "sliding_window": window}


@pytest.mark.parametrize("seed", range(30))
def test_requests_drawn_at_random(device, seed):
    requests, rules = random_case(seed, device)
    assert_right(requests, **rules)


@pytest.mark.parametrize("seed", range(30, 40))
def test_the_reference_says_the_same(device, seed):
    requests, rules = random_case(seed, device)
    out, lse = flash_attention_ref(
        requests.q,
        torch.cat(requests.keys),
        torch.cat(requests.values),
        requests.query_start_loc,
        key_start_loc(requests),
        max_query_len=requests.max_query_len,
        scale=requests.scale,
        **rules,
    )
    requests.assert_close(out, **rules)
    torch.testing.assert_close(lse.double(), exact_lse(requests, **rules), atol=2e-5, rtol=1e-5)


@pytest.mark.gpu
@pairwise(head_dim=[64, 80, 96, 128, 256], dtype=dtypes(), sliding_window=[None, 700])
def test_thousands_of_tokens(device, head_dim, dtype, sliding_window):
    requests = batch(
        [1500, 700], [1500, 2100], head_dim=head_dim, num_kv_heads=2, dtype=dtype, device=device
    )
    assert_right(requests, sliding_window=sliding_window)
    assert_right(requests, is_causal=False)


@pytest.mark.gpu
def test_addresses_past_two_to_the_31_elements(device):
    requests = batch([70], [70], dtype=torch.float16, device=device)
    num_before = 2**31 // 64 - 30  # the border is among the keys, and the first query is past it
    packed = []
    for heads in (requests.q, requests.keys[0], requests.values[0]):
        packed.append(heads.new_empty((num_before + 70, *heads.shape[1:])))
        packed[-1][num_before:] = heads
    starts = start_loc([70], device, first=num_before)
    out, lse = flash_attention(*packed, starts, starts, max_query_len=70, scale=requests.scale)
    requests.assert_close(out[num_before:])
    exact = exact_lse(requests)
    torch.testing.assert_close(lse[:, num_before:].double(), exact, atol=2e-5, rtol=1e-5)
