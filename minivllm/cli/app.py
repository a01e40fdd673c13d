"""The `minivllm` command: its subcommands, and what becomes of an error.

An error that a user can do something about is one line and no traceback; a traceback is a bug of
ours. Torch is imported inside the commands, so that `--help` is quick.
Next file to read: `options.py`.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from minivllm import __version__
from minivllm.cli.bench import bench
from minivllm.cli.chat import chat
from minivllm.cli.course import check, hint, lab, next, reset, solution, status, watch
from minivllm.cli.demo import demo
from minivllm.cli.doctor import doctor
from minivllm.cli.fetch import fetch
from minivllm.cli.generate import generate
from minivllm.cli.trace import trace
from minivllm.errors import (
    CheckpointError,
    ConfigError,
    EngineDeadError,
    ModelNotFoundError,
    RequestError,
)

_HELP_OPTIONS = {"help_option_names": ["--help", "-h"]}

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings=_HELP_OPTIONS,
)
_COMMANDS: list[Callable[..., None]] = [demo, generate, chat, doctor, fetch, trace]
_COURSE: list[Callable[..., None]] = [check, status, next, hint, watch, reset, solution, lab]
for _command in _COMMANDS:
    app.command()(_command)
for _command in _COURSE:
    app.command(rich_help_panel="Course")(_command)
app.add_typer(bench, name="bench")


def _show_version(is_asked: bool) -> None:
    if is_asked:
        print(f"minivllm {__version__}")
        raise typer.Exit


@app.callback()
def _minivllm(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_version,
            is_eager=True,
            metavar="",
            help="Show the version and exit.",
        ),
    ] = False,
) -> None:
    """A small, readable LLM inference engine."""


def main() -> None:
    """The `minivllm` command."""
    # OpenMP reads this when torch is imported. Its threads wait for each other by spinning; where
    # another program keeps a core busy, the demo then took 39 s instead of 4 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without UTF-8: "?", not an error
    try:
        try:
            app(prog_name="minivllm")
        finally:
            _flush_stdout()
    except BrokenPipeError:
        sys.exit(1)  # whoever read stdout has enough, as `head` does
    except (ConfigError, RequestError) as error:
        _fail(error, exit_code=2)
    except (ModelNotFoundError, CheckpointError, EngineDeadError, OSError) as error:
        _fail(error, exit_code=1)


def _flush_stdout() -> None:
    """Write what is buffered while an error can still be reported."""
    try:
        sys.stdout.flush()
    except OSError:
        # Python flushes once more when it ends: without this, it would fail once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


def _fail(error: Exception, exit_code: int) -> None:
    print(f"minivllm: {error}", file=sys.stderr)
    sys.exit(exit_code)
