"""A trial: one operation at one size, computed in several ways, checked and then timed.

Timed in two ways. *Launched*: call after call from Python between two events of the GPU, so that a
short operation takes as long as its launches. *In a graph*: all calls as one CUDA graph, as the
engine decodes, where only the GPU counts. Each call has inputs of its own, which together are
larger than the L2 cache: none finds its inputs there.
Next file to read: `attention_trials.py`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from minivllm.bench.report import Spread

Call = Callable[[], Tensor]

OURS = "minivllm"
_ROTATING_BYTES = 200e6  # more than three times the L2 cache of an H200
_MAX_SETS = 64
_MIN_SECONDS = 4e-3  # of what is timed at once
_MAX_ERROR = 2e-2  # relative: in bfloat16 a kernel makes 2e-3, and naive torch 6e-3


class WrongResultError(RuntimeError):
    """A way does not compute what it is timed for."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One operation at one size.

    Attributes:
        labels: Which, as columns of a table.
        num_bytes: That it has to move.
        num_flops: That it has to compute.
        ways: Name of a way to compute it -> a call for each set of inputs.
        pick: The part of a result that `expected` is of.
        expected: That part for the first set of inputs, in float64.
    """

    labels: Mapping[str, str | int]
    num_bytes: float
    num_flops: float = 0.0
    ways: Mapping[str, Sequence[Call]]
    pick: Callable[[Tensor], Tensor]
    expected: Callable[[], Tensor]


def num_input_sets(num_bytes: float) -> int:
    """How many sets of inputs of that size the calls take turns with."""
    return max(1, min(_MAX_SETS, math.ceil(_ROTATING_BYTES / num_bytes)))


@torch.inference_mode()
def check(trial: Trial) -> None:
    """Compare each way's first result with the expected one.

    Raises:
        WrongResultError: One is off by more than rounding.
    """
    expected = trial.expected()
    for name, calls in trial.ways.items():
        with _new_memory_is_nan():
            found = trial.pick(calls[0]()).double()
        error = ((found - expected).norm() / expected.norm()).item()
        if not error <= _MAX_ERROR:  # NaN is no less than anything
            size = ", ".join(f"{key} {value}" for key, value in trial.labels.items())
            raise WrongResultError(f"{name} is wrong at {size}: relative error {error:.2g}")


@contextmanager
def _new_memory_is_nan() -> Iterator[None]:
    """What `torch.empty` gives is filled with NaN: an element that was not written is found out."""
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of operations that are not deterministic
            yield
    finally:
        torch.use_deterministic_algorithms(False)


@torch.inference_mode()
def launched_seconds(calls: Sequence[Call], num_runs: int) -> Spread:
    """Time of one call, launched from Python one after the other."""
    num_passes = math.ceil(_MIN_SECONDS / _pass_seconds(calls))

    def run() -> None:
        for _ in range(num_passes):
            for call in calls:
                call()

    times = [_event_seconds(run) for _ in range(num_runs)]
    return Spread.of(times, scale=1 / (num_passes * len(calls)))


@torch.inference_mode()
def graph_seconds(calls: Sequence[Call], num_runs: int) -> Spread:
    """Time of one call among others in a CUDA graph."""
    from minivllm.worker.device_graph import CudaGraph

    # A replay costs some microseconds itself: short calls go into the graph several times.
    num_passes = max(1, min(math.ceil(128 / len(calls)), int(2e-3 / _pass_seconds(calls))))

    def run() -> None:
        for _ in range(num_passes):
            for call in calls:
                call()

    graph = CudaGraph()
    graph.capture(run)
    graph.replay()
    num_replays = math.ceil(_MIN_SECONDS / _event_seconds(graph.replay))

    def replay() -> None:
        for _ in range(num_replays):
            graph.replay()

    times = [_event_seconds(replay) for _ in range(num_runs)]
    return Spread.of(times, scale=1 / (num_replays * num_passes * len(calls)))


def _pass_seconds(calls: Sequence[Call]) -> float:
    """Roughly, the time of all calls, once they are warm."""

    def run() -> None:
        for call in calls:
            call()

    run()
    return _event_seconds(run)


def _event_seconds(run: Callable[[], object]) -> float:
    """What passes on the GPU from the launch of `run` to its end."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) / 1e3
