"""W2: milliseconds of a decode step, by how many requests share it.

An engine is only asked to generate, so a step is measured as a difference: the time for all tokens,
less the time for the first ones, over the steps between.
Next file to read: `prefix.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minivllm.bench.adapter import Build, Engine, Generation
from minivllm.bench.ceilings import model_and_ceilings
from minivllm.bench.floors import Ceilings, ModelWork, against_floor
from minivllm.bench.qwen3_shape import model_folder
from minivllm.bench.recorded import LATENCY_MS, RECORDED
from minivllm.bench.report import Report, Row, Spread, describe_machine
from minivllm.bench.throughput import generate_seconds


@dataclass(frozen=True, kw_only=True)
class Batches:
    """Batches of equal requests.

    Attributes:
        sizes: How many requests decode together.
        input_len: Tokens of each prompt.
        output_len: Tokens that each request gets, two at least.
    """

    sizes: tuple[int, ...]
    input_len: int
    output_len: int

    @property
    def limits(self) -> dict[str, int | bool]:
        """Settings of an engine that computes all prompts in one step, and each anew."""
        return {
            "max_model_len": self.input_len + self.output_len,
            "max_num_seqs": max(self.sizes),
            "max_num_batched_tokens": max(self.sizes) * self.input_len,
            "enable_prefix_caching": False,
        }


W2 = Batches(sizes=(1, 8, 32, 128), input_len=128, output_len=512)


def run_latency(
    build: Build, model: str, settings: Mapping[str, Any], batches: Batches, num_runs: int = 5
) -> Report:
    """Measure each batch size `num_runs` times, after a run that warms up.

    Args:
        build: Makes the engine.
        model: A name or a folder.
        settings: Of the engine; its limits are chosen here.
        batches: What is generated; beside `W2` stand the recorded figures of others.
        num_runs: Runs of each batch size.
    """
    settings = {**batches.limits, **settings}
    rows: list[Row] = []
    with model_folder(model) as folder:
        arch, work, ceilings = model_and_ceilings(folder, settings)
        engine = build(folder, settings)
        for size in batches.sizes:
            prompts = _prompts(size, batches.input_len, arch.vocab_size)
            decode_step_seconds(engine, prompts, batches.output_len)
            seconds = [
                decode_step_seconds(engine, prompts, batches.output_len) for _ in range(num_runs)
            ]
            row: dict[str, Any] = {
                "engine": engine.name,
                "batch": size,
                "ms per step": Spread.of(seconds, scale=1e3),
                "tokens/s": Spread.of([size / each for each in seconds]),
            }
            if ceilings is not None:
                row |= against_floor(seconds, step_floor(work, ceilings, size, batches))
            rows.append(row)
        engine.close()
    facts: dict[str, Any] = {} if ceilings is None else ceilings.as_settings()
    if batches == W2 and ceilings is not None:
        rows += _recorded_rows()
    facts |= {"prompt tokens": batches.input_len, "new tokens": batches.output_len}
    about = describe_machine(settings["device"], settings["dtype"]) | {"model": model}
    return Report(
        title="Latency: a decode step",
        settings=settings | about | facts | {"runs": num_runs},
        rows=rows,
    )


def step_floor(work: ModelWork, ceilings: Ceilings, size: int, batches: Batches) -> float:
    """Seconds of a step in the middle of the run."""
    return work.step_seconds(ceilings, contexts=[batches.input_len + batches.output_len / 2] * size)


def decode_step_seconds(engine: Engine, prompts: list[list[int]], num_tokens: int) -> float:
    """Mean seconds of the decode steps that follow the first token of each prompt."""
    size = len(prompts)
    first = generate_seconds(engine, prompts, [Generation(1, 0.0)] * size)
    everything = generate_seconds(engine, prompts, [Generation(num_tokens, 0.0)] * size)
    return (everything - first) / (num_tokens - 1)


def _prompts(num_prompts: int, length: int, vocab_size: int) -> list[list[int]]:
    rng = random.Random(0)
    return [[rng.randrange(vocab_size) for _ in range(length)] for _ in range(num_prompts)]


def _recorded_rows() -> list[Row]:
    return [
        {
            "engine": f"{name} ({RECORDED})",
            "batch": size,
            "ms per step": ms,
            "tokens/s": 1e3 * size / ms,
            "floor, ms": "",
            "x floor": "",
        }
        for name, by_size in LATENCY_MS.items()
        for size, ms in by_size.items()
    ]
