"""The loop body, in two forms: one step after the other, or the next planned while one runs.

    InTurn          plan n | run n | enter n | plan n + 1 | run n + 1 | enter n + 1

    OneInFlight     plan n |     plan n + 1 | enter n     plan n + 2 | enter n + 1
    device                 | run n               | run n + 1              | run n + 2

A GPU that is told its next step before it has done the last never waits for the host. Both give
the same tokens; in the second form they come one call later.
Next file to read: `minivllm/core/scheduler.py`, then `minivllm/core/in_flight.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from minivllm.core.scheduler import Scheduler
from minivllm.executor.base import Executor, PendingOutput
from minivllm.messages import EngineCoreOutput, SchedulerOutput

PlanStep = Callable[[], SchedulerOutput]


class StepLoop(ABC):
    """Takes plans to the executor and results back to the scheduler."""

    def __init__(self, plan_step: PlanStep, executor: Executor, scheduler: Scheduler) -> None:
        """Start with no step under way.

        Args:
            plan_step: The scheduler's `schedule`, or something around it that takes note.
            executor: Runs the plans.
            scheduler: Takes the results.
        """
        self._plan_step = plan_step
        self._executor = executor
        self._scheduler = scheduler

    @abstractmethod
    def step(self) -> tuple[SchedulerOutput, list[EngineCoreOutput]]:
        """The plan that was made in this call, and the outputs that came."""

    @abstractmethod
    def reset(self) -> None:
        """Forget what is under way, after a step that failed; its tokens are lost."""

    def take_entered(self) -> list[EngineCoreOutput]:
        """Outputs that a step which then failed had entered already, and could not give back."""
        return []


class InTurn(StepLoop):
    """Plan a step, run it, enter its result."""

    def step(self) -> tuple[SchedulerOutput, list[EngineCoreOutput]]:
        """The plan, and the outputs of that same plan."""
        plan = self._plan_step()
        output = self._executor.execute_model(plan)
        return plan, self._scheduler.update_from_output(plan, output)

    def reset(self) -> None:
        """Nothing is under way between two steps."""


class OneInFlight(StepLoop):
    """Plan a step and start it, then enter the result of the one before.

    The scheduler must be an `InFlightScheduler`.
    """

    def __init__(self, plan_step: PlanStep, executor: Executor, scheduler: Scheduler) -> None:
        super().__init__(plan_step, executor, scheduler)
        self._under_way: tuple[SchedulerOutput, PendingOutput] | None = None
        self._entered: list[EngineCoreOutput] = []

    def step(self) -> tuple[SchedulerOutput, list[EngineCoreOutput]]:
        """The plan, and the outputs of the plan before."""
        if any(request.sampling_params.has_logit_rules for request in self._scheduler.running):
            self._entered = self._enter_result()  # penalties count tokens: they must be known
        plan = self._plan_step()
        pending = self._executor.start(plan)
        core_outputs = self._enter_result()
        self._under_way = plan, pending
        return plan, [*self.take_entered(), *core_outputs]

    def take_entered(self) -> list[EngineCoreOutput]:
        """See `StepLoop.take_entered`."""
        entered, self._entered = self._entered, []
        return entered

    def reset(self) -> None:
        """See `StepLoop.reset`."""
        self._under_way = None

    def _enter_result(self) -> list[EngineCoreOutput]:
        if self._under_way is None:
            return []
        plan, pending = self._under_way
        self._under_way = None
        return self._scheduler.update_from_output(plan, pending.result())
