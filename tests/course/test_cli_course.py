"""The commands of the course: `check status next hint watch reset solution lab`."""

from __future__ import annotations

import json
import subprocess
import threading
import time

import pytest
from command_line import run_cli as run_cli  # a fixture

from minivllm.cli import course
from minivllm.course import progress
from minivllm.course.registry import find, solution_of, stub_of
from minivllm.course.watching import changed_tasks

NAME = "ch00.blocks_needed"
TASK = find(NAME)
RIGHT = solution_of(TASK)
WRONG = RIGHT.replace(" + block_size - 1", "")


@pytest.fixture
def file(tmp_path, monkeypatch):
    folder = tmp_path / "exercises"
    folder.mkdir()
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(folder))
    path = folder / "ch00_start_here.py"
    path.write_text(stub_of(TASK))
    return path


def test_check_of_a_stub_is_three_lines_and_exit_code_1(file, run_cli):
    code, out, err = run_cli("check", NAME)
    assert (code, len(out.splitlines()), err) == (1, 3, "")
    assert "NOT STARTED" in out


def test_check_goes_from_red_to_green(file, run_cli):
    file.write_text(WRONG)
    code, out, _ = run_cli("check", NAME)
    assert code == 1
    assert "blocks_needed.floor" in out
    file.write_text(RIGHT)
    code, out, _ = run_cli("check", "0")
    assert code == 0
    assert "PASSED" in out.splitlines()[0]


def test_check_shows_the_traceback_only_if_asked(file, run_cli):
    file.write_text(RIGHT.replace("return (", "return missing("))
    assert "Traceback" not in run_cli("check", NAME)[1]
    assert "Traceback" in run_cli("check", NAME, "-v")[1]


def test_check_keeps_what_is_wrong_without_code(file, run_cli, tmp_path):
    file.write_text(WRONG)
    run_cli("check", NAME, "--save", str(tmp_path / "kept.json"))
    (kept,) = json.loads((tmp_path / "kept.json").read_text())
    assert kept["exercise"] == NAME
    assert "//" not in json.dumps(kept)


@pytest.mark.parametrize("command", ["check", "hint", "reset", "solution", "watch"])
def test_an_unknown_name_is_a_usage_error(file, run_cli, command):
    code, _, err = run_cli(command, "ch00.blocks_neded")
    assert code == 2
    assert "did you mean ch00.blocks_needed?" in err


def test_status_shows_passed_changed_and_tried(file, run_cli):
    assert f"[ ] {NAME}" in run_cli("status")[1]
    file.write_text(RIGHT)
    run_cli("check", NAME)
    assert f"[x] {NAME}" in run_cli("status")[1]
    file.write_text(WRONG)
    out = run_cli("status")[1]
    assert f"[~] {NAME}" in out
    assert "changed since it passed" in out


def test_next_names_file_and_line_until_it_passes(file, run_cli):
    out = run_cli("next")[1]
    assert out.startswith(NAME)
    assert "ch00_start_here.py, line 8" in out
    file.write_text(RIGHT)
    run_cli("check", NAME)
    assert not run_cli("next")[1].startswith(NAME)


def test_hints_come_one_after_the_other_and_are_counted(file, run_cli):
    texts = [run_cli("hint", NAME)[1] for _ in range(4)]
    assert [f"hint {i} of 3" in text for i, text in zip((1, 2, 3, 3), texts, strict=True)] == [
        True
    ] * 4
    file.write_text(WRONG)
    assert "(3 of 3)" in run_cli("check", NAME)[1]


def test_the_solution_waits_for_three_honest_attempts(file, run_cli):
    code, out, err = run_cli("solution", NAME)
    assert (code, out) == (1, "")
    assert "--spoil" in err
    for number in range(3):
        file.write_text(WRONG.replace("// block_size", f"// block_size + {number + 3}"))
        run_cli("check", NAME)
        run_cli("check", NAME)  # the same code again: no attempt
        assert run_cli("solution", NAME)[0] == (0 if number == 2 else 1)


def test_the_solution_is_shown_after_a_pass_or_when_spoiled(file, run_cli):
    assert "(num_tokens + block_size - 1)" in run_cli("solution", NAME, "--spoil")[1]
    progress.record_attempt(NAME, "x", passed=True)
    assert run_cli("solution", NAME)[0] == 0


def test_reset_says_where_the_old_code_is(file, run_cli):
    file.write_text(WRONG)
    code, out, _ = run_cli("reset", NAME)
    assert code == 0
    assert "backup" in out
    assert 'raise ExerciseNotStarted("ch00.blocks_needed")' in file.read_text()
    file.write_text(WRONG)
    assert "kept: blocks_needed" in run_cli("reset", "ch00", "--update")[1]
    assert "// block_size" in file.read_text()
    run_cli("reset", "ch00")
    assert file.read_text() == stub_of(TASK)


def test_a_missing_file_is_one_line_that_says_what_to_do(file, run_cli):
    file.unlink()
    code, _, err = run_cli("check", NAME)
    assert code == 1
    assert err.count("\n") == 1
    assert "minivllm reset ch00" in err


def test_solutions_leave_the_progress_alone(run_cli, monkeypatch):
    monkeypatch.setenv("MINIVLLM_EXERCISES", "solutions")
    assert run_cli("check", NAME)[0] == 0
    assert progress.load() == {}


def test_watch_sees_each_save_and_what_is_in_the_file(file):
    changes = changed_tasks([TASK], interval=0.01)
    found = []
    thread = threading.Thread(target=lambda: found.append(next(changes)), daemon=True)
    thread.start()
    time.sleep(0.2)
    assert found == []
    file.write_text(WRONG)
    thread.join(5)
    assert found == [[TASK]]


def test_watch_prints_a_report_for_each_save(file, run_cli, monkeypatch):
    monkeypatch.setattr("minivllm.course.watching.changed_tasks", lambda tasks: iter([tasks]))
    out = run_cli("watch", NAME)[1]
    assert out.startswith("watching 1 exercise")
    assert "NOT STARTED" in out


def test_lab_opens_the_first_chapter(run_cli, monkeypatch):
    commands = []

    def run(command, **_):
        commands.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    assert run_cli("lab")[0] == 0
    assert commands[0][1:3] == ["-m", "jupyterlab"]
    assert commands[0][3].endswith("notebooks/00_start_here.ipynb")


@pytest.mark.parametrize(
    "command", ["check", "status", "next", "hint", "watch", "reset", "solution", "lab"]
)
def test_help_fits_a_terminal(run_cli, monkeypatch, command):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = run_cli(command, "--help")
    assert code == 0
    assert course.__dict__[command].__doc__.split(":")[0].split(";")[0][:20] in out
    assert max(map(len, out.splitlines())) <= 80
