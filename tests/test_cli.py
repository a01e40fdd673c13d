"""The command line as a whole: help, version, exit codes, and the commands without an own file."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer.rich_utils
from command_line import run_cli as run_cli  # a fixture

from minivllm import __version__
from minivllm.cli import app, demo
from minivllm.hub import resolve_model

COURSE = ("check", "status", "next", "hint", "watch", "reset", "solution", "lab")
COMMANDS = ("demo", "generate", "chat", "bench", "doctor", "fetch", "trace", *COURSE)
BENCHMARKS = ("throughput", "latency", "prefix", "mixed", "planner", "cpu")


def test_help_names_the_commands_and_loads_no_torch():
    code = (
        "import sys; from minivllm import cli; sys.argv = ['minivllm', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit as e: print(e.code, 'torch' in sys.modules, 'gguf' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(command in run.stdout for command in COMMANDS)
    assert run.stdout.splitlines()[-1] == "0 False False"


def test_version(run_cli):
    assert run_cli("--version") == (0, f"minivllm {__version__}\n", "")


@pytest.mark.parametrize(
    "command",
    [*((name,) for name in COMMANDS), *(("bench", name) for name in BENCHMARKS)],
    ids=" ".join,
)
def test_help_of_each_command_fits_a_terminal_and_cuts_nothing_off(run_cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(typer.rich_utils, "MAX_WIDTH", 80)
    code, out, _ = run_cli(*command, "--help")
    assert code == 0
    assert "Usage: minivllm " + " ".join(command) in out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_no_command_shows_the_help_and_is_a_usage_error(run_cli):
    code, out, err = run_cli()
    assert code == 2
    assert "generate" in out + err


def test_an_unknown_command_is_a_usage_error(run_cli):
    code, out, err = run_cli("generat")
    assert (code, out) == (2, "")
    assert "generat" in err


@pytest.mark.parametrize("error", [OSError(28, "No space left on device", "out.json")])
def test_a_full_disk_is_one_line_and_exit_code_1(run_cli, monkeypatch, error):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(app, "app", fails)
    message = "minivllm: [Errno 28] No space left on device: 'out.json'\n"
    assert run_cli("fetch", "smollm2") == (1, "", message)


def test_a_bug_of_ours_keeps_its_traceback(run_cli, monkeypatch):
    def fails(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(app, "app", fails)
    with pytest.raises(ZeroDivisionError):
        run_cli("fetch", "smollm2")


def test_fetch_prints_the_folder(run_cli):
    folder = resolve_model("smollm2")
    assert run_cli("fetch", "smollm2")[:2] == (0, f"{folder}\n")


def test_demo_answers_and_gives_the_speed(run_cli, monkeypatch):
    monkeypatch.setattr(demo, "CHAT_PROMPTS", demo.CHAT_PROMPTS[:1])
    monkeypatch.setattr(demo, "TEXT_PROMPTS", demo.TEXT_PROMPTS[1:2])
    code, out, _ = run_cli("demo")
    assert code == 0
    story = out.split(f"{demo.CHAT_PROMPTS[0]}\n")[1]
    assert "dog" in story
    assert "kite" in story
    assert out.splitlines()[-1].startswith("2 prompts in one batch: ")
    assert out.splitlines()[-1].endswith(" tokens/s")


def test_dummy_demo_serves_every_prompt(run_cli, monkeypatch):
    monkeypatch.setattr(demo, "DUMMY_REPEATS", 2)
    code, out, _ = run_cli("demo", "--dummy")
    assert code == 0
    assert out.splitlines()[-1].startswith("4 prompts in one batch: ")
