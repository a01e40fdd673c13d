"""Stops the planner's code at any chosen line, as a Ctrl-C or a failing machine would."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_CORE = os.path.join("minivllm", "core", "")


class InterruptError(Exception):
    """What `interrupt_after` raises."""


@contextmanager
def interrupt_after(num_lines: int) -> Iterator[None]:
    """Raise `InterruptError` once `num_lines` lines of `minivllm/core` have run."""
    lines_left = num_lines

    def on_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines_left
        if event == "line":
            lines_left -= 1
            if lines_left < 0:
                raise InterruptError
        return on_line

    def on_call(frame: FrameType, event: str, arg: Any) -> Any:
        return on_line if _CORE in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(on_call)
    try:
        yield
    finally:
        sys.settrace(before)
