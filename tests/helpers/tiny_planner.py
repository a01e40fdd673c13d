"""Small planners for tests that count blocks by hand: no worker, tokens made up by the test."""

from __future__ import annotations

from typing import Any

from minivllm.config import SchedulerConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.in_flight import InFlightScheduler
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.messages import EngineCoreOutput, ModelRunnerOutput, SchedulerOutput
from minivllm.sampling_params import SamplingParams
from minivllm.trace import Trace, TraceEvent

SCHEDULER_DEFAULTS: dict[str, Any] = {
    "max_model_len": 64,
    "max_num_batched_tokens": 64,
    "max_num_seqs": 8,
}


def make_request(
    request_id: str = "a",
    prompt: list[int] | int = 3,
    *,
    arrival: int = 0,
    priority: int = 0,
    max_model_len: int = 64,
    eos: frozenset[int] = frozenset(),
    **params: Any,
) -> Request:
    """A request; a prompt given as a number has that many tokens, unlike any other request's."""
    if isinstance(prompt, int):
        prompt = [1000 * (arrival + 1) + i for i in range(prompt)]
    return Request(
        request_id=request_id,
        token_ids=prompt,
        sampling_params=SamplingParams(**params),
        max_model_len=max_model_len,
        eos_token_ids=eos,
        priority=priority,
        arrival=arrival,
    )


class TinyPlanner:
    """Scheduler, manager and pool, driven by hand. Blocks hold 4 tokens unless said otherwise."""

    scheduler_class: type[Scheduler] = Scheduler

    def __init__(
        self,
        num_blocks: int = 16,
        block_size: int = 4,
        *,
        caching: bool = True,
        tracing: bool = False,
        **scheduler: Any,
    ) -> None:
        config = SchedulerConfig(**{**SCHEDULER_DEFAULTS, **scheduler})
        self.trace = Trace() if tracing else None
        self.pool = BlockPool(num_blocks, enable_caching=caching, trace=self.trace)
        self.manager = KVCacheManager(self.pool, block_size)
        self.scheduler = self.scheduler_class(config, self.manager, trace=self.trace)
        self.requests: dict[str, Request] = {}
        self.outputs: list[EngineCoreOutput] = []

    def add(self, request_id: str, prompt: list[int] | int = 3, **options: Any) -> Request:
        """Queue a request; each arrives later than those before it."""
        options.setdefault("arrival", len(self.requests))
        options.setdefault("max_model_len", self.scheduler.config.max_model_len)
        request = make_request(request_id, prompt, **options)
        self.scheduler.add_request(request)
        self.requests[request_id] = request
        return request

    def plan(self) -> SchedulerOutput:
        """Only plan a step."""
        return self.scheduler.schedule()

    def result(self, plan: SchedulerOutput, token_id: int = 7) -> ModelRunnerOutput:
        """What a worker answers to `plan`: `token_id` for each request that samples."""
        requests = self.scheduler.requests
        sampling = [
            request_id
            for request_id, num_tokens in plan.num_scheduled_tokens.items()
            if requests[request_id].num_computed_tokens + num_tokens
            == requests[request_id].num_tokens
        ]
        return ModelRunnerOutput(request_ids=sampling, sampled_token_ids=[token_id] * len(sampling))

    def finish(self, plan: SchedulerOutput, token_id: int = 7) -> list[EngineCoreOutput]:
        """Enter the result of `plan`."""
        result = self.result(plan, token_id)
        self.outputs = self.scheduler.update_from_output(plan, result)
        self.manager.check()
        return self.outputs

    def step(self, token_id: int = 7) -> dict[str, int]:
        """A whole step; how many tokens each request computed."""
        plan = self.plan()
        self.finish(plan, token_id)
        return dict(plan.num_scheduled_tokens)

    def run_to_end(self, token_id: int = 7) -> int:
        """Steps until no request is left; how many it took (at most 500)."""
        for num_steps in range(500):
            if not self.scheduler.requests:
                return num_steps
            self.step(token_id)
        raise AssertionError(f"unfinished after 500 steps: {list(self.scheduler.requests)}")

    def table(self, request_id: str) -> list[int]:
        """The block table of a request."""
        return self.manager.block_ids(self.requests[request_id])

    def running_ids(self) -> list[str]:
        """Who runs, in the order they are served."""
        return [request.request_id for request in self.scheduler.running]

    def waiting_ids(self) -> list[str]:
        """Who waits, the next to run first."""
        return [request.request_id for request in self.scheduler.waiting]

    def free_ids(self) -> list[int]:
        """The free blocks, the next to be taken first."""
        return [block.block_id for block in self.pool.free_queue]

    def events(self, kind: type[TraceEvent]) -> list[TraceEvent]:
        """The trace's events of one kind."""
        assert self.trace is not None
        return [event for event in self.trace.events if isinstance(event, kind)]


class TinyInFlightPlanner(TinyPlanner):
    """The same with one step in flight: `step` plans, and then enters the result before."""

    scheduler_class = InFlightScheduler
    _under_way: tuple[SchedulerOutput, list[str]] | None = None

    def step(self, token_id: int = 7, **result: Any) -> dict[str, int]:
        """Plan a step, and enter the one before; how many tokens each request computes now."""
        plan = self.plan()
        requests = self.scheduler.requests
        sampling = [
            request_id
            for request_id in plan.num_scheduled_tokens
            if requests[request_id].num_computed_tokens >= requests[request_id].num_tokens
        ]
        self.enter(token_id, **result)
        self._under_way = plan, sampling
        return dict(plan.num_scheduled_tokens)

    def enter(self, token_id: int = 7, **result: Any) -> list[EngineCoreOutput]:
        """Enter the result of the step under way: `token_id` for each request that samples."""
        self.outputs = []
        if self._under_way is not None:
            plan, sampling = self._under_way
            self._under_way = None
            output = ModelRunnerOutput(
                request_ids=sampling, sampled_token_ids=[token_id] * len(sampling), **result
            )
            self.outputs = self.scheduler.update_from_output(plan, output)
            self.manager.check()
        return self.outputs

    def told(self) -> list[tuple[str, tuple[int, ...]]]:
        """Request and tokens of each of the latest outputs."""
        return [(output.request_id, output.new_token_ids) for output in self.outputs]
