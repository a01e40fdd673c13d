"""Min-p, top-k and top-p against a float64 oracle and Hugging Face's processors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from minivllm.sample.logits import apply_min_p, apply_top_k_top_p, sort_descending

INF = float("inf")


def kept_by_oracle(logits: np.ndarray, top_k: int, top_p: float) -> set[int]:
    """The tokens left of one row: plain words, float64, one token at a time."""
    logits = logits.astype(np.float64)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    if top_k > 0:
        kth = logits[order[min(top_k, len(order)) - 1]]
        order = [i for i in order if logits[i] >= kth]
    if top_p >= 1:
        return set(order)
    weights = np.exp(logits[order] - logits[order[0]])
    weights = weights / weights.sum()
    total, kept = 0.0, set()
    for i, weight in zip(order, weights, strict=True):
        kept.add(i)
        total += weight
        if total >= top_p:
            break
    return kept


def kept(logits: torch.Tensor, top_ks: list[int], top_ps: list[float]) -> list[set[int]]:
    out = apply_top_k_top_p(logits, torch.tensor(top_ks), torch.tensor(top_ps))
    masks = out > -INF
    assert torch.equal(out[masks], logits[masks]), "what is kept is not changed"
    return [set(mask.nonzero()[:, 0].tolist()) for mask in masks]


def random_logits(num_rows: int, vocab_size: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * 3


@given(
    vocab_size=st.integers(1, 60),
    top_k=st.integers(-1, 70),
    top_p=st.floats(2**-10, 1.0, width=32),
    spread=st.sampled_from([0.01, 1.0, 10.0]),
    decimals=st.sampled_from([0, 1, 6]),  # few decimals make ties
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=400, deadline=None)
def test_keeps_what_the_oracle_keeps(
    vocab_size: int, top_k: int, top_p: float, spread: float, decimals: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logits = np.round(rng.standard_normal(vocab_size) * spread, decimals).astype(np.float32)
    (ours,) = kept(torch.from_numpy(logits)[None], [top_k], [top_p])
    # p may fall on a border to within float32: then either side of it is right
    fewest = kept_by_oracle(logits, top_k, top_p - 1e-6)
    most = kept_by_oracle(logits, top_k, min(1.0, top_p + 1e-6))
    assert fewest <= ours <= most


def test_each_row_has_its_own_k_and_p() -> None:
    logits = random_logits(6, 500)
    top_ks, top_ps = [0, 5, -1, 40, 1, 500], [0.5, 1.0, 1.0, 0.9, 0.1, 0.3]
    expected = [
        kept_by_oracle(row, k, p) for row, k, p in zip(logits.numpy(), top_ks, top_ps, strict=True)
    ]
    assert kept(logits, top_ks, top_ps) == expected


@pytest.mark.parametrize("top_k", [1, 2, 50, 999, 1000])
def test_top_k_equals_transformers(top_k: int) -> None:
    logits = random_logits(4, 1000).round(decimals=1)  # with ties at the border
    expected = TopKLogitsWarper(top_k)(torch.empty(4, 0), logits)
    out = apply_top_k_top_p(logits, torch.full((4,), top_k), torch.ones(4))
    assert torch.equal(out, expected)


@pytest.mark.parametrize("top_p", [0.01, 0.3, 0.9, 0.99])
def test_top_p_equals_transformers(top_p: float) -> None:
    logits = random_logits(4, 1000)
    expected = TopPLogitsWarper(top_p)(torch.empty(4, 0), logits)
    out = apply_top_k_top_p(logits, torch.zeros(4, dtype=torch.int64), torch.full((4,), top_p))
    assert torch.equal(out, expected)


def test_top_p_after_top_k_equals_transformers() -> None:
    logits = random_logits(4, 1000)
    expected = TopPLogitsWarper(0.7)(torch.empty(4, 0), TopKLogitsWarper(20)(None, logits))
    out = apply_top_k_top_p(logits, torch.full((4,), 20), torch.full((4,), 0.7))
    assert torch.equal(out, expected)


@pytest.mark.parametrize("min_p", [0.0, 0.01, 0.3, 1.0])
def test_min_p_equals_transformers(min_p: float) -> None:
    logits = random_logits(4, 1000)
    expected = MinPLogitsWarper(min_p)(torch.empty(4, 0), logits)
    assert torch.equal(apply_min_p(logits, torch.full((4,), min_p)), expected)


def test_each_row_has_its_own_min_p() -> None:
    logits = torch.tensor([0.5, 0.25, 0.2, 0.05]).log().expand(4, -1)
    out = apply_min_p(logits, torch.tensor([0.0, 0.3, 0.45, 0.9]))
    assert (out > -INF).sum(-1).tolist() == [4, 3, 2, 1]
    assert torch.equal(out[0], logits[0])


def test_min_p_of_1_keeps_all_that_tie_with_the_best() -> None:
    out = apply_min_p(torch.tensor([[2.0, 3.0, 3.0, -INF]]), torch.ones(1))
    assert out.tolist() == [[-INF, 3.0, 3.0, -INF]]


def test_min_p_leaves_a_row_without_any_likely_token_as_it_is() -> None:
    logits = torch.full((1, 4), -INF)
    assert torch.equal(apply_min_p(logits, torch.tensor([0.5])), logits)


def test_all_that_tie_with_the_kth_are_kept() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.0, 2.0, 2.0, 0.0]])
    assert kept(logits, [2], [1.0]) == [{1, 2, 3, 4}]


def test_top_p_takes_the_lowest_ids_among_equals() -> None:
    assert kept(torch.zeros(1, 8), [0], [0.5]) == [{0, 1, 2, 3}]


def test_top_p_is_over_what_top_k_leaves() -> None:
    # of all: 0.4, 0.3, 0.2, 0.1; of the best two: 4/7 = 0.571 and 3/7
    logits = torch.tensor([[0.4, 0.3, 0.2, 0.1]]).log()
    assert kept(logits, [2], [0.55]) == [{0}]
    assert kept(logits, [0], [0.55]) == [{0, 1}]


def test_the_token_that_crosses_p_is_kept() -> None:
    logits = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log()
    assert kept(logits, [0], [0.75]) == [{0, 1}]
    assert kept(logits, [0], [0.76]) == [{0, 1, 2}]


@pytest.mark.parametrize("top_p", [1e-9, 0.5, 1.0])
def test_k_of_1_leaves_the_most_likely(top_p: float) -> None:
    logits = random_logits(3, 1000)
    expected = [{int(token)} for token in logits.argmax(-1)]
    assert kept(logits, [1] * 3, [top_p] * 3) == expected


def test_p_of_1_keeps_even_what_float32_cannot_add() -> None:
    logits = torch.tensor([[0.0, -50.0, -80.0, -100.0]])
    assert kept(logits, [0], [1.0]) == [{0, 1, 2, 3}]
    assert kept(logits, [3], [1.0]) == [{0, 1, 2}]


def test_rounding_of_p_never_lets_more_than_k_through() -> None:
    num_rows, almost_1 = 20_000, 1 - 2**-24
    rows = kept(random_logits(num_rows, 8), [2] * num_rows, [almost_1] * num_rows)
    assert max(map(len, rows)) == 2


def test_banned_tokens_stay_banned() -> None:
    logits = torch.tensor([[1.0, -INF, 0.0, -INF]])
    assert kept(logits, [3], [0.999999]) == [{0, 2}]


def test_row_does_not_depend_on_its_neighbours() -> None:
    logits = random_logits(5, 3001)
    top_ks, top_ps = torch.tensor([0, 7, 0, 300, 0]), torch.tensor([0.9, 1.0, 0.1, 0.5, 0.99])
    together = apply_top_k_top_p(logits, top_ks, top_ps)
    for i in range(5):
        alone = apply_top_k_top_p(logits[i : i + 1], top_ks[i : i + 1], top_ps[i : i + 1])
        assert torch.equal(alone[0], together[i])


def test_logits_are_not_changed() -> None:
    logits = random_logits(2, 100)
    before = logits.clone()
    apply_top_k_top_p(logits, torch.tensor([3, 0]), torch.tensor([1.0, 0.5]))
    assert torch.equal(logits, before)


def test_numpy_sort_equals_torch_sort() -> None:
    logits = random_logits(3, 1000)
    logits[0, :10] = -INF
    assert torch.equal(sort_descending(logits), logits.sort(-1, descending=True).values)
