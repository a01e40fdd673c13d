"""Examines an attempt in this process: rung by rung, and names the mistake.

`guard.py` calls it in a process of its own. Next file to read: `ladder.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from minivllm.course.attempt import Attempt, Rung
from minivllm.course.bank import Bank
from minivllm.course.detective import Detective
from minivllm.course.drive import machine_rungs
from minivllm.course.exercise import Exercise, Task
from minivllm.course.inquest import detective_rungs
from minivllm.course.ladder import Ladder
from minivllm.course.machine import Machine
from minivllm.course.probe import Probe, probes_of
from minivllm.course.report import Failure, Report

Tell = Callable[[Report], None]


def rungs_of(attempt: Attempt, probes: list[Probe]) -> list[Rung]:
    """The rungs of an attempt, whatever kind its exercise is."""
    task = attempt.task
    if isinstance(task, Machine):
        return machine_rungs(task, attempt)
    if isinstance(task, Detective):
        return detective_rungs(task, attempt)
    assert isinstance(task, Exercise), "there are three kinds"
    return Ladder(task, attempt, probes).rungs()


def check_names(attempt: Attempt) -> list[str]:
    """The names of all checks; nothing of the learner's is run."""
    task = attempt.task
    probes = probes_of(task) if isinstance(task, Exercise) else []
    return [rung.name for rung in rungs_of(attempt, probes)]


def examine(attempt: Attempt, bank: Bank, tell: Tell = lambda _: None) -> Report:
    """Go up until the first red rung.

    Args:
        attempt: What the learner wrote.
        bank: The mutants that a wrong result is compared with.
        tell: Is given a report before each rung, so that one is there should the process die.
    """
    for probe in bank.probes:  # now, before the learner's code runs and changes what torch does
        probe.work_out()
    rungs = rungs_of(attempt, bank.probes)
    task = attempt.task
    names = tuple(rung.name for rung in rungs)
    for number, rung in enumerate(rungs):
        running = _report(task, names, number, None)
        tell(running)
        failure = rung.climb()
        if failure is None:
            continue
        report = _report(task, names, number, failure)
        tell(report)
        return report if failure.is_unfilled else bank.name_mistake(report, attempt)
    return Report(task_id=task.id, state="PASSED", checks=names, num_passed=len(names))


def _report(task: Task, names: tuple[str, ...], num_passed: int, failure: Failure | None) -> Report:
    is_unfilled = failure is not None and failure.is_unfilled
    return Report(
        task_id=task.id,
        state="NOT STARTED" if is_unfilled else "NOT YET",
        checks=names,
        num_passed=0 if is_unfilled else num_passed,
        failure=failure,
        look_at=task.look_at,
        try_it=task.try_it,
    )
