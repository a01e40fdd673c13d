"""W4: what the prefix cache saves when prompts begin alike.

Next file to read: `mixed.py`.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minivllm.bench.ceilings import model_and_ceilings
from minivllm.bench.floors import Ceilings, Chunk, ModelWork, against_floor
from minivllm.bench.qwen3_shape import model_folder
from minivllm.bench.report import Report, Row, Spread, describe_machine
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

NUM_OWN_TOKENS = 16  # that each prompt has after the shared ones


@dataclass(frozen=True, kw_only=True)
class FirstToken:
    """When a request got its first token, and how much of its prompt was found in the cache."""

    seconds: float
    num_cached: int


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
    model = engine["model"]
    settings = {name: value for name, value in engine.items() if name != "model"}
    with model_folder(model) as folder:
        arch, work, ceilings = model_and_ceilings(folder, settings)
        settings = _limits(num_prompts, num_shared_tokens) | settings
        prompts = _prompts(num_prompts, num_shared_tokens, arch.vocab_size - 1)
        found = _measure(folder, settings, prompts, num_repeats)
    off = Spread.of([first.seconds for first in found["off"]])
    rows: list[Row] = []
    for name, firsts in found.items():
        seconds = [first.seconds for first in firsts]
        hits = sum(first.num_cached for first in firsts) / (len(firsts) * len(prompts[0]))
        row: dict[str, Any] = {
            "prefix cache": name,
            "requests": len(firsts),
            "hit rate": f"{hits:.1%}",
            "ms to first token": Spread.of(seconds, scale=1e3),
            "of off": f"{Spread.of(seconds).median / off.median:.2f} x",
        }
        if ceilings is not None:
            num_cached = num_shared_tokens if name == "on" else 0
            floor = first_token_floor(work, ceilings, num_shared_tokens, num_cached)
            row |= against_floor(seconds, floor)
        rows.append(row)
    facts: dict[str, Any] = {} if ceilings is None else ceilings.as_settings()
    facts |= {"prompts": num_prompts, "shared tokens": num_shared_tokens}
    facts |= {"own tokens": NUM_OWN_TOKENS, "repeats": num_repeats}
    about = describe_machine(settings["device"], settings["dtype"]) | {"model": model}
    return Report(
        title="Prefix cache: prompts that begin alike", settings=settings | about | facts, rows=rows
    )


def first_token_floor(
    work: ModelWork, ceilings: Ceilings, num_shared_tokens: int, num_cached: int
) -> float:
    """Seconds of the one step that computes what is not cached."""
    num_tokens = num_shared_tokens + NUM_OWN_TOKENS
    return work.step_seconds(ceilings, [Chunk(num_tokens - num_cached, num_cached)])


def _limits(num_prompts: int, num_shared_tokens: int) -> dict[str, int]:
    """Settings with room for two such engines, for all prompts in the cache, in one step each."""
    num_tokens = num_shared_tokens + NUM_OWN_TOKENS + 1
    num_own = num_prompts * (NUM_OWN_TOKENS + 1)
    return {
        "max_model_len": num_tokens,
        "max_num_batched_tokens": num_tokens,
        "max_num_seqs": 1,
        "num_blocks": -(-2 * (num_tokens + num_own) // 16) + 2 * num_prompts,
    }


def _measure(
    folder: str, settings: Mapping[str, Any], prompts: Sequence[list[int]], num_repeats: int
) -> dict[str, list[FirstToken]]:
    """The first tokens of an engine without prefix cache ("off"), and of one with it ("on")."""
    found: dict[str, list[FirstToken]] = {"off": [], "on": []}
    with (
        LLM(folder, **{**settings, "enable_prefix_caching": False}) as without_cache,
        LLM(folder, **{**settings, "enable_prefix_caching": True}) as with_cache,
    ):
        llms = {"off": without_cache, "on": with_cache}
        for llm in llms.values():
            first_token(llm, prompts[0])  # warms up; it also is the one that misses
            first_token(llm, prompts[0])  # the first hit, whose step has another shape
        for prompt in [*prompts] * num_repeats:
            for name, llm in llms.items():
                found[name].append(first_token(llm, prompt))
    return found


def _prompts(num_prompts: int, num_shared_tokens: int, max_token_id: int) -> list[list[int]]:
    rng = random.Random(0)
    shared = [rng.randint(0, max_token_id) for _ in range(num_shared_tokens)]
    return [
        shared + [rng.randint(0, max_token_id) for _ in range(NUM_OWN_TOKENS)]
        for _ in range(num_prompts)
    ]


def first_token(llm: LLM, prompt: list[int]) -> FirstToken:
    """Send `prompt`, and wait for its first token."""
    params = SamplingParams(max_tokens=1, ignore_eos=True, detokenize=False)
    (output,) = llm.generate([prompt], params, use_tqdm=False)
    seconds = output.metrics.time_to_first_token
    assert seconds is not None, "a request that ended by its length has had a token"
    return FirstToken(seconds=seconds, num_cached=output.metrics.num_cached_tokens)
