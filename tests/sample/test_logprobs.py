"""Log-probabilities and ranks against torch in float64, one token at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.sample.logprobs import ranks_of_sorted, token_logprobs

INF = float("inf")


@given(
    vocab_size=st.integers(1, 40),
    nums_top=st.lists(st.integers(0, 45), min_size=1, max_size=5),
    decimals=st.sampled_from([0, 3]),  # few decimals make ties
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=200, deadline=None)
def test_equals_log_softmax_in_float64(
    vocab_size: int, nums_top: list[int], decimals: int, seed: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(len(nums_top), vocab_size, generator=generator) * 4
    logits = logits.round(decimals=decimals)
    chosen = torch.randint(vocab_size, (len(nums_top),), generator=generator)

    found = token_logprobs(logits, chosen, nums_top)

    for row, first, num_top, entry in zip(
        logits.double(), chosen.tolist(), nums_top, found, strict=True
    ):
        expected = row.log_softmax(-1)
        assert entry.token_ids[0] == first
        assert len(set(entry.token_ids)) == len(entry.token_ids)
        for token_id, logprob, rank in zip(*entry, strict=True):
            assert logprob == pytest.approx(float(expected[token_id]), abs=1e-5)
            assert rank == 1 + int((row > row[token_id]).sum())
        top = sorted(row.tolist(), reverse=True)[:num_top]
        others = [float(row[i]) for i in entry.token_ids[1:]]
        assert others == sorted(others, reverse=True)
        if len(others) == len(top):  # the first is not one of the most likely
            assert others == top
        else:
            assert sorted([*others, float(row[first])], reverse=True) == (
                top or [float(row[first])]
            )


def test_chosen_token_comes_first_and_is_not_listed_twice() -> None:
    logits = torch.tensor([[0.1, 0.2, 0.3, 0.4]]).log().expand(3, -1)
    among, below, none = token_logprobs(logits, torch.tensor([2, 0, 3]), [2, 2, 0])
    assert (among.token_ids, among.ranks) == ([2, 3], [2, 1])
    assert (below.token_ids, below.ranks) == ([0, 3, 2], [4, 1, 2])
    assert (none.token_ids, none.ranks) == ([3], [1])
    assert below.logprobs == pytest.approx(torch.tensor([0.1, 0.4, 0.3]).log().tolist())


def test_more_than_the_vocabulary_is_the_vocabulary() -> None:
    (entry,) = token_logprobs(torch.zeros(1, 3), torch.tensor([1]), [10])
    assert sorted(entry.token_ids) == [0, 1, 2]


def test_lowest_ids_come_first_among_equals_however_many_are_asked_for() -> None:
    logits = torch.zeros(4, 1000)
    logits[:, 500] = 1.0
    found = token_logprobs(logits, torch.full((4,), 999), [1, 3, 200, 0])
    best_first = [500, *range(199)]
    assert [entry.token_ids[1:] for entry in found] == [best_first[:k] for k in (1, 3, 200, 0)]


def test_the_one_possible_token_is_the_most_likely() -> None:
    (entry,) = token_logprobs(torch.tensor([[-INF, -INF, 0.0]]), torch.tensor([2]), [3])
    assert entry.token_ids == [2, 0, 1]
    assert entry.logprobs == [0.0, -INF, -INF]
    assert entry.ranks == [1, 2, 2]


def test_equals_share_a_rank() -> None:
    assert ranks_of_sorted(torch.tensor([[5.0, 3.0, 3.0, 1.0]])).tolist() == [[1, 2, 2, 4]]
    assert ranks_of_sorted(torch.zeros(2, 3)).tolist() == [[1, 1, 1]] * 2
    assert ranks_of_sorted(torch.zeros(2, 0)).shape == (2, 0)


def test_banned_tokens_have_minus_infinity() -> None:
    (entry,) = token_logprobs(torch.tensor([[0.0, -INF, 0.0]]), torch.tensor([1]), [1])
    assert entry.logprobs[0] == -INF
    assert entry.ranks[0] == 3


def test_half_precision_logits_are_read_in_float32() -> None:
    logits = torch.randn(2, 30, generator=torch.Generator().manual_seed(0)).bfloat16()
    token_ids = torch.tensor([3, 4])
    expected = token_logprobs(logits.float(), token_ids, [5, 5])
    assert token_logprobs(logits, token_ids, [5, 5]) == expected


def test_results_are_plain_data() -> None:
    (entry,) = token_logprobs(torch.zeros(1, 3), torch.tensor([1]), [2])
    for values, kind in zip(entry, (int, float, int), strict=True):
        assert all(type(value) is kind for value in values)
