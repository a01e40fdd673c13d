"""The kill matrix: which check catches each mutant, and whether the report names it.

python -m minivllm.course.build matrix      writes docs/kill_matrix.md
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minivllm.course.attempt import Attempt
from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.exercise import Task
from minivllm.course.grade import bank_of
from minivllm.course.mutation import Mutant
from minivllm.course.registry import (
    build_mutant,
    chapters,
    mutants_of,
    solution_of,
    tasks_of,
)
from minivllm.course.stubs import ROOT

PAGE = ROOT / "docs" / "kill_matrix.md"


@dataclass(frozen=True, kw_only=True)
class Row:
    """What became of one mutant.

    Attributes:
        killed_by: The name of the check that it fails; `None` if it passes all.
        named: The id of the mutant that the report names.
    """

    mutant: Mutant
    killed_by: str | None
    named: str | None

    @property
    def is_right(self) -> bool:
        """Caught and named as itself or its class; if it is declared equivalent, not caught."""
        if self.mutant.equivalent is not None:
            return self.killed_by is None
        return self.killed_by is not None and self.named == self.mutant.group


def row_of(mutant: Mutant, task: Task, bank: Bank, solution: str) -> Row:
    """Try one mutant."""
    attempt = Attempt(
        task=task,
        source=solution,
        stub=solution,
        file=mutant.id,
        path=mutant.id,
        ready=build_mutant(mutant, task, solution),
    )
    report = examine(attempt, bank)
    if report.passed:
        return Row(mutant=mutant, killed_by=None, named=None)
    likely = report.failure.likely if report.failure is not None else None
    return Row(
        mutant=mutant,
        killed_by=report.checks[report.num_passed],
        named=likely[0] if likely is not None else None,
    )


def rows_of(task: Task) -> Iterator[Row]:
    """A row for each mutant that can be tried here."""
    bank, solution = bank_of(task), solution_of(task)
    for mutant in mutants_of(task):
        if mutant.gpu is None:
            yield row_of(mutant, task, bank, solution)


def matrix_page() -> str:
    """The page of all chapters."""
    tasks = [task for chapter in chapters() for task in tasks_of(chapter) if mutants_of(task)]
    rows = {task.id: list(rows_of(task)) for task in tasks}
    sections = "".join(section(task, rows[task.id]) for task in tasks)
    return head([row for found in rows.values() for row in found]) + sections


def head(rows: list[Row]) -> str:
    """Title and counts."""
    wrong = [row for row in rows if row.mutant.equivalent is None]
    return (
        "# Kill matrix\n\n"
        "Every classic mistake in the bank is tried as if a learner had made it: which check "
        "catches it, and\nwhat the report says is likely. Written by "
        "`python -m minivllm.course.build matrix`.\n\n"
        f"{len(wrong)} mistakes, {sum(row.killed_by is not None for row in wrong)} caught, "
        f"{sum(row.is_right for row in wrong)} named "
        "(as themselves, or as one that computes the same).\n"
    )


def section(task: Task, rows: list[Row]) -> str:
    """The table of one exercise."""
    lines = [
        f"\n## {task.id}\n",
        "| mistake | what it computes | caught by | named |",
        "|---|---|---|---|",
    ]
    for row in rows:
        mutant = row.mutant
        caught = row.killed_by or (
            f"right here: {mutant.equivalent}" if mutant.equivalent else "**not caught**"
        )
        named = "" if mutant.equivalent else row.named or "not named"
        name = mutant.id.partition(".")[2]
        named = "yes" if named == mutant.id else named.partition(".")[2] or named
        lines.append(f"| `{name}` | {_cell(mutant.says)} | {_cell(caught)} | {named} |")
    gpu = [mutant for mutant in mutants_of(task) if mutant.gpu is not None]
    lines += [
        f"| `{m.id.partition('.')[2]}` | {_cell(m.says)} | GPU only: {_cell(m.gpu or '')} | |"
        for m in gpu
    ]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def build_matrix() -> list[Path]:
    """Write the page."""
    PAGE.write_text(matrix_page(), encoding="utf-8")
    return [PAGE]
