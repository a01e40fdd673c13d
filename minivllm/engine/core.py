"""EngineCore: what runs requests, step by step, and stays in order when a step fails.

It builds the three things that take part: the executor (devices), the block manager and the
scheduler (the plan). It handles token ids only; text is the business of `llm_engine.py`.
Next file to read: `step_loop.py`, the step itself.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from minivllm.config import LLMConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.in_flight import InFlightScheduler
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.engine.stats import StatsCounter
from minivllm.engine.step_loop import InTurn, OneInFlight, StepLoop
from minivllm.errors import EngineDeadError
from minivllm.executor.base import Executor
from minivllm.executor.uniproc import UniProcExecutor
from minivllm.messages import EngineCoreOutput, SchedulerOutput
from minivllm.models.hf_config import ModelArchitecture
from minivllm.outputs import FinishReason
from minivllm.trace import StepExecuted, StepFailed, Trace


class EngineCore:
    """Requests in, tokens out, one step at a time.

    Attributes:
        executor: Runs the plans.
        scheduler: Makes them.
        kv_cache_manager: Gives the requests their blocks.
        stats: Counts what is done.
    """

    def __init__(
        self, config: LLMConfig, arch: ModelArchitecture, folder: Path, trace: Trace | None
    ) -> None:
        """Load the model, allocate the cache, and build the scheduler with that many blocks.

        Args:
            config: Its scheduler config has no `None` left.
            arch: The model's shape.
            folder: Where its weights are.
            trace: Where decisions are recorded.
        """
        self.executor: Executor = UniProcExecutor(config, arch, folder)
        num_blocks = self.executor.determine_num_blocks()
        self.executor.initialize_kv_cache(num_blocks)
        parts, cache = config.parts, config.cache_config
        pool = (parts.block_pool or BlockPool)(
            num_blocks, enable_caching=cache.enable_prefix_caching, trace=trace
        )
        self.kv_cache_manager = KVCacheManager(pool, cache.block_size)
        overlaps = self._overlaps_steps(config)
        self.scheduler: Scheduler = (
            parts.scheduler or (InFlightScheduler if overlaps else Scheduler)
        )(config.scheduler_config, self.kv_cache_manager, trace=trace)
        loop = OneInFlight if overlaps else InTurn
        self._loop: StepLoop = loop(self._plan_step, self.executor, self.scheduler)
        self.stats = StatsCounter()
        self._trace = trace
        self._at_planning: dict[str, Any] = {}  # of the latest plan
        if trace is not None:
            trace.num_blocks, trace.block_size = num_blocks, cache.block_size
        self._is_dead = False

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestError: It can never run here.
            EngineDeadError: The engine was shut down, or failed beyond recovery.
        """
        self._check_alive()
        self.scheduler.add_request(request)

    def abort(self, request_ids: Iterable[str], reason: FinishReason = "abort") -> None:
        """End requests early, for any `reason` that only text can tell; unknown ids are ignored."""
        self.scheduler.abort(request_ids, reason)

    def has_unfinished_requests(self) -> bool:
        """Whether another step has something to do."""
        return bool(self.scheduler.requests)

    def step(self) -> list[EngineCoreOutput]:
        """One step: an entry for each request that got a token.

        If it fails, or is interrupted, it is undone before the error goes on: requests are kept,
        lose their blocks, and start over with the tokens they have.

        Raises:
            EngineDeadError: The engine was shut down, or failed beyond recovery.
        """
        self._check_alive()
        start = time.monotonic()
        try:
            plan, core_outputs = self._loop.step()
        except BaseException:  # Ctrl-C too: whatever happened, the next step must find order
            self._recover()
            raise
        seconds = time.monotonic() - start
        self.stats.count_step(seconds, sum(len(out.new_token_ids) for out in core_outputs))
        if self._trace is not None:
            began = start - self._trace.began
            self._trace.add(StepExecuted(start=began, seconds=seconds, **self._at_planning))
        is_idle = plan.total_num_scheduled_tokens == 0 and not core_outputs
        if is_idle and self.has_unfinished_requests():
            raise RuntimeError(
                f"step {plan.step} has nothing to run, though requests are unfinished: "
                f"{len(self.scheduler.waiting)} waiting, {len(self.scheduler.running)} running. "
                "The scheduler or block pool in use never gives them their turn"
            )
        return core_outputs

    def take_entered(self) -> list[EngineCoreOutput]:
        """Outputs that a step which then failed had entered already, and could not give back."""
        return self._loop.take_entered()

    def _plan_step(self) -> SchedulerOutput:
        """The next plan; what the engine holds at this moment is noted for statistics and trace."""
        plan = self.scheduler.schedule()
        kv_usage = self.kv_cache_manager.usage
        self.stats.count_plan(plan, self.scheduler.requests, kv_usage)
        self._at_planning = {
            "step": plan.step,
            "num_running": len(self.scheduler.running),
            "num_waiting": len(self.scheduler.waiting),
            "kv_usage": kv_usage,
        }
        return plan

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. Gives `False`, and does nothing, while requests run."""
        return self.kv_cache_manager.reset_prefix_cache()

    def shutdown(self) -> None:
        """Give back weights and cache; a second call does nothing."""
        self._is_dead = True
        self.executor.shutdown()

    def _overlaps_steps(self, config: LLMConfig) -> bool:
        """Whether a step is planned while the one before runs."""
        if config.parts.scheduler is not None:
            return False  # it may know of no token in flight
        wanted = config.scheduler_config.async_scheduling
        return self.executor.runs_beside_host if wanted is None else wanted

    def _recover(self) -> None:
        self._is_dead = True  # unless all of these succeed
        self.executor.reset()
        self._loop.reset()
        self.scheduler.recover()
        if self._trace is not None:
            self._trace.add(StepFailed(step=self._trace.step))
        self._is_dead = False

    def _check_alive(self) -> None:
        if self._is_dead:
            raise EngineDeadError(
                "the engine was shut down, or could not recover from an error: build a new LLM"
            )
