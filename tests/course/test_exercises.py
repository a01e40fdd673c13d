"""What an exercise's check says: not started, not yet, passed."""

from __future__ import annotations

import subprocess
import sys

import pytest

from minivllm.course.exercises import check, load_exercise
from minivllm.course.stubs import ROOT, blank_solution

CASES = [((0, 4), 0), ((1, 4), 1), ((4, 4), 1), ((5, 4), 2), ((2**60 + 1, 2), 2**59 + 1)]


@pytest.fixture
def exercise_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(tmp_path))
    return tmp_path


def test_the_stub_is_not_started(exercise_folder):
    stub = blank_solution((ROOT / "solutions" / "ch00_start_here.py").read_text(), "ch00")
    (exercise_folder / "ch00_start_here.py").write_text(stub)
    mine = load_exercise("ch00_start_here")
    assert check(mine.blocks_needed, CASES) == "ch00.blocks_needed: NOT STARTED"


def test_the_solution_passes(monkeypatch):
    monkeypatch.setenv("MINIVLLM_EXERCISES", "solutions")
    mine = load_exercise("ch00_start_here")
    assert check(mine.blocks_needed, CASES) == "blocks_needed: PASSED 5 cases"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda n, b: n // b, "(1, 4): NOT YET, it gave 0, expected 1"),
        (lambda n, b: n // b + 1, "(0, 4): NOT YET, it gave 1, expected 0"),
        (lambda n, b: -(-n // b) * 1.0, "(0, 4): NOT YET, it gave 0.0, expected 0"),
        (lambda n, b: int(n / b + 0.999), "NOT YET, it gave 576460752303423488"),
        (lambda n, b: None, "(0, 4): NOT YET, it gave None, expected 0"),
        (lambda n, b: n / 0, "(0, 4): NOT YET, it raised ZeroDivisionError"),
    ],
)
def test_a_wrong_one_is_told_the_first_case_that_fails(function, message):
    assert message in check(function, CASES)


def test_an_edit_counts_at_the_next_load(exercise_folder):
    path = exercise_folder / "ch99.py"
    path.write_text("answer = 1")
    assert load_exercise("ch99").answer == 1
    path.write_text("answer = 22")
    assert load_exercise("ch99").answer == 22


def test_the_build_command_names_what_it_takes():
    command = [sys.executable, "-m", "minivllm.course.build", "everything"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (run.returncode, run.stdout) == (2, "")
    assert "exercises|notebooks" in run.stderr
