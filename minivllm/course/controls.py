"""Negative controls: answers that are plainly wrong, which every tensor exercise must refuse.

A check that lets one of them pass proves nothing. Next file to read: `matrix.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from minivllm.course.exercise import Exercise
from minivllm.course.probe import Outcome, Probe

Spoil = Callable[[Any, Probe, int], Any]


def zeros(value: Any, probe: Probe, index: int) -> Any:
    """Zero everywhere."""
    del probe, index
    return torch.zeros_like(value) if isinstance(value, Tensor) else type(value)()


def identity(value: Any, probe: Probe, index: int) -> Any:
    """The first argument of the right shape, as it came in; zeros where there is none."""
    if not isinstance(value, Tensor):
        return next(iter(probe.arguments.values()))
    for given in probe.arguments.values():
        if isinstance(given, Tensor) and given.shape == value.shape:
            return given.to(value.dtype).clone()
    return zeros(value, probe, index)


def swapped_rows(value: Any, probe: Probe, index: int) -> Any:
    """The first two different rows of the right answer, along any axis, change places."""
    if not isinstance(value, Tensor):
        return zeros(value, probe, index)
    for axis in range(value.dim()):
        rows = value.movedim(axis, 0)
        for other in range(1, len(rows)):
            if not torch.equal(rows[0].nan_to_num(), rows[other].nan_to_num()):
                order = list(range(len(rows)))
                order[0], order[other] = other, 0
                return value.index_select(axis, torch.tensor(order))
    return zeros(value, probe, index)


CONTROLS: dict[str, Spoil] = {
    "zeros": zeros,
    "identity": identity,
    "one row swapped": swapped_rows,
}


def survivors(exercise: Exercise, probes: list[Probe], solution: Any) -> Iterator[tuple[str, str]]:
    """The controls that pass every case, and the output in which they are wrong.

    Args:
        exercise: The exercise.
        probes: Its inputs.
        solution: A right implementation, whose outputs are spoiled one at a time.
    """
    outcomes = [(probe, probe.run(solution)) for probe in probes]
    for name, spoil in CONTROLS.items():
        for index, output in enumerate(exercise.output_list):
            if not any(_is_refused(probe, outcome, spoil, index) for probe, outcome in outcomes):
                yield name, output.name


def _is_refused(probe: Probe, outcome: Outcome, spoil: Spoil, index: int) -> bool:
    values = list(outcome.values)
    values[index] = spoil(values[index], probe, index)
    return next(probe.mismatches(Outcome(values=tuple(values))), None) is not None
