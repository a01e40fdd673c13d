"""The commands of the course: `check status next hint watch reset solution lab`.

What is shown goes to stdout. Exit code 1: something was checked and is not green.
Next file to read: `minivllm/course/checking.py`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minivllm.cli.options import output_file

if TYPE_CHECKING:
    from minivllm.course.exercise import Task

_Which = Annotated[
    str, typer.Argument(metavar="[NAME]", help="An exercise (ch01.rms_norm), a chapter, or all.")
]
_Exercise = Annotated[str, typer.Argument(metavar="NAME", help="An exercise: ch01.rms_norm.")]
_Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", metavar="", help="Show the traceback and what it prints.")
]


def _selected(name: str) -> list[Task]:
    from minivllm.course.registry import select

    try:
        return select(name)
    except ValueError as error:
        print(f"minivllm: {error}", file=sys.stderr)
        raise typer.Exit(2) from error


def _one(name: str) -> Task:
    tasks = _selected(name)
    if len(tasks) > 1:
        names = ", ".join(task.id for task in tasks)
        print(f"minivllm: name one exercise: {names}", file=sys.stderr)
        raise typer.Exit(2)
    return tasks[0]


_Save = Annotated[
    Path | None,
    output_file("Keep shapes, seeds and differences, no code: for the authors.", "--save"),
]


def check(name: _Which = "", verbose: _Verbose = False, save: _Save = None) -> None:
    """Check what you wrote: one exercise, a chapter, or everything."""
    from minivllm.course.checking import check_task
    from minivllm.course.render import render, summary

    reports = []
    for task in _selected(name):
        reports.append(check_task(task))
        print(render(reports[-1], verbose=verbose), flush=True)
    if len(reports) > 1:
        print(summary(reports))
    if save is not None:
        kept = [report.without_code() for report in reports if not report.passed]
        save.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    if not all(report.passed for report in reports):
        raise typer.Exit(1)


def status() -> None:
    """Show what is done, what has changed since, and what is left."""
    from minivllm.course.overview import status_text

    print(status_text())


def next() -> None:
    """Name the exercise that comes next, and where it is."""
    from minivllm.course.overview import next_text

    print(next_text())


def hint(name: _Exercise) -> None:
    """Show one more hint: there are three, the last is the most exact."""
    from minivllm.course.progress import record_hint

    task = _one(name)
    level = record_hint(task.id)
    print(f"{task.id}, hint {level} of {len(task.hints)}: {task.hints[level - 1]}")


def watch(name: _Which = "") -> None:
    """Check again whenever you save a file; Ctrl-C ends it."""
    from minivllm.course.checking import check_task
    from minivllm.course.render import render
    from minivllm.course.watching import changed_tasks

    tasks = _selected(name)
    print(f"watching {len(tasks)} exercises: save a file to check it, Ctrl-C to end", flush=True)
    for changed in changed_tasks(tasks):
        for task in changed:
            print(render(check_task(task)), flush=True)


def reset(
    name: Annotated[str, typer.Argument(metavar="NAME", help="An exercise or a chapter.")],
    update: Annotated[
        bool,
        typer.Option("--update", metavar="", help="Bring in a newer stub, and keep your code."),
    ] = False,
) -> None:
    """Put an exercise back as it was shipped; what you wrote is kept in .minivllm/backup."""
    from minivllm.course.files import reset_chapter, reset_task, update_chapter

    tasks = _selected(name)
    chapter = tasks[0].chapter
    try:
        if update:
            saved: Path | None
            saved, kept = update_chapter(chapter)
            print(f"{chapter} is up to date; kept: {', '.join(kept) or 'nothing'}")
        elif name == tasks[0].id:
            saved = reset_task(tasks[0])
            print(f"{name} is as it was shipped")
        else:
            saved = reset_chapter(chapter)
            print(f"{chapter} is as it was shipped")
    except (ValueError, SyntaxError) as error:
        print(f"minivllm: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    if saved is not None:
        print(f"what was there before: {saved}")


def solution(
    name: _Exercise,
    spoil: Annotated[
        bool, typer.Option("--spoil", metavar="", help="Show it before you have tried.")
    ] = False,
) -> None:
    """Show the solution beside yours: after a pass, or three honest attempts."""
    from minivllm.course.files import side_by_side
    from minivllm.course.overview import may_see_solution

    task = _one(name)
    if not spoil and (reason := may_see_solution(task)):
        print(f"minivllm: {reason}", file=sys.stderr)
        raise typer.Exit(1)
    print(side_by_side(task))


def lab() -> None:
    """Open the course in JupyterLab, at its first chapter."""
    import importlib.util
    import subprocess

    from minivllm.course.stubs import ROOT

    if importlib.util.find_spec("jupyterlab") is None:
        print("minivllm: JupyterLab is missing: pip install 'minivllm[course]'", file=sys.stderr)
        raise typer.Exit(1)
    notebook = ROOT / "notebooks" / "00_start_here.ipynb"
    command = [sys.executable, "-m", "jupyterlab", str(notebook)]
    raise typer.Exit(subprocess.run(command, cwd=ROOT, check=False).returncode)
