"""An attempt at an exercise, and the rungs that every kind of exercise begins with.

A rung is a name and a function that gives a `Failure` or `None`. `climb` goes up until the first
red one. Next files to read: `ladder.py` for tensors, `drive.py` for state machines.
"""

from __future__ import annotations

import ast
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minivllm.course.errors import ExerciseNotStarted
from minivllm.course.exercise import Advice, Task
from minivllm.course.loading import run_source, take
from minivllm.course.report import Fact, Failure
from minivllm.course.source import imported, signature_problem, unfilled

LIBRARIES = ("transformers", "vllm", "flash_attn", "flashinfer", "xformers", "sglang")


@dataclass(frozen=True)
class Rung:
    """One check."""

    name: str
    climb: Callable[[], Failure | None]


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """What the learner wrote.

    Attributes:
        task: For which exercise.
        source: The text of the exercise file.
        stub: Its text as it is shipped.
        file: Its name as reports show it, "exercises/ch01_layers.py".
        path: Where tracebacks point to.
        ready: An implementation that needs no file: a mutant, in place of the learner's.
    """

    task: Task
    source: str
    stub: str
    file: str
    path: str
    ready: Any = None

    @cached_property
    def target(self) -> Any:
        """The function or class itself; the file is run when this is first asked for."""
        if self.ready is not None:
            return self.ready
        return take(run_source(self.source, self.path), self.task.names)


def first_rungs(attempt: Attempt) -> list[Rung]:
    """Is it there, does it take the right arguments, has anything been written?"""
    if attempt.ready is not None:
        return []
    return [
        Rung("exists, with the right signature", lambda: _signature(attempt)),
        Rung("attempted", lambda: _attempted(attempt)),
    ]


def _signature(attempt: Attempt) -> Failure | None:
    try:
        tree = ast.parse(attempt.source)
    except SyntaxError as error:
        line = (error.text or "").strip()
        where = f"line {error.lineno} of {attempt.file}"
        return Failure(facts=(("raised", f"SyntaxError: {error.msg}"), ("at", f"{where}: {line}")))
    problem = signature_problem(tree, ast.parse(attempt.stub), attempt.task.names)
    if problem is None:
        return None
    found, wanted = problem
    return Failure(facts=(("found", f"{found}, in {attempt.file}"), ("expected", wanted)))


def _attempted(attempt: Attempt) -> Failure | None:
    trees = ast.parse(attempt.source), ast.parse(attempt.stub)
    if missing := unfilled(*trees, attempt.task.names):
        return Failure(is_unfilled=True, facts=(("unwritten", ", ".join(missing)),))
    try:
        attempt.target  # noqa: B018 - runs the file
    except (Exception, SystemExit) as error:  # the file is the learner's: it may raise anything
        return raised(attempt, error)
    return None


def shortcut_rung(attempt: Attempt) -> Rung:
    """The exercise does not import what it rebuilds."""
    return Rung("built by yourself", lambda: _shortcut(attempt))


def _shortcut(attempt: Attempt) -> Failure | None:
    shipped = {name for name, _ in imported(ast.parse(attempt.stub))}
    package = attempt.task.package
    for name, line in imported(ast.parse(attempt.source)):
        is_library = name.lstrip(".").split(".")[0] in LIBRARIES
        is_own = package is not None and _reaches(name, package)
        if name not in shipped and (is_library or is_own):
            return Failure(
                facts=(
                    ("result", "right, but this exercise asks you to build it"),
                    ("found", f"line {line} of {attempt.file} imports {name}"),
                ),
                advice=Advice(
                    look_at="the import: the course compares with the finished part for you",
                    try_it="write the function out; use_mine in the notebook puts yours beside it",
                ),
            )
    return None


def _reaches(name: str, package: str) -> bool:
    """Whether importing `name` makes `package` available: itself, or the module it is in."""
    module = package.rpartition(".")[0]
    return name in (package, module, f"{module}.*") or name.startswith(package + ".")


def raised(attempt: Attempt, error: BaseException, call: Sequence[Fact] = ()) -> Failure:
    """The failure of code that raised something: what, and in which line of the learner's."""
    if isinstance(error, ExerciseNotStarted):
        return Failure(is_unfilled=True, facts=(("unwritten", str(error)),))
    message = " ".join(f"{type(error).__name__}: {error}".split())
    facts = [*call, ("raised", message)]
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if frame.filename == attempt.path]
    if own:
        facts.append(("at", f"line {own[-1].lineno} of {attempt.file}: {own[-1].line}"))
    trace = "".join(traceback.format_exception(error))
    return Failure(facts=tuple(facts), trace=trace)
