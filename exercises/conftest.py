"""`pytest exercises`: one test for each check of each exercise; `-k ch01.rms_norm` chooses.

The checks of an exercise stop at the first that fails; those behind it are skipped as not reached.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from minivllm.course.checking import check_task
from minivllm.course.examine import check_names
from minivllm.course.exercise import Task
from minivllm.course.grade import attempt_of, grade
from minivllm.course.registry import chapters, exercise_folder, tasks_of
from minivllm.course.render import render
from minivllm.course.report import Report


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Every chapter file that has checks."""
    chapter = file_path.name.partition("_")[0]
    if file_path.suffix == ".py" and chapter in chapters():
        return Chapter.from_parent(parent, path=file_path)
    return None


class NotYet(Exception):
    """A check is red; the message is the report."""


class Graded:
    """An exercise, checked once, when the first of its tests runs."""

    def __init__(self, task: Task, folder: Path) -> None:
        self.task, self._folder = task, folder

    @cached_property
    def report(self) -> Report:
        """Of all its checks."""
        is_learners = self._folder.resolve() == exercise_folder().resolve()
        return check_task(self.task) if is_learners else grade(self.task, self._folder)


class Chapter(pytest.File):
    """A file of exercises."""

    def collect(self) -> Iterator[pytest.Item]:
        """A test for each check of each exercise in it."""
        for task in tasks_of(self.path.name.partition("_")[0]):
            graded = Graded(task, self.path.parent)
            names = check_names(attempt_of(task, self.path.parent))
            for number, name in enumerate(names):
                title = f"{task.id}: {number + 1} {name}"
                yield Check.from_parent(self, name=title, graded=graded, number=number)


class Check(pytest.Item):
    """One check."""

    def __init__(self, *, graded: Graded, number: int, **options: Any) -> None:
        super().__init__(**options)
        self._graded, self._number = graded, number

    def runtest(self) -> None:
        """Passed, red, or not reached."""
        report = self._graded.report
        if report.state == "SKIPPED":
            pytest.skip("needs a GPU")
        if report.passed or self._number < report.num_passed:
            return
        if self._number == report.num_passed:
            raise NotYet(f"\n{render(report)}")
        pytest.skip("not reached")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """The report, and no traceback of ours."""
        if isinstance(excinfo.value, NotYet):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """What the headline of a failure says."""
        return self.path, 0, self.name
