"""Probes: the inputs of an exercise with their right answers, and what an attempt makes of them.

A probe is one case with one seed. Its right answer and what may be wrong with it are worked out
once and serve the learner's attempt and every mutant. Next file to read: `ladder.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map

from minivllm.course.compare import (
    Mismatch,
    allowed_error,
    compare_tensor,
    compare_value,
    equal_values,
)
from minivllm.course.exercise import Arguments, Case, Exercise, Output
from minivllm.course.spy import Poison

NO_WATCHER: AbstractContextManager[Any] = nullcontext()
_FLOATS = (torch.float16, torch.bfloat16, torch.float32)


def copied(tree: Any) -> Any:
    """A copy whose tensors keep their strides, and share memory with no other."""
    return tree_map(_copy_leaf, tree)


def _copy_leaf(x: Any) -> Any:
    if not isinstance(x, Tensor):
        return copy.deepcopy(x)
    if x.is_contiguous():
        return x.clone()
    same = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=x.device)
    return same.copy_(x)


def in_float64(tree: Any) -> Any:
    """A copy in which every floating-point tensor is float64."""
    return tree_map(_widen, tree)


def _widen(x: Any) -> Any:
    if isinstance(x, Tensor) and x.dtype in _FLOATS:
        return x.to(torch.float64)
    return x.clone() if isinstance(x, Tensor) else copy.deepcopy(x)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What an attempt made of a probe.

    Attributes:
        values: One for each output of the exercise; empty if it raised something.
        error: What it raised.
        changed: The arguments that it changed and had no right to.
    """

    values: tuple[Any, ...] = ()
    error: BaseException | None = None
    changed: tuple[str, ...] = ()


class Settings:
    """Torch's settings as they are now, to be put back."""

    def __init__(self) -> None:
        self._dtype, self._is_grad = torch.get_default_dtype(), torch.is_grad_enabled()

    def restore(self) -> list[str]:
        """Put them back; gives the names of those that had been changed."""
        changed = []
        if torch.get_default_dtype() != self._dtype:
            changed.append("torch's default dtype")
            torch.set_default_dtype(self._dtype)
        if torch.is_grad_enabled() != self._is_grad:
            changed.append("torch's grad mode")
            torch.set_grad_enabled(self._is_grad)
        return changed


class Probe:
    """One case with one seed.

    Attributes:
        case: The case.
        seed: The seed.
        arguments: By name, in the order of the call; never given away, only copies.
    """

    def __init__(self, exercise: Exercise, case: Case, seed: int) -> None:
        self.exercise, self.case, self.seed = exercise, case, seed
        # Not all of a fixture comes from the generator that is handed in: seed the global one too.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.arguments: Arguments = case.make(torch.Generator().manual_seed(seed))

    @cached_property
    def expected(self) -> tuple[Any, ...]:
        """The right answers, in float64."""
        exercise = self.exercise
        if self.case.expected is not None:
            given = self.case.expected
            values = given if isinstance(exercise.outputs, tuple) else (given,)
            return tuple(in_float64(value) for value in values)
        return self._answers(exercise.oracle, in_float64(self.arguments))

    @cached_property
    def allowed(self) -> tuple[Any, ...]:
        """For each output how far off each place may be; `None` for what is no float tensor."""
        if self.case.expected is not None:
            return tuple(
                torch.full_like(e, self.case.atol) if isinstance(e, Tensor) else None
                for e in self.expected
            )
        reference = self.exercise.reference or self.exercise.oracle
        answers = self._answers(reference, copied(self.arguments))
        return tuple(
            allowed_error(e, r) if isinstance(e, Tensor) and e.is_floating_point() else None
            for e, r in zip(self.expected, answers, strict=True)
        )

    def work_out(self) -> None:
        """Compute the right answers now."""
        assert len(self.allowed) == len(self.expected), "there is one limit for each answer"

    def _answers(self, function: Callable[..., Any], arguments: Arguments) -> tuple[Any, ...]:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed)
            result = function(*arguments.values())
        return tuple(outputs_of(self.exercise, result, arguments))

    def dtypes(self, output: Output) -> tuple[torch.dtype, ...]:
        """The dtypes that are right for an output; empty if any is."""
        if output.dtype is not None:
            return output.dtype if isinstance(output.dtype, tuple) else (output.dtype,)
        floats = (
            x.dtype
            for x in self.arguments.values()
            if isinstance(x, Tensor) and x.is_floating_point()
        )
        first = next(floats, None)
        return () if first is None else (first,)

    def run(self, target: Any, watcher: AbstractContextManager[Any] = NO_WATCHER) -> Outcome:
        """What `target` makes of copies of the arguments; `watcher` is entered for the call."""
        arguments = copied(self.arguments)
        call = self.exercise.run
        settings = Settings()
        try:
            with torch.random.fork_rng(devices=[]), Poison():
                torch.manual_seed(self.seed)
                given = tuple(arguments.values())
                with watcher:
                    result = call(target, *given) if call is not None else target(*given)
        except (Exception, SystemExit) as error:  # a learner's code may raise anything
            return Outcome(error=error)
        finally:
            changed_settings = settings.restore()
        values = tuple(outputs_of(self.exercise, result, arguments))
        return Outcome(values=values, changed=(*self._changed(arguments), *changed_settings))

    def _changed(self, arguments: Arguments) -> Iterator[str]:
        may_change = {output.name for output in self.exercise.output_list if output.inplace}
        for name, before in self.arguments.items():
            if name not in may_change and not _is_untouched(before, arguments[name]):
                yield name

    def mismatches(self, outcome: Outcome) -> Iterator[tuple[Output, Mismatch]]:
        """What is wrong with each output, the first one first; of an outcome without error."""
        rows = zip(self.exercise.output_list, outcome.values, self.expected, strict=True)
        for index, (output, got, expected) in enumerate(rows):
            if mismatch := self._compare(index, output, got, expected):
                yield output, mismatch

    def _compare(self, index: int, output: Output, got: Any, expected: Any) -> Mismatch | None:
        if not isinstance(expected, Tensor):
            return compare_value(got, expected)
        if not expected.is_floating_point():
            dtypes = self.dtypes(output) if output.dtype is not None else (expected.dtype,)
            return compare_tensor(got, expected, torch.zeros(()), dtypes)
        if output.ignore is not None and isinstance(got, Tensor) and got.shape == expected.shape:
            got = torch.where(output.ignore(self.arguments), expected.to(got.dtype), got)
        return compare_tensor(got, expected, self.allowed[index], self.dtypes(output))


def outputs_of(exercise: Exercise, result: Any, arguments: Arguments) -> Iterator[Any]:
    """The outputs of a call, in the exercise's order: returned, or left in an argument."""
    returned = [output for output in exercise.output_list if not output.inplace]
    is_many = len(returned) > 1
    parts = list(result) if is_many and isinstance(result, tuple | list) else [result]
    for output in exercise.output_list:
        if output.inplace:
            yield _detached(arguments[output.name])
        else:
            yield _detached(parts.pop(0)) if parts else None


def _detached(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def _is_untouched(before: Any, after: Any) -> bool:
    if isinstance(before, int | float | str | bool | Tensor | list | tuple | dict | type(None)):
        return equal_values(after, before)
    return True  # an object of the author's: it knows what may be done with it


def probes_of(exercise: Exercise) -> list[Probe]:
    """All probes of an exercise: by hand, then random, then adversarial."""
    order = {"hand": 0, "sampled": 1, "adversarial": 2}
    cases = sorted(exercise.cases, key=lambda case: order[case.kind])
    return [Probe(exercise, case, seed) for case in cases for seed in case.seeds]
