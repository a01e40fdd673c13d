"""Waits for files to be saved, and says which exercises are in them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from minivllm.course.exercise import Task
from minivllm.course.registry import exercise_folder, file_of

_INTERVAL = 0.2  # seconds between looks


def changed_tasks(tasks: Sequence[Task], interval: float = _INTERVAL) -> Iterator[list[Task]]:
    """Each time a file is saved, the exercises in it; without an end."""
    before = _stamps(tasks)
    while True:
        time.sleep(interval)
        now = _stamps(tasks)
        if changed := [t for t in tasks if now[t.chapter] not in (before[t.chapter], None)]:
            yield changed
        before = now


def _stamps(tasks: Sequence[Task]) -> dict[str, tuple[int, int] | None]:
    """For each chapter when its file was saved and how large it is; `None` while it is away."""
    return {chapter: _stamp(chapter) for chapter in dict.fromkeys(t.chapter for t in tasks)}


def _stamp(chapter: str) -> tuple[int, int] | None:
    try:
        path: Path = file_of(chapter, exercise_folder())
        found = path.stat()
    except FileNotFoundError:  # an editor may replace it just now
        return None
    return found.st_mtime_ns, found.st_size
