"""The planner under test with one step in flight: plan n + 1 is made before result n is entered.

The fake worker carries out each plan as soon as it is made, as a device does that is given its
steps in order; only the tokens reach the scheduler late. All checks of `planner.py` stay, and the
record now also says which tokens are in flight, and which of them nobody wanted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from interrupt import InterruptError, interrupt_after
from planner import PlannerHarness, Tracked

from minivllm.core.in_flight import InFlightScheduler
from minivllm.messages import ModelRunnerOutput, SchedulerOutput


@dataclass(frozen=True, kw_only=True)
class UnderWay:
    """A step whose tokens the scheduler has not seen."""

    plan: SchedulerOutput
    result: ModelRunnerOutput
    sampling: list[Tracked]


class InFlightHarness(PlannerHarness):
    """Steps as `OneInFlight` makes them."""

    scheduler_class = InFlightScheduler
    _under_way: UnderWay | None = None
    enters_early = False  # as `OneInFlight` does where a rule counts tokens

    @property
    def has_tokens_in_flight(self) -> bool:
        """Whether a step is under way that samples something."""
        return self._under_way is not None and bool(self._under_way.sampling)

    def step(self) -> None:
        """Plan a step and carry it out, then enter the result of the one before."""
        if self.enters_early:
            self._enter_result()
            self.check_state()
        plan = self._plan()
        result = self.worker.execute(plan)
        sampling = [self.live[request_id] for request_id in self._advance(plan)]
        for tracked in sampling:
            tracked.num_in_flight += 1
        self._enter_result()
        self._under_way = UnderWay(plan=plan, result=result, sampling=sampling)
        self.check_state()

    def _advance(self, output: SchedulerOutput) -> list[str]:
        sampling = []
        for request_id, num_tokens in output.num_scheduled_tokens.items():
            tracked = self.live[request_id]
            tracked.num_computed += num_tokens
            if tracked.num_computed == tracked.num_tokens + tracked.num_in_flight:
                sampling.append(request_id)
        return sampling

    def _enter_result(self) -> None:
        step, self._under_way = self._under_way, None
        if step is None:
            return
        wanted = [tracked for tracked in step.sampling if self._is_live(tracked)]
        for tracked in step.sampling:
            tracked.num_in_flight -= 1
        self._check_discarded([tracked for tracked in step.sampling if tracked not in wanted])
        core_outputs = self.scheduler.update_from_output(step.plan, step.result)
        names = [tracked.request.request_id for tracked in wanted]
        assert [out.request_id for out in core_outputs] == names, "one output per wanted token"
        for core_output in core_outputs:
            self._receive(core_output)

    def _is_live(self, tracked: Tracked) -> bool:
        return self.live.get(tracked.request.request_id) is tracked

    def _check_discarded(self, discarded: list[Tracked]) -> None:
        for tracked in discarded:
            assert tracked.request.finish_reason != "length", "an end by length costs nothing"
            assert tracked.num_in_flight == 0, "an ended request wastes one token at most"

    def fail_step(self, where: str, num_lines: int) -> None:
        """A step that fails in "schedule", "execute" or "update", and the recovery from it."""
        try:
            if where == "schedule":
                with interrupt_after(num_lines):
                    self.scheduler.schedule()
            elif where == "execute":
                self._plan()
            else:
                self._fail_update(num_lines)
        except InterruptError:
            pass
        self.counts.failures += 1
        self._under_way = None
        for tracked in self.live.values():
            tracked.num_in_flight = 0
        self._recover()

    def _fail_update(self, num_lines: int) -> None:
        self.worker.execute(self._plan())
        step = self._under_way
        if step is not None:
            with interrupt_after(num_lines):
                self.scheduler.update_from_output(step.plan, step.result)

    def check_state(self) -> None:
        """See `PlannerHarness.check_state`; and both count the same tokens in flight."""
        super().check_state()
        in_flight = Counter(tracked.num_in_flight for tracked in self.live.values())
        assert set(in_flight) <= {0, 1}, "between two steps one token of a request is in flight"
        for tracked in self.live.values():
            assert tracked.request.num_in_flight == tracked.num_in_flight
