"""What a decode step's time is spent on: attention, matrix products, sampling, small kernels, host.

The wall time is measured without the profiler, which slows the host down; what the GPU does comes
from PyTorch's profiler, over some steps. What the GPU leaves idle is the host's gap.
Next file to read: `planner.py`.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from minivllm.bench.ceilings import require_gpu
from minivllm.bench.qwen3_shape import model_folder
from minivllm.bench.report import Report, Row, Spread, describe_machine
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

NUM_STEPS = 20  # of one measurement
_NUM_WARM_UP_STEPS = 8
_BUDGET = 16_384  # tokens of a step while the prompts are computed

# The first group with a part of the kernel's name, in small letters, takes it.
_GROUPS: dict[str, tuple[str, ...]] = {
    "attention": ("paged_decode", "merge_parts", "paged_prefill", "flash", "fmha"),
    "matrix products": ("gemm", "gemv", "nvjet", "cutlass", "splitk", "one_row", "few_rows"),
    "sampling": ("best_of_parts", "best_of_rows", "sort", "cumsum", "scan", "argmax"),
    "small kernels": (
        "rms_norm", "qk_norm", "silu", "cache_write",
        "elementwise", "index", "embedding", "reduce", "gather", "scatter", "cat",
    ),
}  # fmt: skip
OTHER = "other"


@dataclass(frozen=True)
class GpuEvent:
    """A kernel or a copy on the GPU, in microseconds."""

    name: str
    start: float
    duration: float


def run_profile(
    engine: Mapping[str, Any], batch_sizes: Sequence[int], num_tokens: int, num_runs: int = 5
) -> Report:
    """A row for each batch size.

    Args:
        engine: Keywords of `LLM`.
        batch_sizes: How many requests decode together.
        num_tokens: Cached tokens of each, at the beginning.
        num_runs: Measurements of the wall time.

    Raises:
        ConfigError: There is no GPU.
    """
    require_gpu("bench profile")
    model = engine["model"]
    settings = {name: value for name, value in engine.items() if name != "model"}
    num_steps = NUM_STEPS * (num_runs + 1) + _NUM_WARM_UP_STEPS
    # While the last prompts are computed, the first requests decode already.
    max_model_len = num_tokens + num_steps + max(batch_sizes) * num_tokens // _BUDGET + 16
    limits = {
        "max_model_len": max_model_len,
        "max_num_seqs": max(batch_sizes),
        "max_num_batched_tokens": max(_BUDGET, 2 * max(batch_sizes)),
        "num_blocks": max(batch_sizes) * -(-max_model_len // 16),
        "enable_prefix_caching": False,
    }
    rows: list[Row] = []
    with model_folder(model) as folder, LLM(folder, **(limits | settings)) as llm:
        for batch_size in batch_sizes:
            request_ids = start_decoding(llm, batch_size, num_tokens)
            seconds = [wall_seconds(llm) for _ in range(num_runs)]
            rows.append(profile_row(batch_size, seconds, gpu_events(llm)))
            llm.engine.abort(request_ids)
    about = describe_machine(settings["device"], settings["dtype"]) | {"model": model}
    facts = {"tokens per request": num_tokens, "steps": NUM_STEPS, "runs": num_runs}
    return Report(
        title="Profile of a decode step, milliseconds", settings=settings | about | facts, rows=rows
    )


def start_decoding(llm: LLM, batch_size: int, num_tokens: int) -> list[str]:
    """Add requests, and step until each of them decodes; gives their ids."""
    rng = random.Random(0)
    max_token_id = len(llm.get_tokenizer()) - 1
    params = SamplingParams(temperature=0.6, ignore_eos=True, max_tokens=None, detokenize=False)
    request_ids = [f"{number} of {batch_size}" for number in range(batch_size)]
    for request_id in request_ids:
        prompt = [rng.randint(0, max_token_id) for _ in range(num_tokens)]
        llm.engine.add_request(request_id, prompt, params)
    have_tokens: set[str] = set()
    while len(have_tokens) < batch_size:
        have_tokens |= {output.request_id for output in llm.engine.step()}
    for _ in range(_NUM_WARM_UP_STEPS):
        llm.engine.step()
    return request_ids


def wall_seconds(llm: LLM) -> float:
    """Mean time of a step, the GPU's work included."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(NUM_STEPS):
        llm.engine.step()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / NUM_STEPS


def gpu_events(llm: LLM) -> list[GpuEvent]:
    """What the GPU does in `NUM_STEPS` steps."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=activities) as profiler:
        for _ in range(NUM_STEPS):
            llm.engine.step()
        torch.cuda.synchronize()
    with TemporaryDirectory() as temporary:
        path = Path(temporary) / "trace.json"
        profiler.export_chrome_trace(str(path))
        return read_gpu_events(json.loads(path.read_text()))


def read_gpu_events(trace: Mapping[str, Any]) -> list[GpuEvent]:
    """The kernels and copies in a trace of PyTorch's profiler."""
    return [
        GpuEvent(event["name"], float(event["ts"]), float(event["dur"]))
        for event in trace["traceEvents"]
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
    ]


def group_of(kernel_name: str) -> str:
    """Which part of a step a kernel belongs to."""
    name = kernel_name.lower()
    for group, parts in _GROUPS.items():
        if any(part in name for part in parts):
            return group
    return OTHER


def busy_microseconds(events: Sequence[GpuEvent]) -> float:
    """How long at least one of them runs."""
    busy, end = 0.0, float("-inf")
    for event in sorted(events, key=lambda event: event.start):
        event_end = event.start + event.duration
        busy += max(0.0, event_end - max(event.start, end))
        end = max(end, event_end)
    return busy


def profile_row(batch_size: int, seconds: Sequence[float], events: Sequence[GpuEvent]) -> Row:
    """Milliseconds per step of each group, from the events of `NUM_STEPS` steps."""
    wall = Spread.of(seconds, scale=1e3)
    busy = busy_microseconds(events) / 1e3 / NUM_STEPS
    by_group = dict.fromkeys([*_GROUPS, OTHER], 0.0)
    for event in events:
        by_group[group_of(event.name)] += event.duration / 1e3 / NUM_STEPS
    return {
        "batch": batch_size,
        "wall": wall,
        "GPU busy": busy,
        **by_group,
        "host gap": max(0.0, wall.median - busy),
    }
