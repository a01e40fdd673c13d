"""What a detective exercise is: a listing with one planted mistake. Which line, and why?

Next file to read: `mutation.py`.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minivllm.course.exercise import Task


@dataclass(frozen=True, kw_only=True)
class Detective(Task):
    """A function with a planted mistake; the learner answers `(line, reason)`.

    Attributes:
        listing: The function; its source is what the notebook shows, line 1 being `def`.
        culprit: Text that only the wrong line holds.
        fix: The right line, with its indentation.
        shows_bug: A function -> whether it has the bug: true of the listing, false once fixed.
        reasons: Letter -> a possible explanation.
        right: The letter of the right one.
        explain: Letter of a wrong reason -> why it is not the reason.
        lines: Text of a line -> why this line is right.
    """

    listing: Callable[..., Any]
    culprit: str
    fix: str
    shows_bug: Callable[[Callable[..., Any]], bool]
    reasons: Mapping[str, str]
    right: str
    explain: Mapping[str, str]
    lines: Mapping[str, str] = field(default_factory=dict)
    look_at: str = "what the symptom needs to come about: which value is wrong, or thrown away"
    try_it: str = "run planted(...) on the smallest input that shows the symptom"

    @property
    def source(self) -> list[str]:
        """The lines of the listing, without the decorators."""
        lines = textwrap.dedent(inspect.getsource(self.listing)).splitlines()
        first = next(i for i, line in enumerate(lines) if line.startswith("def "))
        return lines[first:]

    @property
    def culprit_line(self) -> int:
        """The number of the wrong line, from 1."""
        numbers = [i for i, line in enumerate(self.source, start=1) if self.culprit in line]
        assert len(numbers) == 1, f"{self.id}: {self.culprit!r} is on the lines {numbers}"
        return numbers[0]

    def fixed(self) -> Callable[..., Any]:
        """The listing with its wrong line replaced."""
        lines = self.source
        lines[self.culprit_line - 1] = self.fix
        namespace: dict[str, Any] = dict(inspect.getmodule(self.listing).__dict__)
        exec("\n".join(lines), namespace)
        function: Callable[..., Any] = namespace[self.listing.__name__]
        return function
