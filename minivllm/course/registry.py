"""Finds exercises, their files and their mutants by name: nothing is registered anywhere.

A chapter is the modules `checks/chNN.py` and `mutants/chNN.py`, and the files `chNN_*.py` of the
exercise and solution folders. `MINIVLLM_EXERCISES` names another exercise folder: with
`MINIVLLM_EXERCISES=solutions` everything runs on the finished ones.
"""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from minivllm.course.exercise import Task
from minivllm.course.loading import run_source, take
from minivllm.course.mutation import Mutant
from minivllm.course.source import definitions
from minivllm.course.stubs import ROOT, blank_solution

SOLUTIONS = ROOT / "solutions"
_PACKAGE = Path(__file__).parent


def exercise_folder() -> Path:
    """Where the learner's files are."""
    return ROOT / os.environ.get("MINIVLLM_EXERCISES", "exercises")


def is_solved() -> bool:
    """Whether the finished exercises are being run: whatever does not pass is then an error."""
    return exercise_folder().name == "solutions"


def chapters() -> list[str]:
    """The chapters that have checks, in order."""
    return sorted(path.stem for path in (_PACKAGE / "checks").glob("ch*.py"))


@cache
def tasks_of(chapter: str) -> tuple[Task, ...]:
    """The exercises of a chapter, in the order in which they are declared."""
    module = importlib.import_module(f"minivllm.course.checks.{chapter}")
    return tuple(value for value in vars(module).values() if isinstance(value, Task))


def all_tasks() -> Iterator[Task]:
    """Every exercise of the course."""
    for chapter in chapters():
        yield from tasks_of(chapter)


def select(text: str) -> list[Task]:
    """The exercise "ch01.rms_norm", those of the chapter "ch01" or "1", or all for "".

    Raises:
        ValueError: There is none; the message names what is similar.
    """
    name = f"ch{int(text):02d}" if text.isdigit() else text
    chapter = name.partition(".")[0]
    near = tasks_of(chapter) if chapter in chapters() else () if name else tuple(all_tasks())
    if found := [task for task in near if name in ("", task.id, task.chapter)]:
        return found
    known = [*chapters(), *(task.id for task in all_tasks())]
    close = difflib.get_close_matches(name, known, n=1) or [
        task.id for task in all_tasks() if task.topic == name
    ]
    advice = f"did you mean {close[0]}?" if close else f"there are {', '.join(chapters())}"
    raise ValueError(f"no exercise or chapter {text!r}: {advice}")


def find(task_id: str) -> Task:
    """The exercise of this id.

    Raises:
        ValueError: There is none.
    """
    tasks = select(task_id)
    if len(tasks) != 1 or tasks[0].id != task_id:
        raise ValueError(f"{task_id!r} is a chapter: name one of {[task.id for task in tasks]}")
    return tasks[0]


def file_of(chapter: str, folder: Path) -> Path:
    """The chapter's file in an exercise or solution folder.

    Raises:
        FileNotFoundError: There is none.
    """
    paths = sorted(folder.glob(f"{chapter}_*.py"))
    if not paths:
        raise FileNotFoundError(
            f"{folder.name}/{chapter}_*.py is missing: minivllm reset {chapter}"
        )
    return paths[0]


def solution_of(task: Task) -> str:
    """The text of the solution file."""
    return file_of(task.chapter, SOLUTIONS).read_text(encoding="utf-8")


def stub_of(task: Task) -> str:
    """The text of the exercise file as it is shipped."""
    return blank_solution(solution_of(task), task.chapter)


def line_of(source: str, task: Task) -> int:
    """Where in a file the exercise begins; 1 if it is not there."""
    import ast

    node = definitions(ast.parse(source)).get(task.names[0])
    return node.lineno if node is not None else 1


@cache
def bank_of_chapter(chapter: str) -> tuple[Mutant, ...]:
    """Every mutant of a chapter."""
    if not (_PACKAGE / "mutants" / f"{chapter}.py").exists():
        return ()
    module = importlib.import_module(f"minivllm.course.mutants.{chapter}")
    found: dict[str, Mutant] = {}
    for value in vars(module).values():
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, Mutant):
                found[item.id] = item
    return tuple(found.values())


def mutants_of(task: Task) -> list[Mutant]:
    """The bank of an exercise."""
    return [mutant for mutant in bank_of_chapter(task.chapter) if mutant.topic == task.topic]


def build_mutant(mutant: Mutant, task: Task, solution: str) -> Any:
    """What the learner would have written: a function, a class, or an object of several.

    Raises:
        ValueError: An edit's old text is not there exactly once, or the new one is no Python.
    """
    if mutant.implementation is not None and mutant.replaces is None:
        return mutant.implementation
    name = f"<mutant {mutant.id}>"
    try:
        module: ModuleType = run_source(mutated(solution, mutant, task), name)
    except SyntaxError as error:
        raise ValueError(f"{mutant.id}: the edited solution is no Python: {error}") from error
    if mutant.replaces is not None:
        setattr(module, mutant.replaces, mutant.implementation)
    return take(module, task.names)


def mutated(solution: str, mutant: Mutant, task: Task) -> str:
    """The solution with the mutant's edits; text inside the exercise's own functions goes first.

    Raises:
        ValueError: An old text is not there exactly once.
    """
    import ast

    lines = solution.splitlines(keepends=True)
    nodes = definitions(ast.parse(solution))
    own = [nodes[name] for name in task.names]
    for old, new in mutant.edits:
        text = "".join(lines)
        spans = [(node.lineno - 1, node.end_lineno or 0) for node in own]
        parts = ["".join(lines[first:last]) for first, last in spans]
        if sum(part.count(old) for part in parts) == 1:
            first, last = next(s for s, part in zip(spans, parts, strict=True) if old in part)
            changed = "".join(lines[first:last]).replace(old, new)
            text = "".join(lines[:first]) + changed + "".join(lines[last:])
        elif text.count(old) == 1:
            text = text.replace(old, new)
        else:
            raise ValueError(f"{mutant.id}: {old!r} must occur once in the solution")
        lines = text.splitlines(keepends=True)
        own = [definitions(ast.parse(text))[name] for name in task.names]
    return "".join(lines)
