"""Runs the `minivllm` command: in this process, or in another one under a terminal."""

from __future__ import annotations

import io
import os
import pty
import select
import signal
import sys
import termios
import time
from typing import Any

import pytest

from minivllm import cli

DUMMY = ["--model", "dummy-qwen3", "--load-format", "dummy"]
_SECONDS = 60  # until a wait fails
_REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


@pytest.fixture
def run_cli(monkeypatch: Any, capfd: Any) -> Any:
    """Run the command in this process: its exit code, stdout and stderr."""

    def run(*arguments: str, stdin: str | bytes = "") -> tuple[int, str, str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data), encoding="utf-8"))
        monkeypatch.setattr(sys, "argv", ["minivllm", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capfd.readouterr()

    return run


class Terminal:
    """The command in a process of its own, with a terminal where keys can be pressed."""

    def __init__(self, *arguments: str) -> None:
        self._process_id, self._terminal = pty.fork()
        if self._process_id == 0:
            termios.tcsetwinsize(0, (24, 80))
            os.chdir(_REPOSITORY)
            os.environ["TERM"] = "dumb"
            # A program in the background of a script ignores Ctrl-C, and so would its children.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            command = [sys.executable, "-m", "minivllm.cli", *arguments]
            os.execv(sys.executable, command)
        self.shown = ""

    def press(self, keys: str) -> None:
        os.write(self._terminal, keys.encode())

    def press_until(self, keys: str, text: str) -> None:
        """Press `keys`, and again every second, until `text` is shown.

        Between writing its prompt and waiting for a key, Python's readline misses a signal: a
        person then presses Ctrl-C once more.
        """
        for _ in range(_SECONDS):
            self.press(keys)
            end = time.monotonic() + 1
            while text not in self.shown and (left := end - time.monotonic()) > 0:
                self.shown += self._read(left)
            if text in self.shown:
                self.wait_for(text)
                return
        raise AssertionError(f"{text!r} was not shown in {_SECONDS} s, but {self.shown!r}")

    def wait_for_any(self) -> None:
        """Read until something is shown that no `wait_for` has taken."""
        if not self.shown:
            self.shown = self._read(_SECONDS)
            assert self.shown, f"the command has ended, or showed nothing for {_SECONDS} s"

    def wait_for(self, text: str) -> str:
        """Read until `text` is shown; gives all up to its end, and takes that from `shown`."""
        deadline = time.monotonic() + _SECONDS
        while text not in self.shown:
            piece = self._read(max(0.0, deadline - time.monotonic()))
            assert piece, f"{text!r} was not shown in {_SECONDS} s, but {self.shown!r}"
            self.shown += piece
        end = self.shown.index(text) + len(text)
        before, self.shown = self.shown[:end], self.shown[end:]
        return before

    def end_input(self) -> None:
        """Press Ctrl-D at the next prompt.

        Pressed before it, the key is lost: it waits as an end of file, and readline, which then
        changes how the terminal reads, finds a NUL instead.
        """
        self.wait_for("> ")
        self.press("\x04")

    def wait_for_exit(self) -> int:
        """Read to the end; gives the exit code."""
        deadline = time.monotonic() + _SECONDS
        while piece := self._read(max(0.0, deadline - time.monotonic())):
            self.shown += piece
        if time.monotonic() >= deadline:
            os.kill(self._process_id, signal.SIGKILL)
        os.close(self._terminal)
        _, status = os.waitpid(self._process_id, 0)
        return os.waitstatus_to_exitcode(status)

    def _read(self, seconds: float) -> str:
        """What is shown next; empty at the end, or when nothing comes in time."""
        if not select.select([self._terminal], [], [], seconds)[0]:
            return ""
        try:
            return os.read(self._terminal, 4096).decode(errors="replace")
        except OSError:  # Linux says so at the end
            return ""
