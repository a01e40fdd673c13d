"""Drives a learner's class and the oracle through the same events, and shrinks what fails.

Next file to read: `inquest.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from minivllm.course.attempt import Attempt, Rung, first_rungs, raised, shortcut_rung
from minivllm.course.compare import equal_values
from minivllm.course.errors import ExerciseNotStarted
from minivllm.course.exercise import Advice
from minivllm.course.machine import Event, Machine, Scaling, Trace
from minivllm.course.probe import copied
from minivllm.course.report import Fact, Failure
from minivllm.course.rules import LineCounter, filename_of

_MAX_RUNS = 400  # of the shrinker
_SHOWN = 44  # characters of an event or value
Log = tuple[Any, ...]


@dataclass(frozen=True)
class Stop:
    """Where a trace went wrong.

    Attributes:
        step: Number of the event, from 1; 0 is the start.
        event: It as text.
        what: The field that differs, "returned", "raised" or "invariant".
    """

    step: int
    event: str
    what: str
    got: Any
    expected: Any
    error: BaseException | None = None


@dataclass(frozen=True)
class Drive:
    """What became of a trace: all that was seen, and the first difference."""

    log: Log
    stop: Stop | None


class _Side:
    """The learner's machine or the oracle's, and what it shows after an event."""

    def __init__(self, machine: Machine, cls: Any, start: Mapping[str, Any]) -> None:
        self._machine = machine
        self.error: BaseException | None = None
        self.state = self._guarded(lambda: machine.start(cls, **copied(dict(start))))[1]

    def happen(self, event: Event) -> dict[str, Any]:
        """What the event returns or raises, and every observed field after it."""
        kind, value = self._guarded(lambda: self._machine.apply(self.state, copied_event(event)))
        seen: dict[str, Any] = {kind: value}
        for field, read in self._machine.observe.items():
            seen[field] = self._guarded(partial(read, self.state))[1]
        return seen

    def broken(self) -> str | None:
        """The first invariant that does not hold."""
        for invariant in self._machine.invariants:
            if self._guarded(partial(invariant.holds, self.state)) != ("returned", True):
                return invariant.name
        return None

    def _guarded(self, action: Callable[[], Any]) -> tuple[str, Any]:
        try:
            return "returned", action()
        except ExerciseNotStarted:
            raise
        except (Exception, SystemExit) as error:  # a learner's code may raise anything
            self.error = error
            return "raised", type(error).__name__


def copied_event(event: Event) -> Event:
    """An event whose arguments nobody else holds."""
    return Event(event.name, *copied(list(event.args)))


def drive(machine: Machine, cls: Any, trace: Trace) -> Drive:
    """Both sides through one trace, up to its end or the first difference."""
    right = _Side(machine, machine.oracle, trace.start)
    assert right.error is None, f"{machine.id}: the oracle does not start: {right.error}"
    mine = _Side(machine, cls, trace.start)
    if mine.error is not None:
        name = type(mine.error).__name__
        stop = Stop(0, f"start {dict(trace.start)}", "raised", name, "a machine", mine.error)
        return Drive((name,), stop)
    log: list[Any] = []
    step = 0
    for event in trace.events:
        if not machine.legal(right.state, event):
            continue
        step += 1
        mine.error = None
        expected, got = right.happen(event), mine.happen(event)
        log.append((str(event), tuple(got.items())))
        if difference := _difference(got, expected):
            return Drive(tuple(log), Stop(step, str(event), *difference, mine.error))
        if broken := mine.broken():
            log.append(broken)
            return Drive(tuple(log), Stop(step, str(event), "invariant", "broken", broken))
    return Drive(tuple(log), None)


def _difference(got: dict[str, Any], expected: dict[str, Any]) -> tuple[str, Any, Any] | None:
    """The first field that differs, with both of its values."""
    for field, value in expected.items():
        if field not in got:  # one raised, the other returned
            kind = next(iter(got))
            return field, f"{kind} {got[kind]}", value
        if not equal_values(got[field], value):
            return field, got[field], value
    return None


def shrink(machine: Machine, cls: Any, trace: Trace) -> tuple[Trace, Stop]:
    """The fewest events that still fail: cut after the failure, then leave out what can be."""
    stop = drive(machine, cls, trace).stop
    assert stop is not None, "only a failing trace is shrunk"
    events = list(trace.events)
    size, num_runs = max(1, len(events) // 2), 0
    while size and num_runs < _MAX_RUNS:
        first = 0
        while first < len(events) and num_runs < _MAX_RUNS:
            shorter = Trace(trace.name, trace.start, tuple(events[:first] + events[first + size :]))
            num_runs += 1
            if found := drive(machine, cls, shorter).stop:
                events, stop = list(shorter.events), found
            else:
                first += size
        size //= 2
    return Trace(trace.name, trace.start, tuple(events)), stop


def legal_events(machine: Machine, trace: Trace) -> list[Event]:
    """Those of a trace that really happen."""
    right, events = _Side(machine, machine.oracle, trace.start), []
    for event in trace.events:
        if machine.legal(right.state, event):
            right.happen(event)
            events.append(event)
    return events


def random_traces(machine: Machine) -> list[Trace]:
    """The same ones every time."""
    if machine.random_trace is None:
        return []
    return [machine.random_trace(random.Random(seed)) for seed in range(machine.num_random)]


def machine_rungs(machine: Machine, attempt: Attempt) -> list[Rung]:
    """The rungs of a state machine."""
    rungs = first_rungs(attempt)
    for trace in machine.traces:
        rungs.append(Rung(trace.name, partial(_one_trace, machine, attempt, [trace])))
    if machine.random_trace is not None:
        name = f"{machine.num_random} random traces"
        traces = random_traces(machine)
        rungs.append(Rung(name, partial(_one_trace, machine, attempt, traces)))
    for scaling in machine.scaling:
        rungs.append(Rung(scaling.name, partial(_scales, machine, attempt, scaling)))
    if attempt.ready is None:
        rungs.append(shortcut_rung(attempt))
    return rungs


def _one_trace(machine: Machine, attempt: Attempt, traces: list[Trace]) -> Failure | None:
    try:
        for trace in traces:
            if drive(machine, attempt.target, trace).stop is not None:
                small, stop = shrink(machine, attempt.target, trace)
                return _failure(machine, attempt, small, stop)
    except ExerciseNotStarted as error:
        return raised(attempt, error)
    return None


def _failure(machine: Machine, attempt: Attempt, trace: Trace, stop: Stop) -> Failure:
    start = ", ".join(f"{key}={value!r}" for key, value in trace.start.items())
    events = legal_events(machine, trace)[: max(stop.step, 0)]
    facts: list[Fact] = [("start", f"{machine.names[-1]}({start})")]
    first = max(0, len(events) - 6)
    if first:
        facts.append(("step", f"1 to {first} as in the trace (-v shows them)"))
    for number, event in enumerate(events[first:], start=first + 1):
        facts.append(("step", f"{number}  {cut(str(event))}"))
    if stop.what == "invariant":
        facts.append(("broken", f"after step {stop.step}: {stop.expected}"))
    else:
        after = f"after step {stop.step}" if stop.step else "at the start"
        facts.append(("differs", f"{stop.what}, {after}"))
        pair = f"got {cut(_text(stop.got))}   expected {cut(_text(stop.expected))}"
        facts.append(("", pair))
    if stop.error is None:
        return Failure(facts=tuple(facts))
    return raised(attempt, stop.error, facts)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def cut(text: str) -> str:
    """No longer than a report has room for."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


