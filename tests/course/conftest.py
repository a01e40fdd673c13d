"""Stubs and solutions of every chapter, generated into a temporary folder."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from minivllm.course.stubs import ROOT, build_exercises


@pytest.fixture(autouse=True)
def _own_progress(tmp_path, monkeypatch):
    """No test touches the learner's progress."""
    monkeypatch.setenv("MINIVLLM_PROGRESS", str(tmp_path / "state" / "progress.json"))
    monkeypatch.delenv("MINIVLLM_EXERCISES", raising=False)


@pytest.fixture(scope="session")
def generated(tmp_path_factory) -> Path:
    """A folder with `exercises/`, as they are shipped, and `solutions/`."""
    root = tmp_path_factory.mktemp("generated")
    shutil.copytree(ROOT / "solutions", root / "solutions")
    (root / "exercises").mkdir()
    build_exercises(root)
    for folder in ("exercises", "solutions"):
        shutil.copy(ROOT / "exercises" / "conftest.py", root / folder)
    return root
