"""Grades a detective exercise: is it the right line, and the right reason?

A wrong answer is told why that line or reason is not it; never which one is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from minivllm.course.attempt import Attempt, Rung, first_rungs, raised
from minivllm.course.detective import Detective
from minivllm.course.report import Failure


def detective_rungs(task: Detective, attempt: Attempt) -> list[Rung]:
    """Answered, in the right form, the right line, the right reason."""
    return [
        *first_rungs(attempt),
        Rung("answers with (line, reason)", partial(_form, task, attempt)),
        Rung("the right line", partial(_line, task, attempt)),
        Rung("the right reason", partial(_reason, task, attempt)),
    ]


def _answer(attempt: Attempt) -> Any:
    """What was answered; "B" and " b" are the letter "b"."""
    answer = attempt.target()
    if isinstance(answer, tuple | list) and len(answer) == 2 and isinstance(answer[1], str):
        return answer[0], answer[1].strip().lower()
    return answer


def _form(task: Detective, attempt: Attempt) -> Failure | None:
    try:
        answer = _answer(attempt)
    except (Exception, SystemExit) as error:  # a learner's code may raise anything
        return raised(attempt, error)
    if answer is None:
        return Failure(is_unfilled=True, facts=(("returned", "None"),))
    is_pair = isinstance(answer, tuple | list) and len(answer) == 2
    is_letter = is_pair and isinstance(answer[1], str) and answer[1] in task.reasons
    if is_letter and type(answer[0]) is int:
        return None
    letters = ", ".join(f'"{letter}"' for letter in task.reasons)
    facts = (
        ("got", repr(answer)[:60]),
        ("expected", f"the number of a line, 1 to {len(task.source)}, and one of {letters}"),
    )
    return Failure(facts=facts)


def _line(task: Detective, attempt: Attempt) -> Failure | None:
    line = _answer(attempt)[0]
    if line == task.culprit_line:
        return None
    if not 1 <= line <= len(task.source):
        return Failure(facts=(("got", f"line {line} of a listing of {len(task.source)} lines"),))
    text = task.source[line - 1]
    notes = [note for part, note in task.lines.items() if part in text]
    facts = [("got", f"line {line}: {text.strip()}"), ("but", "this line is right")]
    if notes:
        facts.append(("why", notes[0]))
    return Failure(facts=tuple(facts))


def _reason(task: Detective, attempt: Attempt) -> Failure | None:
    reason = _answer(attempt)[1]
    if reason == task.right:
        return None
    facts = (
        ("line", "found"),
        ("got", f"{reason}: {task.reasons[reason]}"),
        ("but", task.explain[reason]),
    )
    return Failure(facts=facts)
