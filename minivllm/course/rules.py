"""The last rungs: what an exercise may use, and how much of it.

Next file to read: `spy.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from minivllm.course.attempt import Attempt, Rung, raised
from minivllm.course.exercise import Advice, Exercise, Rules
from minivllm.course.facts import call_facts
from minivllm.course.probe import Probe
from minivllm.course.report import Failure
from minivllm.course.spy import Spy

BANNED_ADVICE = Advice(
    look_at="the call that does the work for you", try_it="write its formula out by hand"
)


@dataclass(frozen=True)
class Watch:
    """What was seen while a probe ran."""

    spy: Spy
    num_lines: int
    num_launches: int
    error: BaseException | None


class LineCounter:
    """Counts the executed lines of one file inside a `with` block."""

    def __init__(self, filename: str) -> None:
        self._filename = filename
        self._before: Any = None
        self.count = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        """Python calls this at each line."""
        if frame.f_code.co_filename != self._filename:
            return None
        self.count += event == "line"
        return self

    def __enter__(self) -> LineCounter:
        self._before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(self._before)


class _CountedKernel:
    """A Triton kernel that counts how often it is launched."""

    def __init__(self, kernel: Any, launches: list[str]) -> None:
        self._kernel, self._launches = kernel, launches

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        launch = self._kernel[grid]

        def counted(*args: Any, **kwargs: Any) -> Any:
            self._launches.append(getattr(self._kernel, "__name__", "kernel"))
            return launch(*args, **kwargs)

        return counted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


@contextmanager
def counted_launches(namespace: dict[str, Any]) -> Iterator[list[str]]:
    """The names of the Triton kernels that are launched while the block runs, in order."""
    launches: list[str] = []
    # Both of Triton's kernel classes, compiled and interpreted, keep the function in `fn`.
    kernels = {
        name: value
        for name, value in namespace.items()
        if type(value).__module__.startswith("triton.") and hasattr(value, "fn")
    }
    namespace.update({name: _CountedKernel(k, launches) for name, k in kernels.items()})
    try:
        yield launches
    finally:
        namespace.update(kernels)


def filename_of(target: Any) -> str:
    """Where the code of a function or class is: of several, that of the first."""
    first = next(iter(vars(target).values())) if _is_many(target) else target
    code: CodeType | None = getattr(first, "__code__", None)
    if code is not None:
        return code.co_filename
    methods = (getattr(value, "__code__", None) for value in vars(first).values())
    return next((c.co_filename for c in methods if c is not None), "")


def _is_many(target: Any) -> bool:
    return type(target).__name__ == "SimpleNamespace"


def _namespace_of(target: Any) -> dict[str, Any]:
    first = next(iter(vars(target).values())) if _is_many(target) else target
    module = sys.modules.get(getattr(first, "__module__", ""))
    return module.__dict__ if module is not None else {}


def watched_probe(rules: Rules, probes: list[Probe]) -> Probe:
    """The probe that the rules are checked on."""
    if rules.on is not None:
        return next(probe for probe in probes if probe.case.name == rules.on)
    others = [probe for probe in probes if probe.case.kind != "hand"]
    return (others or probes)[-1]


def watch(target: Any, probe: Probe) -> Watch:
    """Run a probe under the eyes of spy and counters."""
    spy, counter = Spy(), LineCounter(filename_of(target))
    with counted_launches(_namespace_of(target)) as launches:
        outcome = probe.run(target, _both(counter, spy))
    return Watch(spy, counter.count, len(launches), outcome.error)


@contextmanager
def _both(counter: LineCounter, spy: Spy) -> Iterator[None]:
    with counter, spy:
        yield


def has_rules(rules: Rules) -> bool:
    """Whether anything is limited."""
    return rules != Rules(on=rules.on)


def violations(rules: Rules, seen: Watch, probe: Probe) -> Iterator[str]:
    """What was seen and is not allowed, in words."""
    spy, arguments = seen.spy, probe.arguments
    for banned in rules.banned:
        if spy.uses(banned):
            yield f"{banned} is called: right, but this exercise asks you to build it"
    if rules.no_square is not None and (squares := spy.squares(rules.no_square(arguments))):
        yield f"a tensor of shape {squares[0]} is made: two axes as long as the sequence"
    if rules.max_elements is not None:
        limit = rules.max_elements(arguments)
        if spy.largest > limit:
            yield f"a tensor of {spy.largest} elements is made; at most {limit} are allowed"
    counts = (
        (spy.num_ops, rules.max_ops, "operators run"),
        (seen.num_launches, rules.max_launches, "kernels are launched"),
        (seen.num_lines, rules.max_lines, "lines of yours are executed"),
    )
    for count, most, what in counts:
        if most is not None and count > most:
            yield f"{count} {what}; at most {most} are allowed"


def rule_rungs(exercise: Exercise, attempt: Attempt, probes: list[Probe]) -> list[Rung]:
    """One rung, or none where nothing is limited."""
    if not has_rules(exercise.rules):
        return []
    return [Rung("within the rules", partial(_obey, exercise.rules, attempt, probes))]


def _obey(rules: Rules, attempt: Attempt, probes: list[Probe]) -> Failure | None:
    probe = watched_probe(rules, probes)
    seen = watch(attempt.target, probe)
    call = call_facts(attempt, probe)
    if seen.error is not None:
        return raised(attempt, seen.error, call)
    found = list(violations(rules, seen, probe))
    if not found:
        return None
    facts = (*call, *(("rule", text) for text in found[:3]))
    return Failure(facts=facts, advice=BANNED_ADVICE if rules.banned else Advice())
