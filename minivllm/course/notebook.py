"""What a notebook of the course uses; docs/writing_a_chapter.md shows each in a line.

Results are objects that show themselves: as HTML in a notebook, as text anywhere else.
Next file to read: `checking.py`.
"""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import torch

from minivllm.course import progress
from minivllm.course.checking import check_task, standings
from minivllm.course.detective import Detective
from minivllm.course.loading import run_source, take
from minivllm.course.overview import status_text
from minivllm.course.pictures import OKABE_ITO, explore, show
from minivllm.course.registry import chapters, exercise_folder, file_of, find, is_solved, tasks_of
from minivllm.course.render import PRE_STYLE, render, render_html
from minivllm.course.report import Report

__all__ = [
    "OKABE_ITO",
    "check",
    "explore",
    "hint",
    "hints",
    "listing",
    "planted",
    "predict",
    "setup",
    "show",
    "status",
    "use_mine",
]


class Shown:
    """A text that is its own representation, and HTML in a notebook."""

    def __init__(self, text: str, html_text: str | None = None) -> None:
        self._text = text
        self._html = html_text or f'<pre style="{PRE_STYLE}">{html.escape(text)}</pre>'

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        return self._html


class CheckFailed(AssertionError):
    """A check cell did not pass where every exercise is solved."""


def check(task_id: str) -> Shown:
    """Check what you wrote, as the file lies there now.

    Raises:
        CheckFailed: The solutions are being run, and this one does not pass.
        ValueError: There is no such exercise.
    """
    report: Report = check_task(find(task_id))
    if is_solved() and not report.passed:
        raise CheckFailed(f"\n{render(report, verbose=True)}")
    return Shown(render(report), render_html(report))


def hint(task_id: str) -> Shown:
    """One more hint; there are three, the last is the most exact."""
    task = find(task_id)
    level = progress.record_hint(task_id)
    return Shown(f"hint {level} of {len(task.hints)}: {task.hints[level - 1]}")


def hints(task_id: str) -> Shown:
    """All three hints, each folded until you open it."""
    texts = find(task_id).hints
    plain = "\n".join(f"hint {i}: {text}" for i, text in enumerate(texts, start=1))
    return Shown(plain, "".join(_fold(f"Hint {i}", text) for i, text in enumerate(texts, start=1)))


def status() -> Shown:
    """Which exercises of the course have passed: a bar for each chapter in a notebook."""
    rows = []
    for chapter in chapters():
        found = standings(tasks_of(chapter))
        done = sum(standing == "passed" for standing in found.values())
        left = ", ".join(task_id for task_id, standing in found.items() if standing != "passed")
        bar = f'<progress value="{done}" max="{len(found)}"></progress>'
        rows.append(
            f"<tr><th>{chapter}</th><td>{bar}</td><td>{done} of {len(found)}</td>"
            f"<td>{html.escape(f'left: {left}' if left else 'done')}</td></tr>"
        )
    return Shown(status_text(), f"<table>{''.join(rows)}</table>")


def setup(chapter: str, seed: int = 0) -> None:
    """Seed torch; print environment, device, seed and progress."""
    torch.manual_seed(seed)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU"
    found = standings(tasks_of(chapter))
    done = sum(standing == "passed" for standing in found.values())
    version = torch.__version__.split("+")[0]
    print(f"chapter {chapter[2:]} · PyTorch {version} on {device} · seed {seed}")
    print(f"exercises passed: {done} of {len(found)} (in {exercise_folder().name}/)")


def use_mine(task_id: str, otherwise: Any, *, ask: bool = False) -> Any:
    """Your own part if you ask for it and it has passed as it stands, else `otherwise`.

    Args:
        task_id: The exercise.
        otherwise: The package's own part.
        ask: Whether yours is wanted.
    """
    if not ask:
        return otherwise
    task = find(task_id)
    if not is_solved() and standings([task])[task_id] != "passed":
        print(f"{task_id} has not passed as it stands: the package's own part is used")
        return otherwise
    path = file_of(task.chapter, exercise_folder())
    print(f"{task_id}: your own part is used")
    return take(run_source(path.read_text(encoding="utf-8"), str(path)), task.names)


def predict(question: str, *, right: str, **choices: tuple[str, str]) -> Shown:
    """A question with its choices; each is folded over what is right or wrong about it.

    Args:
        question: The question.
        right: The letter of the right choice.
        **choices: Letter -> the choice, and what to say to those who took it.

    Raises:
        ValueError: The right letter is no choice.
    """
    if right not in choices:
        raise ValueError(f"{right=} is none of {', '.join(choices)}")
    plain, folded = [question], [f"<p><b>{html.escape(question)}</b></p>"]
    for letter, (choice, answer) in choices.items():
        verdict = "Right." if letter == right else "Not quite."
        plain.append(f"  {letter}  {choice}")
        folded.append(_fold(f"{letter}: {choice}", f"{verdict} {answer}"))
    return Shown("\n".join(plain), "".join(folded))


def _fold(title: str, text: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary><p>{html.escape(text)}</p></details>"


def listing(task_id: str) -> Shown:
    """The listing of a detective exercise, with line numbers, and the reasons to choose from."""
    task = _detective(task_id)
    lines = [f"{i:>3}  {line}" for i, line in enumerate(task.source, start=1)]
    reasons = [f"{letter}  {text}" for letter, text in task.reasons.items()]
    return Shown("\n".join([*lines, "", *reasons]))


def planted(task_id: str) -> Callable[..., Any]:
    """The function of a detective exercise, mistake and all, to be run."""
    return _detective(task_id).listing


def _detective(task_id: str) -> Detective:
    task = find(task_id)
    if not isinstance(task, Detective):
        raise ValueError(f"{task_id} is no detective exercise")
    return task
