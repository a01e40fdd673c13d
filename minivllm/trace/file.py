"""A trace as a file: JSON Lines, a header and one event a line.

    {"minivllm_trace": 1, "step": 3, "num_blocks": 8, "block_size": 4}
    {"event": "RequestAdded", "step": 0, "request_id": "a", "num_prompt_tokens": 6}
    ...

What is loaded equals what was saved. Next file to read: `replay.py`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, get_args

from minivllm.outputs import FinishReason
from minivllm.trace import events
from minivllm.trace.events import Trace, TraceEvent

FORMAT_VERSION = 1
_HEADER = "minivllm_trace"


def save_trace(trace: Trace, path: str | Path) -> None:
    """Write `trace` to `path`: all of it, or, on an error, nothing.

    The lines go to a file beside it first, which takes its place only when complete: on a full
    disk, whatever was at `path` before is still there.

    Raises:
        OSError: It can't be written.
    """
    path = Path(path)
    header = {
        _HEADER: FORMAT_VERSION,
        "step": trace.step,
        "num_blocks": trace.num_blocks,
        "block_size": trace.block_size,
    }
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.unfinished")
    try:
        with unfinished.open("w", encoding="utf-8") as file:
            file.write(json.dumps(header) + "\n")
            for event in trace.events:
                file.write(json.dumps({"event": type(event).__name__, **asdict(event)}) + "\n")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def load_trace(path: str | Path) -> Trace:
    """The trace that `save_trace` wrote to `path`.

    Raises:
        OSError: It can't be read.
        ValueError: It is no trace, or damaged; the message names the line.
    """
    trace: Trace | None = None
    with Path(path).open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                trace = _with_line(trace, _parse_json(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    if trace is None:
        raise ValueError(f"{path} is empty: it is no trace, or was not written to its end")
    return trace


def _with_line(trace: Trace | None, line: dict[str, Any]) -> Trace:
    """The trace after one more line; the first one makes it."""
    if trace is None:
        return _parse_header(line)
    trace.add(_parse_event(line))
    return trace


def _parse_json(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"damaged, or not written to its end ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, found {value!r:.80}")
    return value


def _parse_header(line: dict[str, Any]) -> Trace:
    version = line.pop(_HEADER, None)
    if version is None:
        raise ValueError(f"no trace of minivllm: the first line has no {_HEADER!r}")
    if version != FORMAT_VERSION:
        raise ValueError(
            f"version {version!r} of the format, but this minivllm reads {FORMAT_VERSION}: "
            "record the trace again"
        )
    expected = {"step": "int", "num_blocks": "int | None", "block_size": "int | None"}
    return Trace(**_checked("header", line, expected))


def _parse_event(line: dict[str, Any]) -> TraceEvent:
    name = line.pop("event", None)
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"unknown event {name!r}; known are {', '.join(sorted(_KINDS))}")
    expected = {field.name: str(field.type) for field in fields(kind)}
    return kind(**_checked(name, line, expected))


def _checked(name: str, found: dict[str, Any], expected: dict[str, str]) -> dict[str, Any]:
    """The fields in `found`, if they are those in `expected` and of these types."""
    if found.keys() != expected.keys():
        raise ValueError(f"{name} has the fields {sorted(found)}, expected {sorted(expected)}")
    for field, kind in expected.items():
        if not _IS_A[kind](found[field]):
            raise ValueError(f"{name}: {field}={found[field]!r} is no {kind}")
    return {
        field: tuple(value) if isinstance(value, list) else value for field, value in found.items()
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# Not `TraceEvent.__subclasses__()`: slots=True makes each class twice, and the first one lingers.
_KINDS: dict[str, type[TraceEvent]] = {
    name: kind
    for name, kind in vars(events).items()
    if isinstance(kind, type) and issubclass(kind, TraceEvent) and kind is not TraceEvent
}
_IS_A: dict[str, Callable[[Any], bool]] = {
    "int": _is_count,
    "int | None": lambda value: value is None or _is_count(value),
    "float": lambda value: _is_count(value) or isinstance(value, float),
    "str": lambda value: isinstance(value, str),
    "FinishReason": lambda value: value in get_args(FinishReason),
    "tuple[int, ...]": lambda value: isinstance(value, list) and all(map(_is_count, value)),
}
