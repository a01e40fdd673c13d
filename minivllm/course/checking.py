"""Checks exercises and keeps the progress: what all four front ends call."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minivllm.course import progress
from minivllm.course.exercise import Task
from minivllm.course.grade import grade
from minivllm.course.registry import exercise_folder, file_of, is_solved
from minivllm.course.report import Report
from minivllm.course.source import code_hash


def check_task(task: Task) -> Report:
    """Check an exercise as it lies there now, and record it; solutions are not recorded.

    Raises:
        FileNotFoundError: The chapter's file is missing.
    """
    report = grade(task)
    if is_solved() or report.state == "SKIPPED":
        return report
    code = None if report.state == "NOT STARTED" else current_code(task)
    entry = progress.record_attempt(task.id, code, passed=report.passed)
    return replace(report, hint=min(entry.hints + 1, progress.MAX_HINTS))


def current_code(task: Task) -> str | None:
    """The hash of the exercise's code; `None` if there is no file, or no Python in it."""
    try:
        source = file_of(task.chapter, exercise_folder()).read_text(encoding="utf-8")
        return code_hash(source, task.names)
    except (FileNotFoundError, SyntaxError):
        return None


def standings(tasks: Iterable[Task]) -> dict[str, progress.Standing]:
    """Exercise -> how it stands, from what is recorded: nothing is run."""
    entries = progress.load()
    return {
        task.id: entries.get(task.id, progress.Entry()).standing(current_code(task))
        for task in tasks
    }
