"""Reset, update and the solution beside: what the learner wrote is never lost."""

from __future__ import annotations

import ast

import pytest

from minivllm.course.files import merge, reset_chapter, reset_task, side_by_side, update_chapter
from minivllm.course.progress import progress_file
from minivllm.course.registry import find, stub_of
from minivllm.course.stubs import ROOT, blank_solution

TASK = find("ch00.blocks_needed")
STUB = stub_of(TASK)
RAISE = '    raise ExerciseNotStarted("ch00.blocks_needed")\n'
MINE = STUB.replace(RAISE, "    # mine\n    return ceil(num_tokens, block_size)\n").replace(
    "def blocks_needed", "def ceil(a, b):\n    return -(-a // b)\n\n\ndef blocks_needed"
)


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(tmp_path))
    path = tmp_path / "ch00_start_here.py"
    path.write_text(MINE)
    return path


def test_reset_of_an_exercise_leaves_the_rest_and_keeps_a_backup(file):
    saved = reset_task(TASK)
    assert saved.read_text() == MINE
    assert saved.parent == progress_file().parent / "backup"
    assert RAISE in file.read_text()
    assert "def ceil(a, b):" in file.read_text()


def test_reset_of_a_chapter_is_the_stub(file):
    assert reset_chapter("ch00").read_text() == MINE
    assert file.read_text() == STUB


def test_a_missing_file_comes_back(file):
    file.unlink()
    with pytest.raises(FileNotFoundError, match="minivllm reset ch00"):
        reset_task(TASK)
    assert reset_chapter("ch00") is None
    assert file.read_text() == STUB


def test_a_file_that_is_no_python_is_left_alone(file):
    file.write_text("def blocks_needed(:")
    with pytest.raises(ValueError, match="reset ch00"):
        reset_task(TASK)
    with pytest.raises(SyntaxError):
        update_chapter("ch00")
    assert file.read_text() == "def blocks_needed(:"


def test_two_resets_in_a_second_keep_two_backups(file):
    assert reset_task(TASK) != reset_task(TASK)


def test_an_update_brings_the_newer_stub_and_keeps_the_code(file):
    old = MINE.replace("0 or more.", "any number.").replace(
        "import annotations\n", "import annotations\n\nimport math\n"
    )
    file.write_text(old)
    saved, kept = update_chapter("ch00")
    assert saved.read_text() == old
    assert kept == ["blocks_needed"]
    new = file.read_text()
    assert "0 or more." in new
    assert "any number." not in new
    assert "import math" in new
    namespace = {}
    exec(compile(new, "new", "exec"), namespace)
    assert namespace["blocks_needed"](5, 4) == 2
    assert "# mine" in new


OLD_STUB = '''\
"""Chapter."""


class Queue:
    """Old."""

    def pop(self) -> int:
        """Takes one."""
        raise ExerciseNotStarted("ch07.queue")

    def push(self, block: int) -> None:
        """Gives one."""
        raise ExerciseNotStarted("ch07.queue")
'''


def test_an_update_works_method_by_method():
    mine = OLD_STUB.replace(
        '"""Takes one."""\n        raise ExerciseNotStarted("ch07.queue")',
        '"""Takes one."""\n        for x in self.all:\n            return x\n        return None',
    )
    merged, kept = merge(mine, OLD_STUB.replace("Old.", "New."))
    assert kept == ["Queue.pop"]
    assert '"""New."""' in merged
    assert "for x in self.all:\n            return x\n        return None\n" in merged
    assert merged.count("ExerciseNotStarted") == 1
    ast.parse(merged)


def test_an_untouched_file_becomes_the_new_stub():
    new = OLD_STUB.replace("Old.", "New.")
    assert merge(OLD_STUB, new) == (new, [])


def test_the_solution_stands_beside_what_was_written(file):
    text = side_by_side(TASK)
    assert "SOLUTION" not in text
    assert "How many blocks" not in text
    head, first = text.splitlines()[1:3]
    assert head.count("def blocks_needed") == 2
    assert first.endswith("|     return (num_tokens + block_size - 1) // block_size")
    assert "return ceil(num_tokens, block_size)" in text


def test_the_shipped_stub_is_what_the_solution_gives():
    solution = (ROOT / "solutions" / "ch00_start_here.py").read_text()
    assert blank_solution(solution, "ch00") == STUB
