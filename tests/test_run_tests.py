"""The runner behind `make test`: its counts, its closing line, and what it counts as failed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import run_tests
from run_tests import Result


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Make the only group of tests one that holds `source`."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # they take seconds to import

    def group(source: str) -> None:
        path = tmp_path / "test_sample.py"
        path.write_text(source)
        monkeypatch.setattr(run_tests, "PYTEST_GROUPS", {"sample": [str(path)]})

    return group


def closing_line(capfd) -> str:
    return capfd.readouterr().out.splitlines()[-1]


def test_the_closing_line_is_the_total(group, capfd):
    group("import pytest\ndef test_a(): pass\ndef test_b(): pass\ndef test_c(): pytest.skip('no')")
    assert run_tests.main(["sample"]) == 0
    *_, reason, total = capfd.readouterr().out.splitlines()
    assert reason == "not tried here: 1 x no"
    assert total == "2 passed, 0 failed, 1 skipped"


@pytest.mark.parametrize(
    ("source", "closing"),
    [
        ("def test_a(): assert False\ndef test_b(): pass", "1 passed, 1 failed"),
        ("import no_such_module", "0 passed, 1 failed"),
        ("", "0 passed, 1 failed"),
        ("import os\ndef test_a(): os._exit(0)", "0 passed, 1 failed"),
        ("import os\ndef test_a(): os.kill(os.getpid(), 9)", "0 passed, 1 failed"),
    ],
    ids=["failed test", "import error", "no test", "process left early", "process killed"],
)
def test_whatever_goes_wrong_is_a_failure(group, capfd, source, closing):
    group(source)
    assert run_tests.main(["sample"]) == 1
    assert closing_line(capfd) == closing


def test_a_test_that_hangs_fails_and_the_others_go_on(group, monkeypatch, capfd):
    monkeypatch.setattr(run_tests, "SECONDS_PER_TEST", 1)
    group("import time\ndef test_a(): time.sleep(60)\ndef test_b(): pass")
    assert run_tests.main(["sample"]) == 1
    assert closing_line(capfd) == "1 passed, 1 failed"


def test_a_red_check_is_a_failure(monkeypatch, capfd):
    checks = {"good": ["json.tool", "--help"], "bad": ["no_such_module"]}
    monkeypatch.setattr(run_tests, "CHECKS", checks)
    assert run_tests.main(["check"]) == 1
    assert closing_line(capfd) == "1 passed, 1 failed"


def test_results_add_up_and_read_as_the_closing_line():
    total = Result(2, 0, 1) + Result(3, 1)
    assert total == Result(5, 1, 1)
    assert re.fullmatch(r"\d+ passed, \d+ failed(, \d+ skipped)?", str(total))


def test_an_unknown_group_is_named_and_runs_nothing(capfd):
    assert run_tests.main(["everything"]) == 2
    assert "unknown group everything: use check, shapes, plain" in capfd.readouterr().err


def test_every_test_folder_is_in_exactly_one_group():
    root, groups = run_tests.ROOT, run_tests.PYTEST_GROUPS
    folders = {p.parent.relative_to(root).as_posix() for p in (root / "tests").rglob("test_*.py")}
    named = [a for name in ("shapes", "kernels", "compiled") for a in groups[name] if a in folders]
    assert set(named) == {*run_tests.SHAPE_CHECKED, run_tests.KERNELS, run_tests.COMPILED}
    assert len(named) == len(set(named))
    ignored = [a.removeprefix("--ignore=") for a in groups["plain"] if "--ignore=" in a]
    assert sorted([*ignored, run_tests.COMPILED]) == sorted(named)  # a part of tests/kernels


def test_the_interpreter_is_left_to_the_kernels_package(group, monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    group("import os\ndef test_a(): assert 'TRITON_INTERPRET' not in os.environ")
    assert run_tests.main(["sample"]) == 0
