"""Names a mistake: compares what an attempt computes with what each mutant of the bank computes.

An attempt leaves evidence on every input: its values with their NaN, what it raised, what it
changed, which rules it broke. A mutant is named if its evidence is the same on the inputs that
show the mistake, and on at least two of them where there are two; of several, the one that agrees
on the most.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from minivllm.course.attempt import Attempt
from minivllm.course.compare import equal_values, wrong_places
from minivllm.course.drive import machine_evidence
from minivllm.course.exercise import Exercise, Task
from minivllm.course.ladder import property_mismatches, property_pair
from minivllm.course.machine import Machine
from minivllm.course.mutation import Mutant
from minivllm.course.probe import Outcome, Probe, probes_of
from minivllm.course.report import Report
from minivllm.course.rules import has_rules, violations, watch, watched_probe

_LEAST_AGREEMENT = 0.75  # of the inputs on which the attempt or the mutant is wrong


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What an implementation did on one input.

    Attributes:
        is_wrong: Whether it differs from what is right.
        what: What it did.
        slack: How far values may be apart and still count as the same, for each.
    """

    is_wrong: bool
    what: tuple[Any, ...]
    slack: tuple[Any, ...] = ()


def evidence_of(task: Task, target: Any, probes: list[Probe]) -> list[Evidence]:
    """What an implementation does on every input of the exercise."""
    if isinstance(task, Machine):
        logs = machine_evidence(task, target)
        return [Evidence(is_wrong=is_wrong, what=log) for is_wrong, log in logs]
    if not isinstance(task, Exercise):
        return []
    found = [_of_probe(probe, probe.run(target)) for probe in probes]
    found += [_of_property(task, index, target) for index in range(len(task.properties))]
    if has_rules(task.rules):
        probe = watched_probe(task.rules, probes)
        broken = tuple(violations(task.rules, watch(target, probe), probe))
        found.append(Evidence(is_wrong=bool(broken), what=broken))
    return found


def _of_probe(probe: Probe, outcome: Outcome) -> Evidence:
    if outcome.error is not None:
        return _of_error(outcome.error)
    is_wrong = bool(outcome.changed) or next(probe.mismatches(outcome), None) is not None
    slack = (*probe.allowed, None)
    return Evidence(is_wrong=is_wrong, what=(*outcome.values, outcome.changed), slack=slack)


def _of_error(error: BaseException) -> Evidence:
    """An error with its message: the type alone would make all wrong shapes one mistake."""
    return Evidence(is_wrong=True, what=(type(error).__name__, str(error)))


def _of_property(task: Exercise, index: int, target: Any) -> Evidence:
    try:
        got, expected = property_pair(task, task.properties[index], target)
    except (Exception, SystemExit) as error:  # an implementation may raise anything
        return _of_error(error)
    is_wrong = next(property_mismatches(task, got, expected), None) is not None
    values = got if isinstance(got, tuple) else (got,)
    return Evidence(is_wrong=is_wrong, what=values, slack=(None,) * len(values))


def same(a: Evidence, b: Evidence) -> bool:
    """Whether two implementations did the same on an input."""
    if len(a.what) != len(b.what):
        return False
    slacks = a.slack or (None,) * len(a.what)
    return all(_same(x, y, s) for x, y, s in zip(a.what, b.what, slacks, strict=False))


def _same(x: Any, y: Any, slack: Tensor | None) -> bool:
    if not isinstance(x, Tensor) or not isinstance(y, Tensor):
        return equal_values(x, y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return False
    if not x.is_floating_point() or x.numel() == 0:
        return torch.equal(x, y)
    right = y.to(torch.float64)
    ulps = 16 * torch.finfo(x.dtype).eps * torch.nan_to_num(right, 0.0, 0.0, 0.0).abs().max()
    allowed = ulps.expand_as(right)
    if slack is not None and slack.shape == right.shape:
        allowed = torch.maximum(allowed, slack)
    return not bool(wrong_places(x, right, allowed).any())


def agreement(mine: list[Evidence], other: list[Evidence]) -> tuple[float, int]:
    """Share and number of the inputs where either is wrong and both did the same."""
    rows = [(a, b) for a, b in zip(mine, other, strict=True) if a.is_wrong or b.is_wrong]
    num_same = sum(a.is_wrong == b.is_wrong and same(a, b) for a, b in rows)
    return (num_same / len(rows) if rows else 0.0), num_same


class Bank:
    """The mutants of one exercise, and what each computes; worked out once, when first needed.

    Attributes:
        task: The exercise.
        probes: Its inputs, with the right answers; empty for a state machine.
    """

    def __init__(
        self, task: Task, mutants: Sequence[Mutant] = (), build: Callable[[Mutant], Any] = id
    ) -> None:
        self.task = task
        self.probes = probes_of(task) if isinstance(task, Exercise) else []
        self._mutants, self._build = mutants, build

    @cached_property
    def _evidence(self) -> list[tuple[Mutant, list[Evidence]]]:
        return [(m, evidence_of(self.task, self._build(m), self.probes)) for m in self._mutants]

    def rank(self, mine: list[Evidence]) -> list[tuple[float, int, Mutant]]:
        """Share and number of inputs that a mutant agrees on, best first."""
        found = []
        for mutant, evidence in self._evidence:
            share, number = agreement(mine, evidence)
            if share >= _LEAST_AGREEMENT and number:
                found.append((share, number, mutant))
        return sorted(found, key=lambda row: (-row[0], -row[1]))

    def name_mistake(self, report: Report, attempt: Attempt) -> Report:
        """The report with the most similar mutant named, if there is one."""
        if not self._mutants or not _ran(attempt):
            return report
        ranked = self.rank(evidence_of(self.task, attempt.target, self.probes))
        if not ranked:
            return report.as_unknown() if _has_a_difference(report) else report
        _, number, best = ranked[0]
        named = next((m for m in self._mutants if m.id == best.group), best)
        return report.with_likely(named.id, self._sentence(named.says, number), best.advice)

    def _sentence(self, says: str, number: int) -> str:
        is_machine = isinstance(self.task, Machine)
        what, unit = ("your class does", "trace") if is_machine else ("your output equals", "input")
        return f'{what} "{says}" on {number} {unit}{"s" if number != 1 else ""}'


def _has_a_difference(report: Report) -> bool:
    """Whether values were compared: a wrong shape or an error explains itself."""
    facts = report.failure.facts if report.failure is not None else ()
    return any(label in ("wrong", "differs") for label, _ in facts)


def _ran(attempt: Attempt) -> bool:
    try:
        attempt.target  # noqa: B018 - runs the file
    except (Exception, SystemExit):  # the learner's file: the report says so already
        return False
    return True
