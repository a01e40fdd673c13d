"""EngineStats: what an engine has done since it was built, in numbers.

`StatsCounter` is told of every plan, every step and every finished request, and keeps sums only.
Times of single requests are in `RequestOutput.metrics`. Times here come from its caller, so that a
test can make them up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minivllm.core.request import Request
from minivllm.messages import SchedulerOutput
from minivllm.outputs import RequestMetrics


@dataclass(frozen=True, kw_only=True)
class EngineStats:
    """Sums over all requests and steps so far, and the state of the KV cache now.

    Attributes:
        num_finished_requests: Requests that ended, aborted ones included.
        num_prompt_tokens: Prompt tokens of all requests that have run. Each continuation of a
            request with `n` above 1 is counted, as each looks its prompt up in the prefix cache.
        num_cached_tokens: Those of them that the prefix cache saved from being computed.
        num_output_tokens: Generated tokens.
        num_preemptions: How often a request lost its blocks.
        num_steps: Steps that were run.
        seconds: The time these steps took: an idle engine does not age.
        time_to_first_token: Mean over finished requests, in seconds; `None` if none had a token.
        time_per_output_token: Mean over finished requests with two tokens or more, in seconds;
            `None` if there are none.
        kv_usage: Share of the KV cache's blocks that requests use now, from 0 to 1.
        peak_kv_usage: The largest share in any step.
    """

    num_finished_requests: int
    num_prompt_tokens: int
    num_cached_tokens: int
    num_output_tokens: int
    num_preemptions: int
    num_steps: int
    seconds: float
    time_to_first_token: float | None
    time_per_output_token: float | None
    kv_usage: float
    peak_kv_usage: float

    @property
    def prefix_hit_rate(self) -> float:
        """Share of the prompt tokens that the prefix cache had, from 0 to 1."""
        return self.num_cached_tokens / max(1, self.num_prompt_tokens)

    @property
    def prompt_tokens_per_second(self) -> float:
        """Prompt tokens, cached ones included, by the time of all steps; 0 before the first."""
        return self.num_prompt_tokens / self.seconds if self.seconds else 0.0

    @property
    def output_tokens_per_second(self) -> float:
        """Generated tokens by the time of all steps; 0 before the first."""
        return self.num_output_tokens / self.seconds if self.seconds else 0.0


class StatsCounter:
    """The sums behind `EngineStats`."""

    def __init__(self) -> None:
        self._num_prompt_tokens = 0
        self._num_cached_tokens = 0
        self._num_output_tokens = 0
        self._num_preemptions = 0
        self._num_steps = 0
        self._seconds = 0.0
        self._peak_kv_usage = 0.0
        self._num_finished = 0
        self._first_token_times = _Mean()
        self._token_times = _Mean()

    def count_plan(
        self, plan: SchedulerOutput, requests: Mapping[str, Request], kv_usage: float
    ) -> None:
        """Count who starts in a step, and who had to give way.

        A request that comes back from a preemption is not counted again: it mostly finds its own
        blocks, which says nothing of the prefix cache.
        """
        for new in plan.new_requests:
            if requests[new.request_id].num_preemptions == 0:
                self._num_prompt_tokens += new.num_prompt_tokens
                self._num_cached_tokens += new.num_computed_tokens
        self._num_preemptions += len(plan.preempted_request_ids)
        self._peak_kv_usage = max(self._peak_kv_usage, kv_usage)

    def count_step(self, seconds: float, num_output_tokens: int) -> None:
        """Count a step that has run."""
        self._num_steps += 1
        self._seconds += seconds
        self._num_output_tokens += num_output_tokens

    def count_finished(self, metrics: RequestMetrics) -> None:
        """Count a request that ended."""
        self._num_finished += 1
        self._first_token_times.add(metrics.time_to_first_token)
        self._token_times.add(metrics.time_per_output_token)

    def stats(self, kv_usage: float) -> EngineStats:
        """The sums so far, with the share of blocks in use now."""
        return EngineStats(
            num_finished_requests=self._num_finished,
            num_prompt_tokens=self._num_prompt_tokens,
            num_cached_tokens=self._num_cached_tokens,
            num_output_tokens=self._num_output_tokens,
            num_preemptions=self._num_preemptions,
            num_steps=self._num_steps,
            seconds=self._seconds,
            time_to_first_token=self._first_token_times.value,
            time_per_output_token=self._token_times.value,
            kv_usage=kv_usage,
            peak_kv_usage=self._peak_kv_usage,
        )


class _Mean:
    """The mean of what was added, leaving out `None`."""

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, value: float | None) -> None:
        if value is not None:
            self._sum += value
            self._count += 1

    @property
    def value(self) -> float | None:
        return self._sum / self._count if self._count else None
