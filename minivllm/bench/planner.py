"""W6: how fast the planner is, on a CPU and without a model.

Measures `schedule` + `update_from_output` in the steady state of decoding, over the number of
running requests and over the size of the pool, and the block operations by themselves. With the
folder of a nano-vllm checkout, its scheduler does the same work in the same run, in turns with
ours: `python -m minivllm.bench.planner --nano-vllm FOLDER`.
"""

from __future__ import annotations

import argparse
import json
import platform
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from minivllm.bench.report import Row, Spread
from minivllm.config import SchedulerConfig
from minivllm.core.block_hash import extend_block_hashes, hash_block, root_hash
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.messages import ModelRunnerOutput
from minivllm.sampling_params import SamplingParams

BLOCK_SIZE = 16
NUM_RUNNING = (16, 64, 128, 256, 512)
POOL_SIZES = (1_000, 10_000, 100_000)
NUM_WARM_UP_STEPS = 16  # the prompts are done, and decoding is under way
NUM_STEPS = 128  # of one measurement: every request fills eight blocks
MAX_LEN = 4096


Step = Callable[[], object]


@dataclass(frozen=True)
class Timing:
    """Microseconds per operation: median of several measurements, and spread."""

    median_us: float
    min_us: float
    max_us: float

    @classmethod
    def of(cls, seconds: list[float], num_operations: int) -> Timing:
        """From the seconds that `num_operations` took, several times."""
        us = [1e6 * s / num_operations for s in seconds]
        return cls(*(round(x, 3) for x in (statistics.median(us), min(us), max(us))))


def random_prompts(num_prompts: int) -> list[list[int]]:
    """Prompts with nothing in common, always the same."""
    rng = random.Random(0)
    return [rng.choices(range(10_000), k=rng.randint(100, 300)) for _ in range(num_prompts)]


def minivllm_step(num_running: int, num_blocks: int) -> Step:
    """A function that plans and enters one decode step of `num_running` requests."""
    pool = BlockPool(num_blocks)
    config = SchedulerConfig(
        max_model_len=MAX_LEN, max_num_batched_tokens=1 << 20, max_num_seqs=num_running
    )
    scheduler = Scheduler(config, KVCacheManager(pool, BLOCK_SIZE))
    params = SamplingParams(max_tokens=MAX_LEN, ignore_eos=True)
    for index, prompt in enumerate(random_prompts(num_running)):
        scheduler.add_request(
            Request(
                request_id=f"request-{index}",
                token_ids=prompt,
                sampling_params=params,
                max_model_len=MAX_LEN,
                arrival=index,
            )
        )

    def step() -> None:
        plan = scheduler.schedule()
        request_ids = list(plan.num_scheduled_tokens)
        result = ModelRunnerOutput(
            request_ids=request_ids, sampled_token_ids=[7] * len(request_ids)
        )
        assert len(scheduler.update_from_output(plan, result)) == num_running

    return step


def import_nano_vllm(folder: Path) -> tuple[ModuleType, ModuleType]:
    """nano-vllm's scheduler and sequence modules, without the packages that need a GPU."""
    package = ModuleType("nanovllm")
    package.__path__ = [str(folder / "nanovllm")]
    config = ModuleType("nanovllm.config")
    config.Config = SimpleNamespace  # type: ignore[attr-defined]
    sys.modules.update({"nanovllm": package, "nanovllm.config": config})
    return import_module("nanovllm.engine.scheduler"), import_module("nanovllm.engine.sequence")


def nano_vllm_step(folder: Path, num_running: int, num_blocks: int) -> Step:
    """The same step by the scheduler of the checkout in `folder`."""
    scheduler_module, sequence_module = import_nano_vllm(folder)
    config = SimpleNamespace(
        max_num_seqs=num_running,
        max_num_batched_tokens=1 << 20,
        eos=-1,
        num_kvcache_blocks=num_blocks,
        kvcache_block_size=BLOCK_SIZE,
    )
    sequence_module.Sequence.block_size = BLOCK_SIZE
    scheduler = scheduler_module.Scheduler(config)
    params = SimpleNamespace(temperature=1.0, max_tokens=MAX_LEN, ignore_eos=True)
    for prompt in random_prompts(num_running):
        scheduler.add(sequence_module.Sequence(prompt, params))

    def step() -> None:
        sequences, *is_prefill = scheduler.schedule()
        scheduler.postprocess(sequences, [7] * len(sequences), *is_prefill)
        assert len(sequences) == num_running

    return step


