"""A planner under test: Scheduler, KVCacheManager and BlockPool with a fake worker, all checked.

`PlannerHarness` is what the state machine (`tests/core/test_state_machine.py`) and the fuzzer
(`tools/fuzz_planner.py`) drive. It keeps its own record of who waits and who runs, made from the
plans alone, and after every step compares it with the scheduler's. What a single plan must fulfil
is in `plan_checks.py`.
"""

from __future__ import annotations

import pickle
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fake_worker import EOS_TOKEN_IDS, FakeWorker, solo_run
from interrupt import InterruptError, interrupt_after
from plan_checks import check_plan
from trace_mirror import TraceMirror

from minivllm.config import SchedulerConfig, SchedulingPolicy
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.core.scheduler import Scheduler
from minivllm.errors import RequestError
from minivllm.messages import EngineCoreOutput, SchedulerOutput
from minivllm.outputs import FinishReason
from minivllm.sampling_params import SamplingParams
from minivllm.trace import Trace


@dataclass(frozen=True, kw_only=True)
class PlannerSettings:
    """What a harness is built from."""

    block_size: int
    num_blocks: int
    token_budget: int
    max_num_seqs: int
    max_model_len: int
    policy: SchedulingPolicy
    chunking: bool
    caching: bool
    tracing: bool

    @classmethod
    def draw(cls, rng: random.Random) -> PlannerSettings:
        """Random settings, small enough that every resource runs out."""
        block_size = rng.choice([1, 2, 4, 8, 16])
        max_model_len = rng.choice([12, 24, 48])
        longest = -(-max_model_len // block_size)  # blocks of the longest request
        chunking = rng.random() < 0.7
        budget = rng.choice([1, 2, 3, 5, 8, 16, 64, 64])
        return cls(
            block_size=block_size,
            num_blocks=rng.randint(longest, 3 * longest)
            if rng.random() < 0.8
            else rng.randint(1, longest),
            token_budget=budget if chunking else max(budget, max_model_len),
            max_num_seqs=rng.randint(1, 8),
            max_model_len=max_model_len,
            policy=rng.choice(["fcfs", "priority"]),
            chunking=chunking,
            caching=rng.random() < 0.8,
            tracing=rng.random() < 0.3,
        )


@dataclass(kw_only=True)
class Tracked:
    """What the harness knows of a live request."""

    request: Request
    key: tuple[int, int]
    expected: list[int]
    finish_reason: FinishReason
    stop_reason: int | None
    max_num_tokens: int
    received: list[int] = field(default_factory=list)
    num_in_flight: int = 0
    num_computed: int = 0
    num_reserved_blocks: int = 0
    num_cached_tokens: int | None = None
    num_preemptions: int = 0
    num_steps_left_out: int = 0

    @property
    def num_tokens(self) -> int:
        """Prompt and received tokens."""
        return self.request.num_prompt_tokens + len(self.received)

    @property
    def num_left(self) -> int:
        """Tokens to compute, those in flight included; the last of all is never computed."""
        num_tokens = self.num_tokens + self.num_in_flight
        return 0 if num_tokens == self.max_num_tokens else num_tokens - self.num_computed


@dataclass
class Counts:
    """What happened so far, for the fuzzer's report."""

    steps: int = 0
    requests: int = 0
    refused: int = 0
    finished: int = 0
    aborted: int = 0
    preemptions: int = 0
    hit_blocks: int = 0
    evictions: int = 0
    failures: int = 0
    resets: int = 0


class PlannerHarness:
    """One planner, its fake worker, and the record that both are held against."""

    scheduler_class: type[Scheduler] = Scheduler

    def __init__(self, settings: PlannerSettings, counts: Counts | None = None) -> None:
        self.settings = settings
        self.counts = counts or Counts()
        self.trace = Trace() if settings.tracing else None
        self.pool = BlockPool(
            settings.num_blocks, enable_caching=settings.caching, trace=self.trace
        )
        self.manager = KVCacheManager(self.pool, settings.block_size)
        config = SchedulerConfig(
            max_model_len=settings.max_model_len,
            max_num_batched_tokens=settings.token_budget,
            max_num_seqs=settings.max_num_seqs,
            enable_chunked_prefill=settings.chunking,
            scheduling_policy=settings.policy,
        )
        self.scheduler = self.scheduler_class(config, self.manager, trace=self.trace)
        self.worker = FakeWorker(settings.num_blocks, settings.block_size)
        self.mirror = TraceMirror(self.trace) if self.trace is not None else None
        self.live: dict[str, Tracked] = {}
        self.waiting: set[str] = set()
        self.running: set[str] = set()
        self.finished_ids: list[str] = []
        self.last_step = -1
        self.steps_left = 0
        self._rotation = 1 + settings.max_num_seqs // settings.token_budget
        self._content: dict[bytes, list[int | None]] = {}
        self._arrivals = 0

    # What a user does.

    def add(
        self, prompt: Sequence[int], params: SamplingParams, priority: int, request_id: str
    ) -> bool:
        """Add a request; whether it was accepted, which is checked too."""
        settings = self.settings
        request = Request(
            request_id=request_id,
            token_ids=list(prompt),
            sampling_params=params,
            max_model_len=settings.max_model_len,
            seed=self._arrivals,
            eos_token_ids=EOS_TOKEN_IDS,
            priority=priority,
            arrival=self._arrivals,
        )
        self._arrivals += 1
        num_new = min(params.max_tokens or 10**9, settings.max_model_len - len(prompt))
        num_slots = len(prompt) + num_new - 1
        fits = -(-num_slots // settings.block_size) <= settings.num_blocks
        try:
            self.scheduler.add_request(request)
        except RequestError:
            assert not fits or request_id in self.live, "a request that fits is accepted"
            self.counts.refused += 1
            return False
        assert fits, "a request that can never fit is refused"
        assert request_id not in self.live, "an id in use is refused"
        expected, finish_reason, stop_reason = solo_run(prompt, params, settings.max_model_len)
        self.live[request_id] = Tracked(
            request=request,
            key=(priority if settings.policy == "priority" else 0, request.arrival),
            expected=expected,
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            max_num_tokens=len(prompt) + num_new,
        )
        self.waiting.add(request_id)
        self.counts.requests += 1
        self.steps_left += self._rotation * (len(prompt) + 2 * num_new + 2)
        return True

    def abort(self, request_ids: Iterable[str]) -> None:
        """Abort requests, known or not."""
        request_ids = list(request_ids)
        self.scheduler.abort(request_ids)
        for request_id in request_ids:
            if request_id in self.live:
                self._forget(request_id)
                self.counts.aborted += 1
        self.check_state()

    def reset_prefix_cache(self) -> None:
        """Ask for a reset, which works exactly if nothing runs."""
        done = self.manager.reset_prefix_cache()
        assert done == (not self.running), "the cache is reset exactly if no request runs"
        if done:
            assert self.pool.num_cached_hashes == 0, "a reset forgets every prefix"
            self.counts.resets += 1
        self.check_state()

    def step(self) -> None:
        """One whole step, with every check."""
        output = self._plan()
        result = self.worker.execute(output)
        sampling = self._advance(output)
        core_outputs = self.scheduler.update_from_output(output, result)
        assert [out.request_id for out in core_outputs] == sampling, "one output per sampled token"
        for core_output in core_outputs:
            self._receive(core_output)
        self.check_state()

    def fail_step(self, where: str, num_lines: int) -> None:
        """A step that fails in "schedule", "execute" or "update", and the recovery from it."""
        output = None
        try:
            if where == "schedule":
                with interrupt_after(num_lines):
                    self.scheduler.schedule()
            else:
                output = self._plan()
            if output is not None and where == "update":
                result = self.worker.execute(output)
                with interrupt_after(num_lines):
                    self.scheduler.update_from_output(output, result)
        except InterruptError:
            pass
        self.counts.failures += 1
        self._recover()

    def drain(self) -> None:
        """Run until no request is left, within a bound, and check that nothing leaked."""
        while self.live:
            self.step()
        self.step()  # delivers the last finished ids
        assert not self.worker.rows, "the worker keeps no row of an ended request"
        assert self.pool.num_free_blocks == self.settings.num_blocks, "no block leaked"

    # How the record follows.

    @property
    def has_tokens_in_flight(self) -> bool:
        """Whether a step is under way that samples something."""
        return False

    def _plan(self) -> SchedulerOutput:
        output = self.scheduler.schedule()
        self.counts.steps += 1
        check_plan(self, output)
        if self.counts.steps % 16 == 0:
            assert pickle.loads(pickle.dumps(output)) == output, "a plan survives pickling"
        self.last_step = output.step
        self.finished_ids.clear()
        for request_id in output.preempted_request_ids:
            self.running.remove(request_id)
            self.waiting.add(request_id)
            self.live[request_id].num_preemptions += 1
            self.live[request_id].num_computed = 0
        for new in output.new_requests:
            self.waiting.remove(new.request_id)
            self.running.add(new.request_id)
            tracked = self.live[new.request_id]
            tracked.num_computed = new.num_computed_tokens
            tracked.num_reserved_blocks = len(new.block_ids)
            if tracked.num_cached_tokens is None:
                tracked.num_cached_tokens = new.num_computed_tokens
            self.counts.hit_blocks += new.num_computed_tokens // self.settings.block_size
        self.counts.preemptions += len(output.preempted_request_ids)
        if self.live:
            self.steps_left -= 1
            has_work = output.total_num_scheduled_tokens > 0 or self.has_tokens_in_flight
            assert has_work, "no step is idle while requests live"
            assert self.steps_left >= 0, "every request ends within a bounded number of steps"
        return output

    def _advance(self, output: SchedulerOutput) -> list[str]:
        """Move progress on; the requests that now sample a token, in row order."""
        sampling = []
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            tracked = self.live[request_id]
            tracked.num_computed += num_tokens
            if tracked.num_computed == tracked.num_tokens:
                sampling.append(request_id)
        return sampling

    def _receive(self, out: EngineCoreOutput) -> None:
        tracked = self.live[out.request_id]
        tracked.received += out.new_token_ids
        received, expected = tracked.received, tracked.expected
        assert received == expected[: len(received)], f"{out.request_id}: the tokens of a solo run"
        request = tracked.request
        assert request.num_cached_tokens == tracked.num_cached_tokens, "hits of the first admission"
        assert request.num_preemptions == tracked.num_preemptions, "preemptions are counted"
        if len(received) < len(expected):
            assert out.finish_reason is None, f"{out.request_id} ended too early"
            return
        end = (out.finish_reason, out.stop_reason)
        assert end == (tracked.finish_reason, tracked.stop_reason), "it ends as a solo run does"
        self.counts.finished += 1
        self._forget(out.request_id)

    def _forget(self, request_id: str) -> None:
        del self.live[request_id]
        self.waiting.discard(request_id)
        self.running.discard(request_id)
        self.finished_ids.append(request_id)

    def _recover(self) -> None:
        self.scheduler.recover()
        self.worker.clear()
        if self.mirror is not None:
            self.mirror.clear()
        self._content.clear()
        for request_id, tracked in list(self.live.items()):
            request = tracked.request
            tracked.received = request.output_token_ids
            tracked.num_computed = 0
            tracked.num_cached_tokens = request.num_cached_tokens
            tracked.num_preemptions = request.num_preemptions
            if request_id in self.scheduler.requests:
                assert len(tracked.received) < len(tracked.expected), "an ended request is gone"
            else:
                assert tracked.received == tracked.expected, "only an ended request is gone"
                del self.live[request_id]
            assert tracked.received == tracked.expected[: len(tracked.received)]
        self.finished_ids.clear()
        self.waiting, self.running = set(self.live), set()
        self.steps_left += self._rotation * sum(t.num_tokens + 2 for t in self.live.values())
        self.check_state()

    # What holds between any two steps.

    def check_state(self) -> None:
        """Compare the record, the scheduler, the pool and the worker's pages."""
        self.manager.check()
        scheduler, settings = self.scheduler, self.settings
        assert {r.request_id for r in scheduler.running} == self.running
        assert len(scheduler.running) == len(self.running) <= settings.max_num_seqs
        assert {r.request_id for r in scheduler.waiting} == self.waiting
        assert len(scheduler.waiting) == len(self.waiting)
        assert scheduler.requests.keys() == self.live.keys()
        for request in scheduler.running:
            tracked = self.live[request.request_id]
            assert request.num_computed_tokens == tracked.num_computed
            assert request.num_tokens == tracked.num_tokens
            row = self.worker.rows[request.request_id]
            assert self.manager.block_ids(request) == row.block_ids, "both know the same table"
        if not self.running:
            assert self.pool.num_free_blocks == settings.num_blocks, "no block leaked"
        for block in self.pool.blocks:
            if block.block_hash is not None:
                page = self.worker.pages[block.block_id]
                assert None not in page, "a block that can be found was written"
                known = self._content.setdefault(block.block_hash, list(page))
                assert known == page, "a hash names one content only"
        if self.mirror is not None:
            self.mirror.follow()
            self.mirror.check(self.pool)
            self.counts.evictions = self.mirror.num_evictions + self.counts.evictions
            self.mirror.num_evictions = 0