class _Counted(int):
    """A number that counts how often it is compared; `list.remove` compares with each element."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        _Counted.comparisons += 1
        return int(self) == (int(other) if isinstance(other, int) else other)

    __hash__ = int.__hash__


def _work(machine: Machine, cls: Any, scaling: Scaling, start: Mapping[str, Any]) -> int:
    """Executed lines of the class's file and comparisons, for the events of a scaling check."""
    subject = machine.start(cls, **copied(dict(start)))
    events = [Event(e.name, *map(_counted, e.args)) for e in scaling.events(start)]
    _Counted.comparisons = 0
    with LineCounter(filename_of(cls)) as lines:
        for event in events:
            machine.apply(subject, event)
    return lines.count + _Counted.comparisons


def _counted(value: Any) -> Any:
    return _Counted(value) if type(value) is int else value


def scaling_steps(machine: Machine, cls: Any, scaling: Scaling) -> tuple[int, int]:
    """Steps in the small and in the large machine."""
    small, large = (_work(machine, cls, scaling, s) for s in (scaling.small, scaling.large))
    return small, large


def _scales(machine: Machine, attempt: Attempt, scaling: Scaling) -> Failure | None:
    try:
        small, large = scaling_steps(machine, attempt.target, scaling)
    except (Exception, SystemExit) as error:  # a learner's code may raise anything
        return raised(attempt, error, [("while", scaling.name)])
    if large <= scaling.at_most * max(small, 1):
        return None
    events = ", ".join(map(str, scaling.events(scaling.large)))
    facts = (
        ("call", cut(events)),
        ("small", f"{small} steps with {dict(scaling.small)}"),
        ("large", f"{large} steps with {dict(scaling.large)}"),
        ("wrong", f"{large / max(small, 1):.0f} times as many; at most {scaling.at_most:g} times"),
    )
    advice = Advice(look_at="what searches or shifts: `in`, `remove`, `index`, a loop over all")
    return Failure(facts=facts, advice=advice)


def machine_evidence(machine: Machine, cls: Any) -> list[tuple[bool, Log]]:
    """For each trace, and for each scaling check, whether it is wrong, and all that was seen."""
    found: list[tuple[bool, Log]] = []
    for trace in [*machine.traces, *random_traces(machine)]:
        seen = drive(machine, cls, trace)
        found.append((seen.stop is not None, seen.log))
    for scaling in machine.scaling:
        try:
            small, large = scaling_steps(machine, cls, scaling)
            is_slow = large > scaling.at_most * max(small, 1)
            found.append((is_slow, ("slow" if is_slow else "fast",)))
        except (Exception, SystemExit) as error:  # a mutant may raise anything
            found.append((True, (type(error).__name__,)))
    return found
