"""What a state machine exercise is: events that a class and an oracle get side by side.

Only the data; `drive.py` runs it. Next file to read: `detective.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minivllm.course.exercise import Task


@dataclass(frozen=True, init=False)
class Event:
    """A method and its arguments: `Event("append", 3)`. The arguments are plain data."""

    name: str
    args: tuple[Any, ...]

    def __init__(self, name: str, *args: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "args", args)

    def __str__(self) -> str:
        """As a call."""
        return f"{self.name}({', '.join(map(repr, self.args))})"


@dataclass(frozen=True)
class Trace:
    """Events from a start: one check."""

    name: str
    start: Mapping[str, Any]
    events: tuple[Event, ...]


@dataclass(frozen=True)
class Invariant:
    """What holds after each event: `holds(machine)` is true, and `name` says it in words."""

    name: str
    holds: Callable[[Any], bool]


@dataclass(frozen=True)
class Scaling:
    """An operation that takes as many steps in a large machine as in a small one.

    Attributes:
        name: What holds, "remove takes as long in a long queue".
        small: The start of the small machine.
        large: The start of the large one.
        events: A start -> the events that are measured.
        at_most: Steps in the large machine for each one in the small machine.
    """

    name: str
    small: Mapping[str, Any]
    large: Mapping[str, Any]
    events: Callable[[Mapping[str, Any]], tuple[Event, ...]]
    at_most: float = 2.0


def _construct(cls: Any, **start: Any) -> Any:
    return cls(**start)


def _call(machine: Any, event: Event) -> Any:
    return getattr(machine, event.name)(*event.args)


def _always(oracle: Any, event: Event) -> bool:
    del oracle, event
    return True


@dataclass(frozen=True, kw_only=True)
class Machine(Task):
    """A class whose objects have a state.

    Attributes:
        oracle: A class with the same methods, slow and obviously right.
        traces: Written by hand: the chapter's example first, then the adversarial ones.
        random_trace: Gives a trace; called `num_random` times, each time with its own seed.
        legal: (oracle, event) -> whether the event may happen now; others are left out.
        observe: Field -> how it is read; compared after each event, besides what the event returns.
        start: (class, **start) -> a machine.
        apply: (machine, event) -> what the event returns.
    """

    oracle: Callable[..., Any]
    traces: tuple[Trace, ...]
    random_trace: Callable[[random.Random], Trace] | None = None
    num_random: int = 30
    legal: Callable[[Any, Event], bool] = _always
    observe: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    invariants: tuple[Invariant, ...] = ()
    scaling: tuple[Scaling, ...] = ()
    start: Callable[..., Any] = _construct
    apply: Callable[[Any, Event], Any] = _call