def measure_steps(
    contestants: Mapping[str, Callable[[], Step]], num_repeats: int
) -> dict[str, Timing]:
    """Microseconds per step of each contestant, measured in turns, each time from a fresh start."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(num_repeats):
        for name, make_step in contestants.items():
            step = make_step()
            for _ in range(NUM_WARM_UP_STEPS):
                step()
            seconds[name].append(_seconds(step, NUM_STEPS))
    return {name: Timing.of(values, NUM_STEPS) for name, values in seconds.items()}


def _seconds(operation: Step, num_times: int) -> float:
    """CPU seconds: on a busy machine they say more than the wall clock, else they are the same."""
    start = time.process_time()
    for _ in range(num_times):
        operation()
    return time.process_time() - start


def block_operations() -> dict[str, Step]:
    """The operations on single blocks that steps are made of."""
    pool = BlockPool(10_000)
    tokens = list(range(BLOCK_SIZE))
    parent = root_hash(BLOCK_SIZE)
    cached = pool.allocate(1)
    pool.cache(cached[0], parent)
    prompt = list(range(64 * BLOCK_SIZE))

    def hit_and_free() -> None:
        hit = pool.get_cached(parent)
        assert hit is not None, "it was cached above, and is always in use"
        pool.touch([hit])
        pool.free([hit])

    return {
        "allocate and free 1 block": lambda: pool.free(pool.allocate(1)),
        "hit and free 1 block": hit_and_free,
        "hash 1 block": lambda: hash_block(parent, tokens),
        "hash 64 blocks": lambda: extend_block_hashes([], prompt, BLOCK_SIZE, 64),
    }


def measure_operations(num_repeats: int, num_times: int = 2_000) -> dict[str, Timing]:
    """Microseconds per block operation."""
    return {
        name: Timing.of([_seconds(operation, num_times) for _ in range(num_repeats)], num_times)
        for name, operation in block_operations().items()
    }


def run_planner_benchmark(
    nano_vllm: Path | None = None, num_repeats: int = 7, num_running: Sequence[int] = NUM_RUNNING
) -> dict[str, Any]:
    """Everything this file measures, ready for JSON; times are microseconds per operation.

    Args:
        nano_vllm: A nano-vllm checkout to measure in the same run; `None` measures ours alone.
        num_repeats: Measurements per figure, five or more.
        num_running: Numbers of running requests to measure.
    """
    contestants = {"minivllm": lambda: minivllm_step(256, 10_000)}
    if nano_vllm is not None:
        contestants["nano-vllm"] = lambda: nano_vllm_step(nano_vllm, 256, 10_000)
    against = measure_steps(contestants, num_repeats)
    by_running = measure_steps(
        {str(n): partial(minivllm_step, n, 20_000) for n in num_running}, num_repeats
    )
    by_pool = measure_steps(
        {str(n): partial(minivllm_step, 32, n) for n in POOL_SIZES}, num_repeats
    )
    results = {
        "step of 256 running requests": against,
        "step by running requests": by_running,
        "step of 32 running requests by blocks in the pool": by_pool,
        "block operations": measure_operations(num_repeats),
    }
    report: dict[str, Any] = {
        "machine": f"{platform.machine()}, {platform.system()}, Python {platform.python_version()}",
        "block_size": BLOCK_SIZE,
        "prefix_caching": True,
        "num_repeats": num_repeats,
    }
    for title, timings in results.items():
        report[title] = {name: asdict(timing) for name, timing in timings.items()}
    if nano_vllm is not None:
        ratio = against["minivllm"].median_us / against["nano-vllm"].median_us
        report["ratio to nano-vllm"] = round(ratio, 2)
    return report


def planner_tables(report: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The figures of the report as tables: title -> rows."""
    return {
        title: [
            {"": name, "microseconds": Spread(*timing.values())} for name, timing in value.items()
        ]
        for title, value in report.items()
        if isinstance(value, dict)
    }


def print_report(report: Mapping[str, Any]) -> None:
    """The report as lines of text."""
    for title, value in report.items():
        if not isinstance(value, dict):
            print(f"{title}: {value}")
            continue
        print(f"{title}: median (min - max) in microseconds")
        for name, timing in value.items():
            low, high = timing["min_us"], timing["max_us"]
            print(f"    {name:26} {timing['median_us']:9.2f}  ({low:.2f} - {high:.2f})")


def main() -> None:
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description="How fast the planner is.")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    parser.add_argument("--nano-vllm", type=Path, help="a nano-vllm checkout to measure as well")
    args = parser.parse_args()
    report = run_planner_benchmark(args.nano_vllm)
    print_report(report)
    if args.json is not None:
        args.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
