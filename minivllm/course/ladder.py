"""The rungs of a tensor exercise, from the shape of what comes back to the rules of the exercise.

Next file to read: `compare.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from minivllm.course.attempt import Attempt, Rung, first_rungs, raised, shortcut_rung
from minivllm.course.compare import Mismatch, allowed_error, compare_tensor, compare_value
from minivllm.course.exercise import Advice, Case, Exercise, Output, Property
from minivllm.course.facts import call_facts, mismatch_facts, property_facts
from minivllm.course.probe import Outcome, Probe, Settings
from minivllm.course.report import Failure
from minivllm.course.rules import rule_rungs
from minivllm.course.spy import Poison

_PROPERTY_SEED = 31


class Ladder:
    """The rungs of one attempt; each probe is run once."""

    def __init__(self, exercise: Exercise, attempt: Attempt, probes: list[Probe]) -> None:
        self._exercise, self._attempt, self._probes = exercise, attempt, probes
        self._outcomes: dict[Probe, Outcome] = {}

    def rungs(self) -> list[Rung]:
        """All of them, in order."""
        exercise, attempt = self._exercise, self._attempt
        rungs = first_rungs(attempt)
        first = [p for p in self._probes if p.case.kind != "adversarial"]
        rungs.append(Rung(self._returns(), partial(self._coarse, first, ("type", "shape"))))
        if any(isinstance(e, Tensor) for e in self._probes[0].expected):
            dtype = partial(self._coarse, first, ("dtype", "device"))
            rungs.append(Rung("dtype and device", dtype))
            rungs.append(Rung("finite", partial(self._coarse, first, ("nonfinite",))))
        for case in dict.fromkeys(probe.case for probe in self._probes):
            rungs.append(Rung(case.name, partial(self._case, case)))
        for item in exercise.properties:
            rungs.append(Rung(item.name, partial(self._property, item)))
        rungs.append(Rung("inputs not changed", self._untouched))
        rungs += rule_rungs(exercise, attempt, self._probes)
        if attempt.ready is None:
            rungs.append(shortcut_rung(attempt))
        return rungs

    def outcome(self, probe: Probe) -> Outcome:
        """What the attempt makes of a probe."""
        if probe not in self._outcomes:
            self._outcomes[probe] = probe.run(self._attempt.target)
        return self._outcomes[probe]

    def _returns(self) -> str:
        if len(self._exercise.output_list) > 1:
            return "returns values of the right kind and shape"
        expected = self._probes[0].expected[0]
        if isinstance(expected, Tensor):
            return "returns a tensor of the right shape"
        return f"returns {_article(type(expected).__name__)}"

    def _coarse(self, probes: list[Probe], problems: tuple[str, ...]) -> Failure | None:
        for probe in probes:
            if failure := self._judge(probe, problems):
                return failure
        return None

    def _case(self, case: Case) -> Failure | None:
        return self._coarse([p for p in self._probes if p.case is case], ())

    def _judge(self, probe: Probe, problems: tuple[str, ...]) -> Failure | None:
        """The failure of one probe, if its problem is one of those given, or any for none."""
        outcome = self.outcome(probe)
        call = call_facts(self._attempt, probe)
        if outcome.error is not None:
            failure = raised(self._attempt, outcome.error, call)
            return replace(failure, advice=probe.case.advice)
        if self._is_nothing(outcome):
            return Failure(is_unfilled=True, facts=(("returned", "None"),))
        for output, mismatch in probe.mismatches(outcome):
            if not problems or mismatch.problem in problems:
                if outcome.changed:  # the likely cause of the difference
                    return self._change(probe, outcome.changed[0])
                facts = (*call, *mismatch_facts(mismatch, output, probe, outcome))
                return Failure(facts=facts, advice=probe.case.advice)
        return None

    def _is_nothing(self, outcome: Outcome) -> bool:
        rows = zip(self._exercise.output_list, outcome.values, strict=True)
        return all(value is None for output, value in rows if not output.inplace) and not all(
            output.inplace for output in self._exercise.output_list
        )

    def _property(self, item: Property) -> Failure | None:
        try:
            got, expected = property_pair(self._exercise, item, self._attempt.target)
        except (Exception, SystemExit) as error:  # a learner's code may raise anything
            return raised(self._attempt, error, [("while", item.name)])
        for output, mismatch in property_mismatches(self._exercise, got, expected):
            advice = Advice(look_at=item.look_at, try_it=item.try_it)
            return Failure(facts=property_facts(item.name, output, mismatch), advice=advice)
        return None

    def _untouched(self) -> Failure | None:
        for probe in self._probes:
            for name in self.outcome(probe).changed:
                return self._change(probe, name)
        return None

    def _change(self, probe: Probe, name: str) -> Failure:
        facts = [*call_facts(self._attempt, probe)]
        facts.append(("changed", f"{name} is not the same after the call"))
        advice = Advice(
            look_at=f"what writes into {name}: +=, *=, {name}[...] =, and operations ending in _",
            try_it="y = x + 1 makes a new tensor; x += 1 changes x; x.float() may be x itself",
        )
        return Failure(facts=tuple(facts), advice=advice)


def _article(name: str) -> str:
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def property_pair(exercise: Exercise, item: Property, target: Any) -> tuple[Any, Any]:
    """The two results that must agree."""

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = (*args, *kwargs.values())
        if exercise.run is not None:
            return exercise.run(target, *arguments)
        return target(*arguments)

    settings = Settings()
    try:
        with torch.random.fork_rng(devices=[]), Poison():
            torch.manual_seed(_PROPERTY_SEED)
            return item.pair(call, torch.Generator().manual_seed(_PROPERTY_SEED))
    finally:
        settings.restore()


def property_mismatches(
    exercise: Exercise, got: Any, expected: Any
) -> Iterator[tuple[Output, Mismatch]]:
    """Where two results of the learner's own code differ by more than rounding."""
    outputs = [output for output in exercise.output_list if not output.inplace]
    both = (got, expected)
    is_many = all(isinstance(x, tuple) for x in both) or (
        # A function with several outputs may return them as a list.
        len(outputs) > 1 and all(isinstance(x, tuple | list) for x in both)
    )
    pairs = list(zip(got, expected, strict=False)) if is_many else [both]
    for index, (a, b) in enumerate(pairs):
        output = outputs[min(index, len(outputs) - 1)] if outputs else exercise.output_list[0]
        mismatch = _compare_rounded(a, b) if isinstance(b, Tensor) else compare_value(a, b)
        if mismatch is not None:
            yield output, mismatch


def _compare_rounded(got: Any, expected: Tensor) -> Mismatch | None:
    if not expected.is_floating_point():
        return compare_tensor(got, expected, torch.zeros(()), ())
    right = expected.to(torch.float64)
    # Both are rounded, each by a few units in the last place of the row's largest value.
    allowed = 4 * allowed_error(right, expected)
    return compare_tensor(got, right, allowed, (expected.dtype,))
