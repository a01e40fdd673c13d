"""What the tests of the grading machinery share: attempts at the demo chapter, in this process."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from demo import checks, mutants

from minivllm.course.attempt import Attempt
from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.exercise import Task
from minivllm.course.mutation import Mutant
from minivllm.course.registry import build_mutant, chapters, tasks_of
from minivllm.course.report import Report
from minivllm.course.stubs import blank_solution

SOLUTION = (Path(__file__).parent / "demo" / "ch90_demo.py").read_text()
STUB = blank_solution(SOLUTION, "ch90")
ATTEND, FREE_QUEUE, DETECTIVE = checks.attend, checks.free_queue, checks.detective
DEMO_MUTANTS: list[Mutant] = [
    *mutants.MUTANTS,
    *(value for value in vars(mutants).values() if isinstance(value, Mutant)),
]


def attempt(task: Task, source: str = SOLUTION, ready: Any = None) -> Attempt:
    return Attempt(
        task=task,
        source=source,
        stub=STUB,
        file="exercises/ch90_demo.py",
        path="/exercises/ch90_demo.py",
        ready=ready,
    )


def edited(*changes: tuple[str, str]) -> str:
    """The solution with each old text, which is there once, replaced."""
    source = SOLUTION
    for old, new in changes:
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return source


def bank(task: Task) -> Bank:
    mutants = [m for m in DEMO_MUTANTS if m.topic == task.topic and m.equivalent is None]
    return Bank(task, mutants, lambda mutant: build_mutant(mutant, task, SOLUTION))


def report_on(task: Task, *changes: tuple[str, str]) -> Report:
    return examine(attempt(task, edited(*changes)), bank(task))


def each_task() -> list[Any]:
    """Every exercise of every chapter that can be imported, as pytest parameters.

    One that can't is a failure of `test_the_chapter_can_be_imported`, and hides no other.
    """
    found = []
    for chapter in chapters():
        with contextlib.suppress(Exception):
            found += [pytest.param(task, id=task.id) for task in tasks_of(chapter)]
    return found
