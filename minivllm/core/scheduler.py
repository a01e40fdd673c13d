"""Scheduler: decides, step by step, how many tokens of which request are computed.

There is no prefill phase and no decode phase. Each request has `num_computed_tokens` and
`num_tokens`, and every step lets the first catch up with the second as far as the token budget
goes. One rule covers a whole prompt, a chunk of one, a decode, a prefix hit and a preempted request
that starts over:

    num_scheduled = min(num_tokens - num_computed_tokens, what is left of the budget)

    step    budget 8                  A (3 tokens)   B (12 tokens)   C (2 tokens, later)
    0       A 3, B 5                  prompt         chunk
    1       A 1, B 7                  decode         chunk, last
    2       A 1, B 1, C 2             decode         decode          prompt

A request whose last known token is computed samples its next one. The scheduler never sees a
tensor, and the worker's rows are a cache of what stands here.
Source: vLLM: v1/core/sched/scheduler.py. Next file to read: `minivllm/executor/base.py`, which
carries the plan to the worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from minivllm.config import SchedulerConfig
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.logprobs import attach_logprobs
from minivllm.core.request import Request, RequestStatus
from minivllm.core.request_queue import RequestQueue, policy_key
from minivllm.core.step_plan import StepPlan
from minivllm.core.stop import check_stop
from minivllm.errors import RequestError
from minivllm.messages import EngineCoreOutput, ModelRunnerOutput, SchedulerOutput
from minivllm.outputs import FinishReason
from minivllm.trace import RequestAdded, RequestFinished, RequestPreempted, RequestResumed, Trace


class Scheduler:
    """Owns every unfinished request: the waiting ones in a queue, the running ones in a list.

    Attributes:
        requests: All unfinished requests by id.
        waiting: Those without blocks, the next to run first.
        running: Those with blocks, in the order they are served.
        step: The number of the next plan.
    """

    def __init__(
        self,
        config: SchedulerConfig,
        kv_cache_manager: KVCacheManager,
        *,
        trace: Trace | None = None,
    ) -> None:
        """Start without requests.

        Args:
            config: With no `None` left in it: see `SchedulerConfig.resolved`.
            kv_cache_manager: Where the blocks come from.
            trace: Where decisions are recorded.
        """
        assert config.max_num_batched_tokens is not None, "the engine resolves the config first"
        self.config = config
        self.token_budget = config.max_num_batched_tokens
        self.kv_cache_manager = kv_cache_manager
        self.requests: dict[str, Request] = {}
        self._key = policy_key(config.scheduling_policy)
        self.waiting = RequestQueue(self._key)
        self.running: list[Request] = []
        self.step = 0
        self._trace = trace
        self._preempted_ids: list[str] = []
        self._finished_ids: list[str] = []

    def add_request(self, request: Request) -> None:
        """Queue a request.

        Raises:
            RequestError: Its id is in use, or even alone it would not fit into the KV cache.
        """
        if request.request_id in self.requests:
            raise RequestError(f"request_id={request.request_id!r} is in use: choose another")
        # The last token is only returned, never computed, so it needs no slot.
        needed = self.kv_cache_manager.num_blocks_for(request.max_num_tokens - 1)
        available = self.kv_cache_manager.pool.num_blocks
        if needed > available:
            num_new = request.max_num_tokens - request.num_prompt_tokens
            raise RequestError(
                f"request {request.request_id!r} needs {needed} KV-cache blocks for "
                f"{request.num_prompt_tokens} prompt tokens and {num_new} new ones, but the cache "
                f"has {available}: lower max_tokens, shorten the prompt, or enlarge the cache "
                "(num_blocks, cpu_kv_cache_gib or gpu_memory_utilization)"
            )
        self.requests[request.request_id] = request
        self.waiting.push(request)
        if self._trace is not None:
            event = RequestAdded(
                step=self.step,
                request_id=request.request_id,
                num_prompt_tokens=request.num_prompt_tokens,
            )
            self._trace.add(event)

    def schedule(self) -> SchedulerOutput:
        """The plan of the next step: running requests first, then waiting ones."""
        if self._trace is not None:
            self._trace.step = self.step
        plan = StepPlan(budget=self.token_budget)
        self._schedule_running(plan)
        if not self._preempted_ids:
            self._admit_waiting(plan)
        output = plan.freeze(self.step, self._preempted_ids, self._finished_ids)
        self._preempted_ids, self._finished_ids = [], []
        self.step += 1
        if self._trace is not None:
            plan.record(self._trace)
        return output

    def _schedule_running(self, plan: StepPlan) -> None:
        block_size, preempted = self.kv_cache_manager.block_size, RequestStatus.PREEMPTED
        filling = []  # requests that fill a block in this step
        for request in tuple(self.running):
            if plan.budget == 0:
                break
            if request.status is preempted:
                continue  # just now, for the sake of one served before it
            num_computed = request.num_computed_tokens
            num_new = len(request.token_ids) + request.num_in_flight - num_computed
            if num_new > plan.budget:  # not `min`: a call, for each request in each step
                num_new = plan.budget
            num_tokens = num_computed + num_new
            if num_tokens == request.max_num_tokens:
                continue  # its last token is in flight: that one is only returned, never computed
            if num_tokens > request.num_slots:
                block_ids = self._allocate_or_preempt(request, num_tokens, plan)
                if block_ids is None:
                    continue
                plan.new_block_ids[request.request_id] = block_ids
            plan.continued.append(request)
            plan.num_scheduled_tokens[request.request_id] = num_new
            plan.budget -= num_new
            if num_tokens % block_size < num_new:  # a block ends among the new tokens
                filling.append(request)

        if len(plan.continued) < len(self.running):  # the budget ran out: the others go first next
            self.running.sort(key=lambda request: request.request_id in plan.num_scheduled_tokens)
        self._cache_filled(filling, plan)

    def _cache_filled(self, filling: list[Request], plan: StepPlan) -> None:
        """Let others find the blocks that this step fills; it is certain now who stays in it."""
        for request in filling:
            num_new = plan.num_scheduled_tokens.get(request.request_id, 0)
            # A block can't be hashed while one of its tokens is in flight.
            num_tokens = min(request.num_computed_tokens + num_new, request.num_tokens)
            self.kv_cache_manager.cache_blocks(request, num_tokens)

    def _allocate_or_preempt(
        self, request: Request, num_tokens: int, plan: StepPlan
    ) -> list[int] | None:
        """Blocks for `num_tokens` tokens, taken from others if none are free.

        `None` if the request itself is the one that has to give way.
        """
        while True:
            block_ids = self.kv_cache_manager.allocate_slots(request, num_tokens)
            if block_ids is not None:
                return block_ids
            victim = max(self.running, key=self._key)
            self._preempt(victim)
            plan.withdraw(victim)
            if victim is request:
                return None

    def _preempt(self, request: Request) -> None:
        self.running.remove(request)
        self.kv_cache_manager.free(request)
        request.forget_computed(RequestStatus.PREEMPTED)
        request.num_preemptions += 1
        self.waiting.push(request)
        self._preempted_ids.append(request.request_id)
        if self._trace is not None:
            self._trace.add(RequestPreempted(step=self.step, request_id=request.request_id))

    def _admit_waiting(self, plan: StepPlan) -> None:
        manager = self.kv_cache_manager
        while self.waiting and plan.budget and len(self.running) < self.config.max_num_seqs:
            request = self.waiting.peek()
            cached_prefix = manager.find_cached_prefix(request)
            num_cached = len(cached_prefix) * manager.block_size
            num_new = request.num_tokens - num_cached
            if num_new > plan.budget:
                if not self.config.enable_chunked_prefill:
                    break
                num_new = plan.budget
            # Blocks for all it knows, not only for this chunk: a prompt that was let in can't be
            # stopped half-way by the next one, so they never take turns preempting each other.
            block_ids = manager.allocate_slots(request, request.num_tokens, cached_prefix)
            if block_ids is None:
                break
            self.waiting.pop()
            self._start(request, num_cached)
            plan.start(request, num_new, block_ids)
            # No preemption follows in this step, so these blocks are sure to be filled.
            manager.cache_blocks(request, num_cached + num_new)

    def _start(self, request: Request, num_cached: int) -> None:
        if request.status is RequestStatus.PREEMPTED and self._trace is not None:
            self._trace.add(RequestResumed(step=self.step, request_id=request.request_id))
        request.status = RequestStatus.RUNNING
        request.num_computed_tokens = num_cached
        request.num_cached_blocks = num_cached // self.kv_cache_manager.block_size
        if request.num_cached_tokens is None:
            request.num_cached_tokens = num_cached
        self.running.append(request)

    def update_from_output(
        self, plan: SchedulerOutput, output: ModelRunnerOutput
    ) -> list[EngineCoreOutput]:
        """Enter what a step computed: tokens appended, ended requests freed.

        Returns:
            One entry for each request that got a token, or log-probabilities of its prompt.
        """
        sampled = dict(zip(output.request_ids, output.sampled_token_ids, strict=True))
        core_outputs = []
        for request_id, num_tokens in plan.num_scheduled_tokens.items():
            request = self.requests[request_id]
            num_computed = request.num_computed_tokens + num_tokens
            request.num_computed_tokens = num_computed
            if num_computed < len(request.token_ids):
                continue  # only a chunk: nothing was sampled
            core_outputs.append(self._append_token(request, sampled[request_id]))
        assert len(core_outputs) == len(sampled), "only who has nothing left to compute samples"
        return self._complete(core_outputs, output)

    def _append_token(self, request: Request, token_id: int) -> EngineCoreOutput:
        request.token_ids.append(token_id)
        if check_stop(request):
            self._finish(request)
        return EngineCoreOutput(
            request.request_id, (token_id,), request.finish_reason, request.stop_reason
        )

    def _complete(
        self, core_outputs: list[EngineCoreOutput], output: ModelRunnerOutput
    ) -> list[EngineCoreOutput]:
        """The outputs with their log-probabilities; ended requests no longer run."""
        if any(core_output.finish_reason is not None for core_output in core_outputs):
            self.running = [r for r in self.running if r.finish_reason is None]
        if output.logprobs or output.prompt_logprobs:
            attach_logprobs(core_outputs, output)
        return core_outputs

    def abort(self, request_ids: Iterable[str], reason: FinishReason = "abort") -> None:
        """End requests early, wherever they stand; ids that are unknown or ended are ignored."""
        for request_id in request_ids:
            request = self.requests.get(request_id)
            if request is None:
                continue
            if request.status is RequestStatus.RUNNING:
                self.running.remove(request)
            else:
                self.waiting.remove(request)
            request.finish_reason = reason
            self._finish(request)

    def _finish(self, request: Request) -> None:
        """Give back all that an ended request holds; the caller takes it out of its list."""
        assert request.finish_reason is not None, "the reason is set where the end is found"
        request.status = RequestStatus.FINISHED
        self.kv_cache_manager.free(request)
        del self.requests[request.request_id]
        self._finished_ids.append(request.request_id)
        if self._trace is not None:
            event = RequestFinished(
                step=self._trace.step,
                request_id=request.request_id,
                finish_reason=request.finish_reason,
            )
            self._trace.add(event)

    def recover(self) -> None:
        """Undo a step that failed half-way: every request waits again, and no block is in use.

        It makes no assumption about the state it finds, so that it also serves a step interrupted
        at any point. Tokens generated so far are kept. The prefix cache is lost: some of its blocks
        may never have been written.
        """
        self.kv_cache_manager.clear()
        self.waiting.clear()
        self.running.clear()
        for request in tuple(self.requests.values()):
            has_output = request.num_tokens > request.num_prompt_tokens
            if request.finish_reason is not None or (has_output and check_stop(request)):
                del self.requests[request.request_id]  # it ended in the step that failed
                continue
            was_running = request.status is RequestStatus.RUNNING
            request.forget_computed(RequestStatus.PREEMPTED if was_running else request.status)
            self.waiting.push(request)
        self._preempted_ids, self._finished_ids = [], []
