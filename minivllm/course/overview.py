"""What is done and what comes next, as text; nothing is run to find out."""

from __future__ import annotations

from minivllm.course import progress
from minivllm.course.checking import standings
from minivllm.course.exercise import Task
from minivllm.course.registry import (
    all_tasks,
    chapters,
    exercise_folder,
    file_of,
    line_of,
    tasks_of,
)
from minivllm.course.stubs import ROOT

_ATTEMPTS_BEFORE_SOLUTION = 3
_MARKS: dict[progress.Standing, str] = {
    "passed": "[x]",
    "changed": "[~]",
    "tried": "[ ]",
    "not started": "[ ]",
}


def status_text() -> str:
    """Every exercise with its mark, and how many are done."""
    entries, lines, num_passed, total = progress.load(), [], 0, 0
    for chapter in chapters():
        found = standings(tasks_of(chapter))
        done = sum(standing == "passed" for standing in found.values())
        num_passed, total = num_passed + done, total + len(found)
        lines.append(f"{chapter}  {done} of {len(found)}")
        for task_id, standing in found.items():
            entry = entries.get(task_id, progress.Entry())
            lines.append(f"  {_MARKS[standing]} {task_id:<28}{_detail(standing, entry)}".rstrip())
    lines.append(f"{num_passed} of {total} exercises passed")
    return "\n".join(lines)


def _detail(standing: progress.Standing, entry: progress.Entry) -> str:
    if standing == "changed":
        return "changed since it passed: check it again"
    parts = []
    if entry.attempts:
        parts.append(f"{entry.attempts} attempt{'s' if entry.attempts != 1 else ''}")
    if entry.hints:
        parts.append(f"{entry.hints} hint{'s' if entry.hints != 1 else ''}")
    return ", ".join(parts)


def next_task() -> Task | None:
    """The first exercise that has not passed as it is now."""
    tasks = list(all_tasks())
    found = standings(tasks)
    return next((task for task in tasks if found[task.id] != "passed"), None)


def next_text() -> str:
    """Its id, its file and line, and its notebook."""
    task = next_task()
    if task is None:
        return "every exercise has passed"
    lines = [task.id]
    try:
        path = file_of(task.chapter, exercise_folder())
        line = line_of(path.read_text(encoding="utf-8"), task)
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        lines.append(f"  write     {shown}, line {line}")
    except (FileNotFoundError, SyntaxError) as error:
        lines.append(f"  write     {error}")
    for notebook in sorted((ROOT / "notebooks").glob(f"{task.chapter[2:]}_*.ipynb")):
        lines.append(f"  read      notebooks/{notebook.name}")
    lines.append(f"  then      minivllm check {task.id}")
    return "\n".join(lines)


def may_see_solution(task: Task) -> str | None:
    """Why it is not shown yet; `None` if it may be."""
    entry = progress.load().get(task.id, progress.Entry())
    if entry.passed is not None or entry.attempts >= _ATTEMPTS_BEFORE_SOLUTION:
        return None
    return (
        f"the solution is shown after a pass or {_ATTEMPTS_BEFORE_SOLUTION} attempts; "
        f"there were {entry.attempts}. To see it now: --spoil"
    )
