"""What a check found, as plain data: it crosses the border of a process.

`ladder.py`, `drive.py` and `inquest.py` make it, `render.py` shows it. Knows no tensor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from minivllm.course.exercise import NO_ADVICE, Advice

State = Literal["PASSED", "NOT YET", "NOT STARTED", "SKIPPED"]
Fact = tuple[str, str]  # a label, "pattern", and a text


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why a rung is red.

    Attributes:
        facts: What is shown, in this order.
        advice: What the failing case says to look at and try.
        trace: The learner's traceback; shown only if asked for.
        is_unfilled: Nothing has been written yet.
        likely: The id of the mutant that does the same, and a sentence that says so.
    """

    facts: tuple[Fact, ...] = ()
    advice: Advice = NO_ADVICE
    trace: str = ""
    is_unfilled: bool = False
    likely: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of one check.

    Attributes:
        task_id: The exercise.
        checks: The names of its rungs, in order; empty where it was not even begun.
        num_passed: How many rungs are green.
        file: Where the learner writes it, "exercises/ch01_layers.py".
        line: The line of its `def`.
        look_at: Of the exercise; the failure's advice is more specific.
        try_it: Likewise.
        printed: What the learner's code printed.
        seconds: How long it took.
        hint: The level of the hint that is shown next.
    """

    task_id: str
    state: State
    checks: tuple[str, ...] = ()
    num_passed: int = 0
    failure: Failure | None = None
    file: str = ""
    line: int = 1
    look_at: str = ""
    try_it: str = ""
    printed: str = ""
    seconds: float = 0.0
    hint: int = 1

    @property
    def passed(self) -> bool:
        """Whether every rung is green."""
        return self.state == "PASSED"

    def as_unknown(self) -> Report:
        """The same report, which says that no mistake of the bank does this."""
        assert self.failure is not None, "only a failure is unknown"
        fact = ("unknown", f"no known mistake does this; check {self.task_id} --save FILE keeps it")
        return replace(self, failure=replace(self.failure, facts=(*self.failure.facts, fact)))

    def without_code(self) -> dict[str, object]:
        """What may be sent to the authors: shapes, seed and difference, nothing of the code."""
        facts = self.failure.facts if self.failure is not None else ()
        return {
            "exercise": self.task_id,
            "state": self.state,
            "check": self.checks[self.num_passed] if self.num_passed < len(self.checks) else None,
            "facts": [list(fact) for fact in facts if fact[0] not in ("at", "unknown")],
        }

    def with_likely(self, mutant_id: str, sentence: str, advice: Advice) -> Report:
        """The same report, with the mistake named and its advice where it has some."""
        assert self.failure is not None, "only a failure has a likely mistake"
        old = self.failure.advice
        failure = replace(
            self.failure,
            likely=(mutant_id, sentence),
            advice=Advice(
                look_at=advice.look_at or old.look_at, try_it=advice.try_it or old.try_it
            ),
        )
        return replace(self, failure=failure)
