"""Runs code that may do anything in a process of its own, with a limit on time and memory.

Where the system can fork, the child is a copy of this process: nothing is imported again. Where it
can't, or CUDA is running (which no copy may use), a fresh Python does the same work. Whatever
becomes of the child - a loop without end, a crash, `os._exit` - this process goes on.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal

import torch

Ending = Literal["done", "time", "crash", "left"]
Work = Callable[[Callable[[Any], None]], None]  # is given a function that sends a message

_MAX_PRINTED = 20_000  # bytes that are kept
_MAX_MEMORY = 3 * 2**30  # bytes that the child may use more than this process does
_POLL_SECONDS = 0.002
_FAILED = 70  # exit code of a child that raised


@dataclass(frozen=True, kw_only=True)
class Result:
    """What became of a child.

    Attributes:
        messages: What it sent, in order.
        ending: "done"; over the "time" limit; "crash", by a signal; "left" by exit code.
        code: The signal or exit code.
        printed: What it printed, cut to some thousand characters.
    """

    messages: tuple[Any, ...]
    ending: Ending
    code: int
    printed: str


class Sender:
    """Writes messages to a file, each whole or not at all."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def __call__(self, message: Any) -> None:
        """Send one message."""
        pickle.dump(message, self._file)
        self._file.flush()


def can_fork() -> bool:
    """Whether a copy of this process can do the work."""
    return hasattr(os, "fork") and not torch.cuda.is_initialized()


def run_forked(work: Work, *, seconds: float) -> Result:
    """Run `work(send)` in a copy of this process."""
    with tempfile.TemporaryFile() as messages:
        read_end, write_end = os.pipe()
        sys.stdout.flush()
        process_id = os.fork()
        if process_id == 0:
            os.close(read_end)
            _be_the_child(work, Sender(messages), write_end)
        os.close(write_end)
        printed = _Drain(os.fdopen(read_end, "rb"))
        ending, code = _wait_for(process_id, seconds)
        return Result(messages=_read(messages), ending=ending, code=code, printed=printed.finish())


def run_fresh(arguments: list[str], *, seconds: float) -> Result:
    """Run `python -m ... FILE` in a new process, which sends its messages to FILE."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "messages"
        path.touch()
        command = [sys.executable, "-m", *arguments, str(path)]
        child = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        assert isinstance(child.stdout, io.BufferedReader), "it was asked for a pipe"
        printed = _Drain(child.stdout)
        try:
            code = child.wait(seconds)
            ending: Ending = "done" if code == 0 else "crash" if code < 0 else "left"
        except subprocess.TimeoutExpired:
            child.kill()
            ending, code = "time", child.wait()
        with path.open("rb") as messages:
            found = _read(messages)
        return Result(messages=found, ending=ending, code=abs(code), printed=printed.finish())


def _be_the_child(work: Work, send: Sender, output: int) -> None:
    """Never returns: this process is a copy, and what called us must run only once."""
    code = _FAILED
    try:
        os.setsid()  # so that processes which the learner's code starts end with it
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        # A notebook's own streams need threads that this copy does not have.
        sys.stdin = os.fdopen(0, closefd=False)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False, errors="replace")
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        faulthandler.disable()  # it would write to the parent's terminal
        prepare()
        work(send)
        code = 0
    except BaseException:  # also SystemExit: the report says what it was
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)


def prepare() -> None:
    """Limit the memory, and use one thread."""
    _limit_memory()
    # The threads of the parent are not in this copy: to wait for them would be for ever.
    torch.set_num_threads(1)


def _limit_memory() -> None:
    pages = Path("/proc/self/statm")
    if not pages.exists():  # not Linux: the limit on address space does not work there
        return
    import resource

    used = int(pages.read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + _MAX_MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _wait_for(process_id: int, seconds: float) -> tuple[Ending, int]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found, status = os.waitpid(process_id, os.WNOHANG)
        if found:
            code = os.waitstatus_to_exitcode(status)
            _kill_group(process_id)
            ending: Ending = "done" if code == 0 else "crash" if code < 0 else "left"
            return ending, abs(code)
        time.sleep(_POLL_SECONDS)
    _kill_group(process_id)
    os.kill(process_id, signal.SIGKILL)
    os.waitpid(process_id, 0)
    return "time", 0


def _kill_group(process_id: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # nothing is left of it
        os.killpg(process_id, signal.SIGKILL)


class _Drain:
    """Reads what a child prints, so that it never waits, and keeps the beginning."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe, self._kept = pipe, bytearray()
        self._thread = threading.Thread(target=self._read_all, daemon=True)
        self._thread.start()

    def _read_all(self) -> None:
        with self._pipe as pipe:
            while data := pipe.read1(1 << 20):  # type: ignore[attr-defined]
                self._kept += data[: _MAX_PRINTED - len(self._kept)]

    def finish(self) -> str:
        self._thread.join(1.0)
        return bytes(self._kept).decode(errors="replace")


def _read(file: BinaryIO) -> tuple[Any, ...]:
    """The messages that are whole: a child may have died while writing the last."""
    file.seek(0)
    found = []
    while True:
        try:
            found.append(pickle.load(file))
        except (EOFError, pickle.UnpicklingError):
            return tuple(found)
