"""The command line: `minivllm demo | generate | chat | bench | doctor | fetch | trace`.

And of the course: `check | status | next | hint | watch | reset | solution | lab`.

What a model generates, or a command is asked for, goes to stdout, everything else to stderr.
Exit codes: 0, or 1 (a failure), 2 (a mistake in the command line), 130 (Ctrl-C).
Reading order: `app.py`, `options.py`, then a file for each command.
"""

from minivllm.cli.app import main

__all__ = ["main"]
