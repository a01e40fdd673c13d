"""The progress file: what counts as an attempt, and that it outlives kills and damage."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from minivllm.course import progress
from minivllm.course.source import code_hash
from minivllm.course.stubs import ROOT

WRONG = "def f(x):\n    return x\n"


def test_the_same_wrong_code_counts_once():
    for code in ("a", "a", "b", None):
        progress.record_attempt("ch01.x", code, passed=False)
    assert progress.load()["ch01.x"].attempts == 2


def test_a_pass_is_remembered_with_its_code_and_first_time():
    first = progress.record_attempt("ch01.x", "a", passed=True)
    again = progress.record_attempt("ch01.x", "b", passed=True)
    assert again.first_pass == first.first_pass
    assert again.standing("b") == "passed"
    assert again.standing("c") == "changed"


def test_hints_stop_at_three():
    assert [progress.record_hint("ch01.x") for _ in range(4)] == [1, 2, 3, 3]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"exercises": {"ch01.x": 3}}', "\x00\xff", '{"exercises": 1}']
)
def test_a_damaged_file_is_put_aside(text):
    path = progress.progress_file()
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert progress.load() == {}
    assert path.with_suffix(".damaged.json").read_text() == text
    progress.record_hint("ch01.x")
    assert progress.load()["ch01.x"].hints == 1


def test_fields_of_a_newer_version_are_left_alone():
    path = progress.progress_file()
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"exercises": {"ch01.x": {"hints": 2, "mood": "good"}}}))
    assert progress.load()["ch01.x"].hints == 2


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_kill_in_mid_write_leaves_the_old_file(step):
    progress.record_hint("ch01.x")
    code = (
        "import os, signal\n"
        "from minivllm.course import progress\n"
        f"os.{step} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "progress.record_hint('ch01.x')\n"
    )
    run = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert run.returncode == -signal.SIGKILL
    assert progress.load()["ch01.x"].hints == 1
    assert progress.record_hint("ch01.x") == 2


def test_many_writers_lose_nothing():
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda i: progress.record_attempt("ch01.x", str(i), passed=False), range(24)))
    assert progress.load()["ch01.x"].attempts == 24


def test_the_hash_sees_code_and_not_its_dress():
    dressed = '# a comment\ndef f(x):\n    """Says."""\n\n    return (x)\n'
    assert code_hash(WRONG, ("f",)) == code_hash(dressed, ("f",))
    assert code_hash(WRONG, ("f",)) != code_hash(WRONG.replace("return x", "return -x"), ("f",))
    assert code_hash(WRONG, ("f",)) == code_hash(WRONG + "def g():\n    pass\n", ("f",))


def test_it_is_ignored_by_git():
    assert ".minivllm/" in (ROOT / ".gitignore").read_text().splitlines()
