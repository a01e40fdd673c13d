"""W2: milliseconds of a decode step, by how many requests share it.

Next file to read: `prefix.py`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from minivllm.bench.report import Report, Row, Spread, describe_engine
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams


def run_latency(
    engine: Mapping[str, Any],
    batch_sizes: Sequence[int],
    input_len: int,
    output_len: int,
    num_runs: int = 5,
) -> Report:
    """Measure each batch size `num_runs` times, after a run that warms up.

    Args:
        engine: Keywords of `LLM`.
        batch_sizes: How many requests decode together.
        input_len: Tokens of each prompt.
        output_len: Decode steps of one run; its figure is their mean.
        num_runs: Runs of each batch size.
    """
    limits: dict[str, Any] = {
        "max_model_len": input_len + output_len + 2,
        "max_num_seqs": max(batch_sizes),
        "max_num_batched_tokens": max(batch_sizes) * input_len,  # all prompts fit in one step
        "enable_prefix_caching": False,
    }
    rows: list[Row] = []
    with LLM(**engine, **limits) as llm:
        for batch_size in batch_sizes:
            decode_step_seconds(llm, batch_size, input_len, output_len)
            seconds = [
                decode_step_seconds(llm, batch_size, input_len, output_len) for _ in range(num_runs)
            ]
            rows.append(
                {
                    "batch": batch_size,
                    "ms per step": Spread.of(seconds, scale=1e3),
                    "tokens/s": Spread.of([batch_size / each for each in seconds]),
                }
            )
        settings = describe_engine(llm)
    settings |= {"prompt tokens": input_len, "steps": output_len, "runs": num_runs}
    return Report(title="Latency: a decode step", settings=settings, rows=rows)


def decode_step_seconds(llm: LLM, batch_size: int, input_len: int, num_steps: int) -> float:
    """Mean seconds of `num_steps` decode steps, once all prompts are computed."""
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=None)
    max_token_id = len(llm.get_tokenizer()) - 1
    request_ids = [str(number) for number in range(batch_size)]
    for number, request_id in enumerate(request_ids):
        prompt = [(number * 37 + place) % max_token_id for place in range(input_len)]
        llm.engine.add_request(request_id, prompt, params, stream=False)
    llm.engine.step()  # the prompts
    start = time.perf_counter()
    for _ in range(num_steps):
        llm.engine.step()
    seconds = time.perf_counter() - start
    llm.engine.abort(request_ids)
    return seconds / num_steps
