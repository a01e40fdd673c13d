"""W5: how long running requests wait for a token while a long prompt is computed.

Chunked prefill is there for this: a step holds no more tokens than its budget, so the prompt comes
in pieces, with a token for each running request between them.
Next file to read: `trial.py`.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from minivllm.bench.ceilings import model_and_ceilings
from minivllm.bench.floors import Ceilings, Chunk, ModelWork, against_floor
from minivllm.bench.qwen3_shape import model_folder
from minivllm.bench.report import Report, Row, Spread, describe_machine
from minivllm.errors import ConfigError
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

SHORT_LEN = 16  # tokens of the prompts that then decode
NUM_QUIET_STEPS = 8  # decode steps before the long prompt comes


@dataclass(frozen=True, kw_only=True)
class Gaps:
    """One arrival of a long prompt, in seconds.

    Attributes:
        usual: Median time between two tokens of a decode, before it came.
        longest: Longest such time, from then to its first token.
        first_token: From its arrival to its first token.
    """

    usual: float
    longest: float
    first_token: float


class TokenClock:
    """Steps an engine, and knows when each request got its latest token."""

    def __init__(self, llm: LLM) -> None:
        self._engine = llm.engine
        self.last_times: dict[str, float] = {}

    def step(self) -> list[float]:
        """Run a step; gives the seconds since the last token of each request that got one."""
        outputs = self._engine.step()
        now = time.perf_counter()
        ids = [output.request_id for output in outputs]
        gaps = [now - self.last_times[i] for i in ids if i in self.last_times]
        self.last_times.update(dict.fromkeys(ids, now))
        return gaps


def run_mixed(
    engine: Mapping[str, Any],
    num_decodes: int,
    prompt_len: int,
    budgets: Sequence[int],
    num_runs: int = 5,
) -> Report:
    """The longest gap without chunking, and with it for each budget.

    Args:
        engine: Keywords of `LLM`.
        num_decodes: Requests that are decoding when the long prompt comes.
        prompt_len: Tokens of the long prompt.
        budgets: Most tokens in a step, where prompts are chunked.
        num_runs: Arrivals per row.

    Raises:
        ConfigError: A budget leaves the long prompt no place beside the decodes.
    """
    if min(budgets) <= num_decodes:
        raise ConfigError(
            f"a budget of {min(budgets)} tokens is spent on the {num_decodes} decodes: give more"
        )
    model = engine["model"]
    settings = {name: value for name, value in engine.items() if name != "model"}
    with model_folder(model) as folder:
        _, work, ceilings = model_and_ceilings(folder, settings)
        found: dict[int | None, list[Gaps]] = {}
        for budget in (None, *budgets):
            limits = _limits(num_decodes, prompt_len, budget)
            with LLM(folder, **(limits | settings)) as llm:
                measure_gaps(llm, num_decodes, prompt_len)  # warms up
                found[budget] = [
                    measure_gaps(llm, num_decodes, prompt_len) for _ in range(num_runs)
                ]
    rows: list[Row] = []
    for budget, gaps in found.items():
        row = _row(budget, gaps, not_chunked=found[None])
        if ceilings is not None:
            floor = gap_floor(work, ceilings, num_decodes, prompt_len, budget)
            row |= against_floor([gap.longest for gap in gaps], floor)
        rows.append(row)
    facts: dict[str, Any] = {} if ceilings is None else ceilings.as_settings()
    facts |= {"decodes": num_decodes, "prompt tokens": prompt_len, "runs": num_runs}
    about = describe_machine(settings["device"], settings["dtype"]) | {"model": model}
    return Report(
        title="Mixed: a long prompt among decodes", settings=settings | about | facts, rows=rows
    )


def _row(budget: int | None, gaps: Sequence[Gaps], not_chunked: Sequence[Gaps]) -> dict[str, Any]:
    longest, of = (median(gap.longest for gap in each) for each in (gaps, not_chunked))
    return {
        "budget": "not chunked" if budget is None else budget,
        "longest gap, ms": Spread.of([gap.longest for gap in gaps], scale=1e3),
        "ratio": f"{longest / of:.2f} x",
        "usual gap, ms": Spread.of([gap.usual for gap in gaps], scale=1e3),
        "first token, ms": Spread.of([gap.first_token for gap in gaps], scale=1e3),
    }


def _limits(num_decodes: int, prompt_len: int, budget: int | None) -> dict[str, Any]:
    """Settings that hold every request to its end, and a step's worth of tokens."""
    prompt_room = prompt_len if budget is None else budget - num_decodes
    num_steps = sum(-(-n // prompt_room) for n in (num_decodes * SHORT_LEN, prompt_len))
    decode_len = SHORT_LEN + NUM_QUIET_STEPS + num_steps + 8  # a token for each in every step
    max_model_len = max(prompt_len + 8, decode_len)
    largest_step = max(prompt_len + num_decodes, max_model_len)
    return {
        "enable_prefix_caching": False,
        "enable_chunked_prefill": budget is not None,
        "max_num_batched_tokens": largest_step if budget is None else budget,
        "max_model_len": max_model_len,
        "max_num_seqs": num_decodes + 1,
        "num_blocks": num_decodes * -(-decode_len // 16) + -(-max_model_len // 16),
    }


def gap_floor(
    work: ModelWork, ceilings: Ceilings, num_decodes: int, prompt_len: int, budget: int | None
) -> float:
    """Seconds of the costliest step while the long prompt is computed."""
    size = prompt_len if budget is None else budget - num_decodes
    contexts = [SHORT_LEN + NUM_QUIET_STEPS] * num_decodes
    return max(
        work.step_seconds(ceilings, [Chunk(min(size, prompt_len - start), start)], contexts)
        for start in range(0, prompt_len, size)
    )


def measure_gaps(llm: LLM, num_decodes: int, prompt_len: int) -> Gaps:
    """Let a long prompt arrive among `num_decodes` running requests."""
    rng = random.Random(0)
    max_token_id = len(llm.get_tokenizer()) - 1
    params = SamplingParams(temperature=0, ignore_eos=True, max_tokens=None, detokenize=False)
    request_ids = [f"decode-{number}" for number in range(num_decodes)]
    for request_id in request_ids:
        prompt = [rng.randint(0, max_token_id) for _ in range(SHORT_LEN)]
        llm.engine.add_request(request_id, prompt, params)
    clock = TokenClock(llm)
    while len(clock.last_times) < num_decodes:
        clock.step()
    usual = [gap for _ in range(NUM_QUIET_STEPS) for gap in clock.step()]
    arrival = time.perf_counter()
    long_prompt = [rng.randint(0, max_token_id) for _ in range(prompt_len)]
    llm.engine.add_request("long", long_prompt, params)
    gaps: list[float] = []
    while "long" not in clock.last_times:
        gaps += clock.step()
    llm.engine.abort([*request_ids, "long"])
    first_token = clock.last_times["long"] - arrival
    return Gaps(usual=median(usual), longest=max(gaps), first_token=first_token)
