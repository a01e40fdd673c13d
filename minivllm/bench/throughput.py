"""W1: tokens per second of a batch of random prompts, generated offline.

With 256 prompts and lengths from 100 to 1024 it is nano-vllm's public benchmark: the random numbers
are drawn in its order.
Next file to read: `latency.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.bench.adapter import Build, Engine, Generation
from minivllm.bench.ceilings import model_and_ceilings
from minivllm.bench.floors import against_floor, workload_seconds
from minivllm.bench.qwen3_shape import model_folder
from minivllm.bench.recorded import RECORDED, THROUGHPUT_SECONDS
from minivllm.bench.report import Report, Row, Spread, describe_machine

MAX_TOKEN_ID = 10_000
TEMPERATURE = 0.6


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Random prompts, and how many tokens to generate for each.

    Attributes:
        num_prompts: Requests, all added at once.
        lengths: The least and the most tokens of a prompt, and of an output.
    """

    num_prompts: int
    lengths: tuple[int, int]

    def draw(self, max_token_id: int = MAX_TOKEN_ID) -> tuple[list[list[int]], list[int]]:
        """The prompts and the output lengths, the same each time."""
        rng = random.Random(0)
        prompts = [
            [rng.randint(0, max_token_id) for _ in range(rng.randint(*self.lengths))]
            for _ in range(self.num_prompts)
        ]
        return prompts, [rng.randint(*self.lengths) for _ in range(self.num_prompts)]


W1 = Workload(num_prompts=256, lengths=(100, 1024))


def run_throughput(
    build: Build, model: str, settings: Mapping[str, Any], workload: Workload, num_runs: int = 5
) -> Report:
    """Measure `num_runs` times, after a run that warms up.

    Args:
        build: Makes the engine.
        model: A name or a folder.
        settings: Of the engine.
        workload: What is generated; beside `W1` stand the recorded figures of others.
        num_runs: Runs of the whole workload.
    """
    with model_folder(model) as folder:
        arch, work, ceilings = model_and_ceilings(folder, settings)
        vocab_size = min(MAX_TOKEN_ID + 1, arch.vocab_size)
        prompts, output_lens = workload.draw(vocab_size - 1)
        generations = [Generation(num_tokens, TEMPERATURE) for num_tokens in output_lens]
        engine = build(folder, settings)
        # No run has the prompts of another, or its prefix cache would know them. Run 0 has those
        # of the workload; the last one comes first, and warms up.
        runs = [num_runs, *range(num_runs)]
        seconds = [
            generate_seconds(engine, shifted(prompts, run, vocab_size), generations) for run in runs
        ][1:]
        engine.close()
    input_lens, num_in, num_out = list(map(len, prompts)), sum(map(len, prompts)), sum(output_lens)
    row: dict[str, Any] = {
        "engine": engine.name,
        "seconds": Spread.of(seconds),
        "new tokens/s": Spread.of([num_out / each for each in seconds]),
        "all tokens/s": Spread.of([(num_in + num_out) / each for each in seconds]),
    }
    rows: list[Row] = [row]
    facts: dict[str, Any] = {
        "prompts": len(prompts),
        "prompt tokens": num_in,
        "new tokens": num_out,
    }
    if ceilings is not None:
        floor = workload_seconds(work, ceilings, input_lens, output_lens)
        row |= against_floor(seconds, floor)
        facts |= ceilings.as_settings()
        if workload == W1:
            rows += _recorded_rows(num_in, num_out)
    about = describe_machine(settings["device"], settings["dtype"]) | {"model": model}
    return Report(
        title="Throughput: all prompts at once",
        settings=dict(settings) | about | facts | {"runs": num_runs},
        rows=rows,
    )


def shifted(prompts: Sequence[Sequence[int]], by: int, vocab_size: int) -> list[list[int]]:
    """Prompts of the same lengths and other tokens; the same tokens where `by` is 0."""
    return [[(token_id + by) % vocab_size for token_id in prompt] for prompt in prompts]


def generate_seconds(
    engine: Engine, prompts: Sequence[Sequence[int]], generations: Sequence[Generation]
) -> float:
    """How long the engine takes.

    Raises:
        AssertionError: It did not generate what was asked for.
    """
    start = time.perf_counter()
    outputs = engine.generate(prompts, generations)
    seconds = time.perf_counter() - start
    expected = [generation.num_tokens for generation in generations]
    assert list(map(len, outputs)) == expected, "each prompt gets the tokens that were asked for"
    return seconds


def _recorded_rows(num_in: int, num_out: int) -> list[Row]:
    return [
        {
            "engine": f"{name} ({RECORDED})",
            "seconds": seconds,
            "new tokens/s": num_out / seconds,
            "all tokens/s": (num_in + num_out) / seconds,
            "floor, ms": "",
            "x floor": "",
        }
        for name, seconds in THROUGHPUT_SECONDS.items()
    ]
