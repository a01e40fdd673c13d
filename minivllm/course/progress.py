"""How far the learner is: `.minivllm/progress.json` in the checkout, which git ignores.

Each write goes to a new file that then takes the old one's name: a kill in mid-write leaves the old
one. A file that can't be read is put aside, and a new one begun. `MINIVLLM_PROGRESS` names another
file.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock

from minivllm.course.stubs import ROOT

Standing = Literal["passed", "changed", "tried", "not started"]
MAX_HINTS = 3


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What is known of one exercise.

    Attributes:
        attempts: Checks that were not passed, of code that was new.
        hints: How many levels were shown.
        tried: The hash of the code that was checked last.
        passed: The hash of the code that passed last.
        first_pass: When it passed first, in seconds since 1970.
    """

    attempts: int = 0
    hints: int = 0
    tried: str | None = None
    passed: str | None = None
    first_pass: float | None = None

    def standing(self, code: str | None) -> Standing:
        """How the code as it is now stands; `None` is code that is unwritten or unreadable."""
        if self.passed is not None:
            return "passed" if code == self.passed else "changed"
        return "tried" if self.attempts else "not started"


def progress_file() -> Path:
    """Where it is kept."""
    return Path(os.environ.get("MINIVLLM_PROGRESS", ROOT / ".minivllm" / "progress.json"))


def load() -> dict[str, Entry]:
    """Exercise -> what is known of it."""
    path = progress_file()
    try:
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError):  # not JSON, or not ours
        path.replace(path.with_suffix(".damaged.json"))
        return {}


def _parse(data: Any) -> dict[str, Entry]:
    known = {field.name for field in fields(Entry)}
    return {
        task_id: Entry(**{key: value for key, value in entry.items() if key in known})
        for task_id, entry in data["exercises"].items()
    }


def _save(entries: dict[str, Entry]) -> None:
    path = progress_file()
    data = {"version": 1, "exercises": {key: asdict(entry) for key, entry in entries.items()}}
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, prefix="progress.", suffix=".new", delete=False, encoding="utf-8"
    ) as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.replace(file.name, path)


def _update(task_id: str, change: Callable[[Entry], Entry]) -> Entry:
    path = progress_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_suffix(".lock")):
        entries = load()
        entries[task_id] = change(entries.get(task_id, Entry()))
        _save(entries)
    return entries[task_id]


def record_attempt(task_id: str, code: str | None, *, passed: bool) -> Entry:
    """Note the result of a check of code with this hash; the same wrong code counts once.

    Args:
        task_id: The exercise.
        code: The hash; `None` if nothing was written.
        passed: Whether every check was green.
    """

    def change(old: Entry) -> Entry:
        if passed:
            first = old.first_pass or time.time()
            return replace(old, tried=code, passed=code, first_pass=first)
        is_new = code is not None and code != old.tried
        return replace(old, tried=code, attempts=old.attempts + is_new)

    return _update(task_id, change)


def record_hint(task_id: str) -> int:
    """Note that one more hint is shown; gives its level, from 1."""
    return _update(task_id, lambda old: replace(old, hints=min(old.hints + 1, MAX_HINTS))).hints
