"""The sampling kernel: the sampler's draws, from the same random numbers, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import no_type_check

import numpy as np
import pytest
import torch
from kernel_cases import NAN, dtypes, pairwise
from torch import Tensor

from minivllm import counter_random as random
from minivllm.kernels.sample import row_key, sample, sample_ref, uniform
from minivllm.sample.metadata import SETTINGS, SamplingMetadata
from minivllm.sample.sampler import Sampler

import triton  # isort: skip  (after minivllm.kernels, which may turn the interpreter on)
import triton.language as tl  # isort: skip

INF = float("inf")
TWO_PARTS = 1024 + 37  # and the second not full
SEEDS = [0, 1, -1, 2**62, -(2**63), 12345]
POSITIONS = [0, 7, 2**33, 5, 2**40, 1]


def random_logits(num_rows: int, vocab_size: int, seed: int = 0) -> Tensor:
    return torch.randn(num_rows, vocab_size, generator=torch.Generator().manual_seed(seed)) * 2


def run(
    logits: Tensor,
    temperatures: Sequence[float] | float,
    seeds: Sequence[int] | int = 17,
    positions: Sequence[int] | int = 0,
    function=sample,
) -> Tensor:
    """Token ids on the host; a single setting is that of all rows."""

    def column(values: Sequence[float] | float, dtype: torch.dtype) -> Tensor:
        return torch.tensor(values, dtype=dtype).expand(len(logits)).to(logits.device)

    token_ids = function(
        logits,
        column(temperatures, torch.float32),
        column(seeds, torch.int64),
        column(positions, torch.int64),
    )
    assert token_ids.dtype == torch.int64
    return token_ids.cpu()


@triton.jit
@no_type_check
def _store_uniform(seeds_ptr, positions_ptr, out_ptr, VOCAB_SIZE: tl.constexpr):
    row, token_ids = tl.program_id(0), tl.arange(0, VOCAB_SIZE)
    low, high = row_key(tl.load(seeds_ptr + row), tl.load(positions_ptr + row))
    tl.store(out_ptr + row * VOCAB_SIZE + token_ids, uniform(token_ids, low, high))


def test_uniform_numbers_are_the_samplers_bit_for_bit(device: str) -> None:
    seeds, positions = torch.tensor(SEEDS), torch.tensor(POSITIONS)
    out = torch.empty(len(seeds), 4096, device=device)
    _store_uniform[(len(seeds),)](seeds.to(device), positions.to(device), out, VOCAB_SIZE=4096)
    assert torch.equal(out.cpu(), random.uniform(seeds, positions, 4096))


def test_numbers_never_change_between_releases(device: str) -> None:
    seeds = torch.zeros(1, dtype=torch.int64, device=device)
    out = torch.empty(4, device=device)
    _store_uniform[(1,)](seeds, seeds, out, VOCAB_SIZE=4)
    assert out[:3].tolist() == [0.6521273255348206, 0.7933216691017151, 0.12307113409042358]


@pairwise(
    vocab_size=[1, 2, 1000, 1024, TWO_PARTS, 3 * 1024], dtype=dtypes(), layout=["plain", "rows"]
)
def test_temperature_0_is_argmax(
    vocab_size: int, dtype: torch.dtype, layout: str, device: str
) -> None:
    # rounded, so that many are equal and the lowest id has to be found
    logits = random_logits(4, vocab_size).round().to(device, dtype)
    if layout == "rows":
        wide = torch.full((9, vocab_size + 5), INF, dtype=dtype, device=device)
        wide[1::2, :vocab_size] = logits
        logits = wide[1::2, :vocab_size]
    largest = logits.float().amax(-1, keepdim=True)
    lowest = (logits.float() == largest).int().argmax(-1)  # of equal integers: the first
    assert torch.equal(run(logits, 0.0), lowest.cpu())


@pytest.mark.parametrize("places", [[3, 4], [4, 1000], [1023, 1024], [5, 1024, 2047, 2048], [2500]])
def test_tie_within_and_across_parts_goes_to_the_lowest_id(places: list[int], device: str) -> None:
    logits = torch.full((2, 2600), -5.0, device=device)
    logits[:, places] = -1.5
    assert run(logits, 0.0).tolist() == [places[0]] * 2


def draws_of_sampler(logits: Tensor, temperatures: list[float], position: int) -> Tensor:
    settings = np.zeros(len(logits), SETTINGS)
    settings["temperature"], settings["seed"], settings["top_p"] = temperatures, SEEDS, 1
    positions = np.full(len(logits), position)
    metadata = SamplingMetadata.from_numpy(settings, positions, None, logits.device)
    return Sampler()(logits, metadata).cpu()


def exact_sums(logits: Tensor, temperatures: list[float], positions: list[int]) -> Tensor:
    """What a draw is the argmax of, over the temperature, in float64."""
    u = random.uniform(torch.tensor(SEEDS), torch.tensor(positions), logits.shape[-1]).double()
    scaled = logits.double().cpu() / torch.tensor(temperatures).double().clamp(min=0.01)[:, None]
    return scaled - (-u.log()).log()


@pytest.mark.parametrize("vocab_size", [7, 1024, TWO_PARTS])
def test_draws_are_the_samplers(vocab_size: int, device: str) -> None:
    temperatures = [0.0, 0.01, 0.3, 0.6, 1.0, 5.0]
    logits = random_logits(len(SEEDS), vocab_size, seed=vocab_size).to(device)
    num_compared = 0
    for position in range(8):
        drawn = run(logits, temperatures, SEEDS, position)
        expected = draws_of_sampler(logits, temperatures, position)
        best = exact_sums(logits, temperatures, [position] * len(SEEDS)).topk(2).values
        is_clear = best[:, 0] - best[:, 1] > 1e-5 * best[:, 0].abs().clamp(min=1)
        is_clear[0] = True  # temperature 0
        assert torch.equal(drawn[is_clear], expected[is_clear])
        num_compared += int(is_clear.sum())
    assert num_compared > 40, "nearly all are clear, or this compares nothing"


@pytest.mark.parametrize("dtype", dtypes())
def test_draw_has_the_largest_sum_of_logit_and_noise(dtype: torch.dtype, device: str) -> None:
    temperatures = [0.02, 0.5, 0.6, 1.0, 1.3, 2.0]
    logits = random_logits(len(SEEDS), TWO_PARTS, seed=1).to(device, dtype)
    sums = exact_sums(logits, temperatures, POSITIONS)
    for function in (sample, sample_ref):
        drawn = sums.gather(1, run(logits, temperatures, SEEDS, POSITIONS, function)[:, None])[:, 0]
        largest = sums.amax(-1)
        assert (largest - drawn <= 1e-5 * largest.abs().clamp(min=1)).all()


@pytest.mark.parametrize("temperature", [0.7, 2.0])
def test_draws_follow_the_softmax(temperature: float, device: str) -> None:
    num_draws = 50_000 if device == "cuda" else 500
    logits = torch.tensor([[0.1, 0.8, 0.1, 0.4, 0.05, 0.3]]).log()
    probs = (logits[0].double() / temperature).softmax(-1)
    assert probs.min() * num_draws > 5, "too few draws for the test to mean anything"
    drawn = run(logits.to(device).expand(num_draws, -1), temperature, 3, range(num_draws))
    counts, expected = torch.bincount(drawn, minlength=6), probs * num_draws
    statistic = ((counts - expected) ** 2 / expected).sum().item()  # chi-square, 5 degrees
    assert statistic < 30


def test_row_draws_the_same_in_any_company(device: str) -> None:
    logits = random_logits(len(SEEDS), TWO_PARTS).to(device)
    temperatures = [1.0, 0.0, 0.7, 1.0, 0.0, 2.0]
    together = run(logits, temperatures, SEEDS, POSITIONS)
    for i, row in enumerate(zip(temperatures, SEEDS, POSITIONS, strict=True)):
        assert run(logits[i : i + 1], *([value] for value in row)).item() == together[i]


def test_transposed_and_expanded_inputs(device: str) -> None:
    logits = random_logits(3, TWO_PARTS).to(device)
    expected = run(logits, [0.0, 1.0, 0.5], [1, 2, 3], [4, 5, 6])
    temperatures = torch.tensor([[0.0, NAN], [1.0, NAN], [0.5, NAN]], device=device)[:, 0]
    seeds = torch.tensor([[1, -9], [2, -9], [3, -9]], device=device)[:, 0]
    transposed = logits.T.contiguous().T
    assert torch.equal(sample(transposed, temperatures, seeds, seeds + 3).cpu(), expected)
    tokens = run(logits[1:2].expand(4, -1), 1.0, 2, 5)
    assert tokens.tolist() == [expected[1]] * 4


@pytest.mark.parametrize("temperature", [0.0, 1e-30, 1.0, 100.0])
def test_minus_infinity_is_never_chosen_unless_there_is_nothing_else(
    temperature: float, device: str
) -> None:
    logits = torch.full((8, TWO_PARTS), -INF, device=device)
    logits[:4, 1040], logits[4:6, [20, 1050]] = -1e4, -1e30
    tokens = run(logits, temperature, range(8)).tolist()
    assert tokens[:4] == [1040] * 4
    assert set(tokens[4:6]) <= {20, 1050}
    assert all(0 <= token < TWO_PARTS for token in tokens)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("num_numbers", [0, 1, TWO_PARTS])
def test_nan_gives_a_token_of_the_vocabulary(
    temperature: float, num_numbers: int, device: str
) -> None:
    logits = torch.full((3, TWO_PARTS), NAN, device=device)
    logits[:, TWO_PARTS - num_numbers :] = 0.0
    tokens = run(logits, temperature, range(3)).tolist()
    assert all(0 <= token < TWO_PARTS for token in tokens)
    if num_numbers == 1:
        assert tokens == [TWO_PARTS - 1] * 3


def test_plus_infinity_is_chosen(device: str) -> None:
    logits = random_logits(2, TWO_PARTS).to(device)
    logits[:, [1030, 1031]] = INF
    assert run(logits, [0.0, 1.0]).tolist() == [1030, 1030]


def test_no_rows(device: str) -> None:
    assert run(torch.empty(0, 10, device=device), 0.0, 0, 0).shape == (0,)


@pytest.mark.gpu
def test_row_beyond_2_to_the_31_elements() -> None:
    logits = torch.zeros(3, 2**30, dtype=torch.bfloat16, device="cuda")[:, :5000]
    logits[2, 4097] = 1
    assert run(logits, 0.0).tolist() == [0, 0, 4097]


@pytest.mark.gpu
def test_in_a_cuda_graph_with_new_numbers_at_each_replay() -> None:
    logits = random_logits(4, 50_000).cuda()
    temperatures, seeds = torch.ones(4).cuda(), torch.arange(4).cuda()
    positions = torch.zeros(4, dtype=torch.int64).cuda()
    sample(logits, temperatures, seeds, positions)  # compiled before the capture
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tokens = sample(logits, temperatures, seeds, positions)
    for position in (3, 9):
        positions.fill_(position)
        graph.replay()
        assert torch.equal(tokens.cpu(), run(logits, 1.0, range(4), position))
