"""The counter-based generator: an unsigned oracle, and the statistics a draw relies on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minivllm.counter_random import gumbel, uniform


def oracle(seed: int, position: int, vocab_size: int) -> np.ndarray:
    """The same function in Python's integers and NumPy's unsigned words."""
    mask = 2**64 - 1

    def mix64(z: int) -> int:
        z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ (z >> 27)) * 0x94D049BB133111EB & mask
        return z ^ (z >> 31)

    key = mix64((mix64((seed + 0x9E3779B97F4A7C15) & mask) + position) & mask)
    x = np.arange(vocab_size, dtype=np.uint32) ^ np.uint32(key & 0xFFFFFFFF)
    x = (x ^ (x >> np.uint32(16))) * np.uint32(0x7FEB352D)
    x = x + np.uint32(key >> 32)
    x = (x ^ (x >> np.uint32(15))) * np.uint32(0x846CA68B)
    x = x ^ (x >> np.uint32(16))
    return ((x >> np.uint32(9)).astype(np.float64) + 0.5) / 2**23


def rows(seeds: list[int], positions: list[int], vocab_size: int) -> torch.Tensor:
    return uniform(torch.tensor(seeds), torch.tensor(positions), vocab_size)


@given(
    seed=st.integers(-(2**63), 2**63 - 1),
    position=st.integers(0, 2**40),
    vocab_size=st.integers(1, 300),
)
@settings(max_examples=200, deadline=None)
def test_equals_unsigned_arithmetic(seed: int, position: int, vocab_size: int) -> None:
    expected = oracle(seed, position, vocab_size)
    assert rows([seed], [position], vocab_size)[0].double().numpy().tolist() == expected.tolist()


def test_numbers_never_change_between_releases() -> None:
    expected = [0.6521273255348206, 0.7933216691017151, 0.12307113409042358]
    assert rows([0], [0], 3)[0].tolist() == expected


def test_number_depends_on_nothing_else_in_the_batch() -> None:
    together = rows([3, 9, 3], [5, 5, 6], 1000)
    for i, (seed, position) in enumerate([(3, 5), (9, 5), (3, 6)]):
        assert torch.equal(together[i, :77], rows([seed], [position], 77)[0])


def test_neither_0_nor_1_is_ever_drawn() -> None:
    u = uniform(torch.arange(200), torch.arange(200), 50_000)
    assert u.min() >= 2**-24
    assert u.max() <= 1 - 2**-24
    assert torch.isfinite(gumbel(torch.arange(20), torch.arange(20), 50_000)).all()


def chi_square(u: np.ndarray, num_bins: int) -> float:
    """How far the counts in equal bins are from even, in standard deviations."""
    counts = np.bincount((u * num_bins).astype(int).ravel(), minlength=num_bins)
    expected = u.size / num_bins
    statistic = ((counts - expected) ** 2 / expected).sum()
    return float((statistic - (num_bins - 1)) / np.sqrt(2 * (num_bins - 1)))


SEEDS = {
    "neighbouring_seeds": (np.arange(64), np.zeros(64, int)),
    "neighbouring_positions": (np.zeros(64, int), np.arange(64)),
    "seeds_that_differ_in_high_bits": (np.arange(64) << 56, np.zeros(64, int)),
    "seeds_and_positions_with_equal_sums": (np.arange(64), 63 - np.arange(64)),
}


@pytest.fixture(params=SEEDS)
def streams(request: pytest.FixtureRequest) -> np.ndarray:
    """64 rows of 4096 numbers, chosen so that a weak hash would give related rows."""
    seeds, positions = SEEDS[request.param]
    return uniform(torch.from_numpy(seeds), torch.from_numpy(positions), 4096).double().numpy()


def test_numbers_are_even(streams: np.ndarray) -> None:
    assert abs(chi_square(streams, 4096)) < 5


def test_first_tokens_of_related_rows_are_even() -> None:
    seeds = torch.arange(100_000)
    for seed, position in ((seeds, torch.zeros_like(seeds)), (torch.zeros_like(seeds), seeds)):
        assert abs(chi_square(uniform(seed, position, 1).numpy(), 1000)) < 5


@pytest.mark.parametrize("lag", [1, 2, 3, 8, 64, 1024])
def test_neighbouring_tokens_are_independent(streams: np.ndarray, lag: int) -> None:
    a, b = streams[:, :-lag], streams[:, lag:]
    assert abs(chi_square((np.floor(a * 32) + b) / 32, 32 * 32)) < 5


@pytest.mark.parametrize("lag", [1, 2, 3, 8, 32])
def test_related_rows_are_independent(streams: np.ndarray, lag: int) -> None:
    a, b = streams[:-lag], streams[lag:]
    assert abs(chi_square((np.floor(a * 32) + b) / 32, 32 * 32)) < 5
    correlations = ((a - 0.5) * (b - 0.5)).mean(axis=1) * 12 * np.sqrt(a.shape[1])
    assert np.abs(correlations).max() < 5


@pytest.mark.parametrize("bit", [0, 1, 7, 31, 32, 47, 62])
def test_one_bit_of_the_seed_changes_half_of_the_bits(bit: int) -> None:
    def bits(seed: int) -> np.ndarray:
        return (rows([seed], [5], 4096)[0].double().numpy() * 2**23).astype(np.uint32)

    flipped = np.bitwise_count(bits(12345) ^ bits(12345 ^ (1 << bit)))
    assert abs(flipped.mean() / 23 - 0.5) < 0.01


@pytest.mark.gpu
def test_cuda_gives_the_same_numbers() -> None:
    seeds = torch.tensor([0, 1, -1, 2**62])
    positions = torch.tensor([0, 7, 2**33, 5])
    on_cuda = uniform(seeds.cuda(), positions.cuda(), 50_000)
    assert torch.equal(on_cuda.cpu(), uniform(seeds, positions, 50_000))
