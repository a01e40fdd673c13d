"""Checks one exercise: reads the learner's file, examines it in a guarded process, reports.

`python -m minivllm.course.grade ID FOLDER FILE` does the examination in a fresh process, and leaves
its reports in FILE. Next file to read: `examine.py`.
"""

from __future__ import annotations

import signal
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minivllm.course.attempt import Attempt
from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.exercise import Task
from minivllm.course.guard import Result, Sender, can_fork, prepare, run_forked, run_fresh
from minivllm.course.registry import (
    build_mutant,
    exercise_folder,
    file_of,
    find,
    line_of,
    mutants_of,
    solution_of,
    stub_of,
)
from minivllm.course.report import Failure, Report
from minivllm.course.stubs import ROOT

_IMPORT_SECONDS = 30.0  # that a fresh process may need before it begins


def attempt_of(task: Task, folder: Path) -> Attempt:
    """What the learner wrote in this folder.

    Raises:
        FileNotFoundError: The chapter's file is missing.
    """
    path = file_of(task.chapter, folder)
    is_own = path.is_relative_to(ROOT)
    return Attempt(
        task=task,
        source=path.read_text(encoding="utf-8"),
        stub=stub_of(task),
        file=path.relative_to(ROOT).as_posix() if is_own else f"{path.parent.name}/{path.name}",
        path=str(path),
    )


def grade(task: Task, folder: Path | None = None) -> Report:
    """The report on an exercise as it lies in the exercise folder now.

    Raises:
        FileNotFoundError: The chapter's file is missing.
        RuntimeError: The checks themselves failed: a bug of the course.
    """
    folder = folder or exercise_folder()
    attempt = attempt_of(task, folder)
    if task.gpu and not torch.cuda.is_available():
        return _placed(Report(task_id=task.id, state="SKIPPED"), attempt)
    start = time.perf_counter()
    if can_fork() and not task.gpu:
        result = run_forked(lambda send: _examine(attempt, send), seconds=task.seconds)
    else:
        arguments = ["minivllm.course.grade", task.id, str(folder)]
        result = run_fresh(arguments, seconds=task.seconds + _IMPORT_SECONDS)
    report = _placed(_judged(task, result), attempt)
    return replace(report, printed=result.printed, seconds=time.perf_counter() - start)


def _examine(attempt: Attempt, send: Sender | Any) -> None:
    send(examine(attempt, bank_of(attempt.task), send))


def bank_of(task: Task) -> Bank:
    """The mutants of an exercise, but for those that are right or need a GPU."""
    mutants = [
        mutant
        for mutant in mutants_of(task)
        if mutant.equivalent is None and (mutant.gpu is None or torch.cuda.is_available())
    ]
    return Bank(task, mutants, lambda mutant: build_mutant(mutant, task, solution_of(task)))


def _placed(report: Report, attempt: Attempt) -> Report:
    try:
        line = line_of(attempt.source, attempt.task)
    except SyntaxError:  # the report says so
        line = 1
    return replace(report, file=attempt.file, line=line)


def _judged(task: Task, result: Result) -> Report:
    """The last report of the child, or, where it did not get so far, how it ended."""
    if not result.messages:
        if result.ending == "time":
            raise RuntimeError(f"{task.id}: the checks did not begin within {task.seconds:g} s")
        raise RuntimeError(f"{task.id}: the checks themselves failed:\n{result.printed}")
    last: Report = result.messages[-1]
    if last.failure is not None and last.state == "NOT YET" and result.ending == "time":
        late = ("likely", f"not looked for to the end: {task.seconds:g} s were over")
        return replace(last, failure=replace(last.failure, facts=(*last.failure.facts, late)))
    if last.state != "NOT YET" or last.failure is not None:
        return last
    left = ("ended", f"the code ended its own process (exit code {result.code})")
    facts = {
        "time": ("stopped", f"no end after {task.seconds:g} s: a loop of yours may not end"),
        "crash": ("crashed", f"{_signal_name(result.code)}: Python itself was ended"),
        "left": left,
        "done": left,  # with exit code 0, but before its report
    }
    return replace(last, failure=Failure(facts=(facts[result.ending],), trace=result.printed))


def _signal_name(code: int) -> str:
    try:
        return signal.Signals(code).name
    except ValueError:
        return f"signal {code}"


def main(arguments: list[str]) -> int:
    """Examine in this process."""
    task_id, folder, messages = arguments
    task = find(task_id)
    with Path(messages).open("ab") as file:
        if not task.gpu:
            prepare()
        _examine(attempt_of(task, Path(folder)), Sender(file))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
