"""Our kernels beside PyTorch's and FlashAttention's: W3's grid, and the small kernels of a step.

Everything is measured in one run, the machine's own speeds first: `x floor` is the time in a graph
over the least that those speeds allow. Kernels are compiled beforehand, in several processes, which
leave them in Triton's cache on the disk.

    python -m minivllm.bench.kernels I N      one of those: compiles every N-th trial's, from I on

Next file to read: `profile.py`.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import torch

from minivllm.bench.attention_trials import (
    QWEN3_06B,
    Decode,
    Prefill,
    attention_trials,
    decode_trial,
)
from minivllm.bench.ceilings import measure_ceilings, require_gpu
from minivllm.bench.flash_ways import installed
from minivllm.bench.floors import Ceilings
from minivllm.bench.recorded import DECODE_SPEEDS, PREFILL_SPEEDS, RECORDED
from minivllm.bench.report import Row, Spread, describe_machine
from minivllm.bench.small_trials import TORCH, small_trials
from minivllm.bench.trial import OURS, Trial, check, graph_seconds, launched_seconds

_MAX_PROCESSES = 12


def run_kernels(num_runs: int = 5) -> dict[str, Any]:
    """Every table, and what the figures belong to.

    Args:
        num_runs: Measurements of each figure.

    Raises:
        ConfigError: There is no GPU.
        WrongResultError: A way does not compute what it is timed for.
    """
    device = require_gpu("bench kernels")
    torch.manual_seed(0)
    compile_in_parallel(min(_MAX_PROCESSES, os.cpu_count() or 1))
    ceilings = measure_ceilings(device)
    gc.freeze()  # each capture of a graph collects garbage: the modules need not be looked through
    tables: dict[str, list[Row]] = {"Decode": [], "Prefill, causal": [], "Small kernels": []}
    for build in attention_trials():
        rows = tables["Decode" if build.func is decode_trial else "Prefill, causal"]
        rows += attention_rows(build, ceilings, num_runs)
    for build in small_trials():
        tables["Small kernels"].append(small_row(build(), ceilings, num_runs))
    about = describe_machine("cuda", "bfloat16") | ceilings.as_settings()
    about |= {"runs": num_runs, "flash-attn": ", ".join(installed()) or "not installed: recorded"}
    return {"settings": about, "tables": tables}


def attention_rows(build: partial[Trial], ceilings: Ceilings, num_runs: int) -> list[Row]:
    """A row for each way of an attention trial, timed or recorded."""
    trial, (case,) = build(), build.args
    check(trial)
    rows = [
        attention_row(
            trial, way, launched_seconds(calls, num_runs), graph_seconds(calls, num_runs), ceilings
        )
        for way, calls in trial.ways.items()
    ]
    # Recorded figures were timed launch by launch.
    return rows + [
        attention_row(trial, f"{name} ({RECORDED})", _same(seconds), None, ceilings)
        for name, seconds in recorded_seconds(case, trial).items()
        if name not in installed()
    ]


def attention_row(
    trial: Trial, way: str, launched: Spread, in_graph: Spread | None, ceilings: Ceilings
) -> Row:
    """One way of a trial, from its seconds; `None` where there are none."""
    is_compute = trial.num_flops > 0
    unit = "TFLOP/s" if is_compute else "GB/s"
    work = trial.num_flops / 1e12 if is_compute else trial.num_bytes / 1e9
    floor = max(trial.num_bytes / ceilings.read, trial.num_flops / ceilings.matmul)
    return {
        **trial.labels,
        "way": way,
        "launched, us": _microseconds(launched),
        "in a graph, us": "" if in_graph is None else _microseconds(in_graph),
        f"{unit} launched": work / launched.median,
        f"{unit} in a graph": "" if in_graph is None else work / in_graph.median,
        "x floor": "" if in_graph is None else in_graph.median / floor,
    }


def recorded_seconds(case: Decode | Prefill, trial: Trial) -> dict[str, float]:
    """What FlashAttention took at this size, by name; empty if it was not measured."""
    if case.heads != QWEN3_06B:
        return {}
    if isinstance(case, Prefill):
        speeds = {name: of.get(case.num_tokens) for name, of in PREFILL_SPEEDS.items()}
        return {name: trial.num_flops / 1e12 / speed for name, speed in speeds.items() if speed}
    if case.block_size != 16:
        return {}
    size = case.num_reqs, case.num_tokens
    speeds = {name: of.get(size) for name, of in DECODE_SPEEDS.items()}
    return {name: trial.num_bytes / 1e9 / speed for name, speed in speeds.items() if speed}


def small_row(trial: Trial, ceilings: Ceilings, num_runs: int) -> Row:
    """Both ways of a small kernel, in a graph."""
    check(trial)
    ours, theirs = (graph_seconds(trial.ways[way], num_runs) for way in (OURS, TORCH))
    floor = trial.num_bytes / ceilings.copy
    return {
        **trial.labels,
        f"{OURS}, us": _microseconds(ours),
        f"{TORCH}, us": _microseconds(theirs),
        f"{TORCH} / {OURS}": theirs.median / ours.median,
        "floor, us": 1e6 * floor,
        "x floor": ours.median / floor,
    }


def _same(seconds: float) -> Spread:
    return Spread(seconds, seconds, seconds)


def _microseconds(seconds: Spread) -> float | Spread:
    """The spread, or the one number that it is."""
    if seconds.min == seconds.max:
        return 1e6 * seconds.median
    return Spread(*(1e6 * value for value in (seconds.median, seconds.min, seconds.max)))


def _builders() -> Iterator[partial[Trial]]:
    yield from attention_trials()
    yield from small_trials()


def compile_share(index: int, num_shares: int) -> None:
    """Compile our kernels of every `num_shares`-th trial, from `index` on, by running them."""
    for build in islice(_builders(), index, None, num_shares):
        for way, calls in build().ways.items():
            if way.startswith(OURS):
                calls[0]()
    torch.cuda.synchronize()


def compile_in_parallel(num_processes: int) -> None:
    """Fill Triton's cache on the disk.

    One that fails says so on stderr, and what it has not compiled is compiled when it is timed.
    """
    command = [sys.executable, "-m", "minivllm.bench.kernels"]
    processes = [
        subprocess.Popen([*command, str(index), str(num_processes)])
        for index in range(num_processes)
    ]
    for process in processes:
        process.wait()


if __name__ == "__main__":
    compile_share(int(sys.argv[1]), int(sys.argv[2]))
