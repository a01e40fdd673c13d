"""W1: tokens per second of a batch of random prompts, generated offline.

With 256 prompts and lengths from 100 to 1024 it is nano-vllm's public benchmark: the random numbers
are drawn in its order.
Next file to read: `latency.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from minivllm.bench.report import Report, Row, Spread, describe_engine
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

MAX_TOKEN_ID = 10_000


def draw_workload(
    num_prompts: int, lengths: tuple[int, int], max_token_id: int
) -> tuple[list[list[int]], list[int]]:
    """Prompts, and how many tokens to generate for each; both have `lengths`, first and last."""
    rng = random.Random(0)
    prompts = [
        [rng.randint(0, max_token_id) for _ in range(rng.randint(*lengths))]
        for _ in range(num_prompts)
    ]
    return prompts, [rng.randint(*lengths) for _ in range(num_prompts)]


def run_throughput(
    engine: Mapping[str, Any], num_prompts: int, lengths: tuple[int, int], num_runs: int = 5
) -> Report:
    """Measure `num_runs` times, after a run that warms up.

    Args:
        engine: Keywords of `LLM`.
        num_prompts: How many requests, all added at once.
        lengths: The least and the most tokens of a prompt, and of an output.
        num_runs: Runs of the whole workload.
    """
    with LLM(**engine) as llm:
        max_token_id = min(MAX_TOKEN_ID, len(llm.get_tokenizer()) - 1)
        prompts, output_lens = draw_workload(num_prompts, lengths, max_token_id)
        params = [
            SamplingParams(temperature=0.6, ignore_eos=True, max_tokens=n) for n in output_lens
        ]
        _seconds(llm, prompts, params)  # warms up: on a GPU each new shape costs its first launch
        seconds = [_seconds(llm, prompts, params) for _ in range(num_runs)]
        settings = describe_engine(llm)
    num_in, num_out = sum(map(len, prompts)), sum(output_lens)
    row: Row = {
        "seconds": Spread.of(seconds),
        "new tokens/s": Spread.of([num_out / each for each in seconds]),
        "all tokens/s": Spread.of([(num_in + num_out) / each for each in seconds]),
    }
    settings |= {"prompts": num_prompts, "prompt tokens": num_in, "new tokens": num_out}
    return Report(
        title="Throughput: all prompts at once", settings=settings | {"runs": num_runs}, rows=[row]
    )


def _seconds(llm: LLM, prompts: Sequence[Sequence[int]], params: Sequence[SamplingParams]) -> float:
    llm.reset_prefix_cache()  # or the next run would find its prompts there
    start = time.perf_counter()
    llm.generate(prompts, params, use_tqdm=False)
    return time.perf_counter() - start
