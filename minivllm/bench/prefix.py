"""W4: what the prefix cache saves when prompts begin alike.

Next file to read: `mixed.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from minivllm.bench.report import Report, Row, Spread, describe_engine
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

NUM_OWN_TOKENS = 16  # that each prompt has after the shared ones


def run_prefix(
    engine: Mapping[str, Any], num_prompts: int, num_shared_tokens: int, num_repeats: int = 5
) -> Report:
    """Time to first token and hit rate, with the cache and without it.

    Each prompt is sent by itself, so that none waits for another, and to both engines in turn, so
    that a change in the machine's speed meets both.

    Args:
        engine: Keywords of `LLM`.
        num_prompts: Different prompts.
        num_shared_tokens: Tokens that all of them begin with.
        num_repeats: How often each prompt is sent.
    """
    limits: dict[str, Any] = {"max_model_len": num_shared_tokens + NUM_OWN_TOKENS + 1}
    seconds: dict[str, list[float]] = {"off": [], "on": []}
    with (
        LLM(**engine, **limits, enable_prefix_caching=False) as without_cache,
        LLM(**engine, **limits) as with_cache,
    ):
        llms = {"off": without_cache, "on": with_cache}
        prompts = _prompts(num_prompts, num_shared_tokens, len(with_cache.get_tokenizer()) - 1)
        for llm in llms.values():
            first_token_seconds(llm, prompts[0])  # warms up; it also is the one that misses
        for prompt in prompts * num_repeats:
            for name, llm in llms.items():
                seconds[name].append(first_token_seconds(llm, prompt))
        settings = describe_engine(with_cache)
        hit_rates = {name: llm.stats().prefix_hit_rate for name, llm in llms.items()}
    off = Spread.of(seconds["off"])
    rows: list[Row] = [
        {
            "prefix cache": name,
            "requests": len(values),
            "hit rate": f"{hit_rates[name]:.1%}",
            "ms to first token": Spread.of(values, scale=1e3),
            "of off": f"{Spread.of(values).median / off.median:.2f} x",
        }
        for name, values in seconds.items()
    ]
    settings |= {"prompts": num_prompts, "shared tokens": num_shared_tokens}
    settings |= {"own tokens": NUM_OWN_TOKENS, "repeats": num_repeats}
    return Report(title="Prefix cache: prompts that begin alike", settings=settings, rows=rows)


def _prompts(num_prompts: int, num_shared_tokens: int, max_token_id: int) -> list[list[int]]:
    rng = random.Random(0)
    shared = [rng.randint(0, max_token_id) for _ in range(num_shared_tokens)]
    return [
        shared + [rng.randint(0, max_token_id) for _ in range(NUM_OWN_TOKENS)]
        for _ in range(num_prompts)
    ]


def first_token_seconds(llm: LLM, prompt: list[int]) -> float:
    """Seconds from the arrival of `prompt` to its first token."""
    (output,) = llm.generate([prompt], SamplingParams(max_tokens=1), use_tqdm=False)
    seconds = output.metrics.time_to_first_token
    assert seconds is not None, "a request that ended by its length has had a token"
    return seconds
