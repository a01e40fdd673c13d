"""The sampler: greedy and random rows, alone and together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from minivllm.sample.adjust import CHANGE, LogitChanges
from minivllm.sample.metadata import SETTINGS, SamplingMetadata
from minivllm.sample.sampler import Sampler

VOCAB_SIZE = 1001  # no multiple of any vector width


def metadata(
    temperatures: Sequence[float],
    top_ps: Sequence[float] | float = 1.0,
    top_ks: Sequence[int] | int = 0,
    seeds: Sequence[int] | int = 0,
    positions: Sequence[int] | int = 0,
    min_ps: Sequence[float] | float = 0.0,
    changes: LogitChanges | None = None,
    device: str = "cpu",
) -> SamplingMetadata:
    rows = np.zeros(len(temperatures), SETTINGS)
    rows["temperature"], rows["top_p"], rows["top_k"] = temperatures, top_ps, top_ks
    rows["min_p"], rows["seed"] = min_ps, seeds
    return SamplingMetadata.from_numpy(
        settings=rows,
        positions=np.broadcast_to(np.array(positions, np.int32), len(rows)),
        changes=changes,
        device=torch.device(device),
    )


def random_logits(num_rows: int, vocab_size: int = VOCAB_SIZE) -> torch.Tensor:
    return torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(0)) * 2


def frequencies(logits: torch.Tensor, num_draws: int, **settings: float) -> np.ndarray:
    """How often each token is drawn from one row of logits, over as many positions."""
    temperature = settings.pop("temperature", 1.0)
    rows = metadata([temperature] * num_draws, positions=range(num_draws), seeds=17, **settings)
    tokens = Sampler()(logits.expand(num_draws, -1), rows)
    return np.bincount(tokens.numpy(), minlength=logits.shape[-1])


def assert_drawn_from(counts: np.ndarray, probs: np.ndarray) -> None:
    """Chi-square: the counts are a draw from `probs`, to within five standard deviations."""
    assert counts[probs == 0].sum() == 0
    expected = probs[probs > 0] * counts.sum()
    assert expected.min() > 5, "too few draws for the test to mean anything"
    statistic = ((counts[probs > 0] - expected) ** 2 / expected).sum()
    freedom = len(expected) - 1
    assert abs(statistic - freedom) < 5 * np.sqrt(2 * freedom)


def test_temperature_0_takes_the_most_likely() -> None:
    logits = random_logits(5)
    assert torch.equal(Sampler()(logits, metadata([0.0] * 5)), logits.argmax(-1))


def test_temperature_0_ignores_top_k_top_p_and_seed() -> None:
    logits = random_logits(3)
    rows = metadata([0.0] * 3, top_ps=[0.1, 1.0, 0.9], top_ks=[0, 5, 2], seeds=[1, 2, 3])
    assert torch.equal(Sampler()(logits, rows), logits.argmax(-1))


def test_greedy_tie_goes_to_the_lowest_id() -> None:
    logits = torch.zeros(2, VOCAB_SIZE)
    logits[:, [900, 30, 31]] = 1.0
    assert Sampler()(logits, metadata([0.0, 0.0])).tolist() == [30, 30]
    assert Sampler()(logits, metadata([0.0, 1.0])).tolist()[0] == 30


def test_greedy_row_among_random_ones_equals_its_solo_run() -> None:
    logits = random_logits(4)
    out = Sampler()(logits, metadata([1.0, 0.0, 0.5, 0.0], top_ps=[0.5, 1, 1, 1]))
    assert torch.equal(out[[1, 3]], logits[[1, 3]].argmax(-1))


def test_row_draws_the_same_in_any_company() -> None:
    num_rows = 23
    rng = np.random.default_rng(0)
    logits = random_logits(num_rows)
    columns = {
        "temperatures": rng.choice([0.0, 0.3, 1.0, 1.7], num_rows),
        "top_ps": rng.choice([1.0, 0.9, 0.2], num_rows),
        "min_ps": rng.choice([0.0, 0.05, 0.5], num_rows),
        "top_ks": rng.choice([0, 1, 40], num_rows),
        "seeds": rng.integers(0, 2**62, num_rows),
        "positions": rng.integers(0, 1000, num_rows),
    }
    together = Sampler()(logits, metadata(**columns))
    for i in range(num_rows):
        alone = metadata(**{name: column[i : i + 1] for name, column in columns.items()})
        assert Sampler()(logits[i : i + 1], alone).item() == together[i]
    order = rng.permutation(num_rows)
    shuffled = metadata(**{name: column[order] for name, column in columns.items()})
    assert torch.equal(Sampler()(logits[order], shuffled), together[order])


def test_seed_and_position_choose_the_draw() -> None:
    logits = torch.zeros(4, VOCAB_SIZE)
    rows = metadata([1.0] * 4, seeds=[1, 1, 2, 1], positions=[5, 6, 5, 5])
    first, other_position, other_seed, again = Sampler()(logits, rows).tolist()
    assert first == again
    assert len({first, other_position, other_seed}) == 3


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_draws_follow_the_softmax(temperature: float) -> None:
    logits = random_logits(1, 20) / 2
    probs = TemperatureLogitsWarper(temperature)(None, logits).double().softmax(-1)[0].numpy()
    assert_drawn_from(frequencies(logits, 50_000, temperature=temperature), probs)


def test_draws_follow_what_temperature_top_k_and_top_p_leave() -> None:
    logits = random_logits(1, 200)
    scores = TemperatureLogitsWarper(1.5)(None, logits)
    scores = TopPLogitsWarper(0.8)(None, TopKLogitsWarper(30)(None, scores))
    probs = scores.double().softmax(-1)[0].numpy()
    counts = frequencies(logits, 20_000, temperature=1.5, top_ks=30, top_ps=0.8)
    assert 5 < (probs > 0).sum() < 30
    assert_drawn_from(counts, probs)


def test_draws_follow_what_min_p_leaves() -> None:
    logits = random_logits(1, 200)
    scores = MinPLogitsWarper(0.08)(None, TemperatureLogitsWarper(1.5)(None, logits))
    probs = scores.double().softmax(-1)[0].numpy()
    assert 5 < (probs > 0).sum() < 50
    assert_drawn_from(frequencies(logits, 20_000, temperature=1.5, min_ps=0.08), probs)


def test_min_p_comes_after_temperature_and_before_top_p() -> None:
    # at temperature 2 of the best: 1, 0.5, 0.4, 0.3. min-p 0.35 leaves three of them,
    # 0.53, 0.26 and 0.21 of the whole, and top-p 0.75 the best two
    logits = torch.tensor([[1.0, 0.5, 0.4, 0.3]]).log() * 2
    counts = frequencies(logits, 500, temperature=2.0, min_ps=0.35, top_ps=0.75)
    assert (counts > 0).tolist() == [True, True, False, False]
    counts = frequencies(logits, 500, temperature=2.0, min_ps=0.35)
    assert (counts > 0).tolist() == [True, True, True, False]


def test_temperature_0_ignores_min_p() -> None:
    logits = random_logits(3)
    rows = metadata([0.0, 0.0, 1.0], min_ps=[0.5, 1.0, 1.0])
    assert torch.equal(Sampler()(logits, rows), logits.argmax(-1))


def test_draws_are_even_over_a_whole_vocabulary() -> None:
    counts = frequencies(torch.zeros(1, VOCAB_SIZE), 20_000)
    assert_drawn_from(counts, np.full(VOCAB_SIZE, 1 / VOCAB_SIZE))


@pytest.mark.parametrize("temperature", [1e-30, 1e-4, 0.01])
def test_tiny_temperature_is_nearly_greedy(temperature: float) -> None:
    logits = random_logits(50).round()
    logits[torch.arange(50), torch.arange(50)] = 30.0
    rows = metadata([temperature] * 50, seeds=range(50))
    assert Sampler()(logits, rows).tolist() == list(range(50))


def test_temperature_below_the_minimum_is_raised_to_it() -> None:
    logits = torch.randn(50, VOCAB_SIZE) * 0.01
    tiny, smallest = metadata([0.001] * 50, seeds=range(50)), metadata([0.01] * 50, seeds=range(50))
    assert torch.equal(Sampler()(logits, tiny), Sampler()(logits, smallest))


@pytest.mark.parametrize("top_p", [1e-6, 0.5, 1.0])
def test_k_of_1_is_greedy_at_any_p(top_p: float) -> None:
    logits = random_logits(8)
    rows = metadata([1.0] * 8, top_ks=1, top_ps=top_p, seeds=range(8))
    assert torch.equal(Sampler()(logits, rows), logits.argmax(-1))


@pytest.mark.parametrize("temperature", [0.0, 1.0, 5.0])
def test_banned_tokens_are_never_chosen(temperature: float) -> None:
    logits = torch.full((200, VOCAB_SIZE), float("-inf"))
    logits[:, [3, 700]] = torch.tensor([-1e4, -1e4 - 1])
    tokens = Sampler()(logits, metadata([temperature] * 200, seeds=range(200)))
    assert set(tokens.tolist()) == ({3} if temperature == 0 else {3, 700})


def test_nan_in_one_row_leaves_the_others_alone() -> None:
    logits = random_logits(4)
    rows = metadata([1.0, 1.0, 1.0, 0.0], top_ps=[1.0, 0.9, 1.0, 1.0])
    expected = Sampler()(logits, rows)
    for broken in range(4):
        with_nan = logits.clone()
        with_nan[broken] = float("nan")
        tokens = Sampler()(with_nan, rows)
        others = [i for i in range(4) if i != broken]
        assert torch.equal(tokens[others], expected[others])
        assert 0 <= tokens[broken] < VOCAB_SIZE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_logits_are_sampled_in_float32(dtype: torch.dtype) -> None:
    logits = random_logits(6).to(dtype)
    rows = metadata([0.0, 1.0, 0.7, 1.0, 1.0, 0.3], top_ps=[1, 1, 0.9, 1, 1, 1], top_ks=5)
    assert torch.equal(Sampler()(logits, rows), Sampler()(logits.float(), rows))


def test_logits_are_not_changed() -> None:
    logits = random_logits(3)
    before = logits.clone()
    Sampler()(logits, metadata([0.0, 0.5, 0.5], top_ps=[1.0, 1.0, 0.5]))
    assert torch.equal(logits, before)


def test_rows_are_dealt_by_what_they_ask_for() -> None:
    rows = metadata(
        [0.0, 1.0, 1.0, 1.0, 0.0, 1.0],
        top_ps=[0.5, 1.0, 0.5, 1.0, 1.0, 1.0],
        top_ks=[3, 0, 0, 7, 0, -1],
    )
    assert rows.greedy_rows.tolist() == [0, 4]
    assert rows.random_rows.tolist() == [1, 5]
    assert rows.filtered_rows.tolist() == [2, 3]


@pytest.mark.gpu
def test_cuda_draws_what_the_cpu_draws_without_waiting() -> None:
    logits = random_logits(64)
    settings = {
        "temperatures": [0.0, 0.7, 1.0, 2.0] * 16,
        "top_ps": [1.0, 1.0, 0.9, 1.0] * 16,
        "top_ks": [0, 0, 0, 50] * 16,
        "min_ps": [0.0, 0.0, 0.0, 0.1] * 16,
        "seeds": range(64),
    }
    changes = np.array([(3, 5.0, 1.0, 0.0), (9, -np.inf, 1.0, 0.0), (11, 0.0, 1.5, 0.5)], CHANGE)

    def rows_on(device: str) -> SamplingMetadata:
        found = LogitChanges.from_rows({1: changes, 40: changes}, torch.device(device))
        return metadata(**settings, changes=found, device=device)

    expected = Sampler()(logits, rows_on("cpu"))
    rows, on_cuda = rows_on("cuda"), logits.cuda()
    torch.cuda.set_sync_debug_mode("error")
    try:
        tokens = Sampler()(on_cuda, rows)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert (tokens.cpu() == expected).sum() >= 63  # the logarithms may differ in their last bit
