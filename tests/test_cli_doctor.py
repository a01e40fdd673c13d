"""`minivllm doctor`: each line OK, or what to do; exit code 1 only for what is needed."""

from __future__ import annotations

import builtins
import os
import shutil
from importlib import metadata

import pytest
from command_line import run_cli as run_cli  # a fixture
from packaging.specifiers import SpecifierSet

from minivllm import packed
from minivllm.cli import doctor

GIB = 2**30


@pytest.fixture
def versions(monkeypatch):
    """What seems to be installed, besides what is: package -> version, `None` for missing."""
    changed = {}
    real = metadata.version

    def version(name):
        if name not in changed:
            return real(name)
        if changed[name] is None:
            raise metadata.PackageNotFoundError(name)
        return changed[name]

    monkeypatch.setattr(metadata, "version", version)
    return changed


def cache_lines():
    return {text: verdict for verdict, text in doctor.check_cache()}


def test_on_this_machine_the_engine_can_run(run_cli):
    code, out, err = run_cli("doctor")
    assert (code, err) == (0, "")
    *lines, blank, last = out.splitlines()
    assert all(line.startswith(("OK    ", "TODO  ")) for line in lines)
    assert any(line.startswith("OK    torch ") for line in lines)
    assert (blank, last.startswith("The engine can run")) == ("", True)


def test_what_is_wrong_is_said_and_is_exit_code_1(run_cli, versions):
    versions["transformers"] = "4.40.0"
    code, out, _ = run_cli("doctor")
    assert code == 1
    (line,) = [line for line in out.splitlines() if line.startswith("WRONG")]
    assert "transformers 4.40.0 is outside" in line
    assert "pip install" in line
    assert "1 to repair" in out


def test_what_only_the_course_needs_is_optional(run_cli, versions):
    versions["ipywidgets"] = None
    code, out, _ = run_cli("doctor")
    assert code == 0
    assert "TODO  ipywidgets is missing (for the course)" in out
    assert "1 TODO" in out.splitlines()[-1]


@pytest.mark.parametrize(
    ("version", "verdict"),
    [("2.13.0+cpu", "OK"), ("2.15.0", "WRONG"), ("2.10.1", "WRONG"), (None, "WRONG")],
)
def test_a_version_is_held_against_its_range(versions, version, verdict):
    versions["torch"] = version
    assert doctor.check_package("torch", SpecifierSet(">=2.11,<2.15"), False).verdict == verdict


def test_an_old_python_is_wrong(monkeypatch):
    monkeypatch.setattr(doctor.platform, "python_version", lambda: "3.10.2")
    finding = next(doctor.check_packages())
    assert finding.verdict == "WRONG"
    assert finding.text.startswith("Python 3.10.2: install one of ")


def test_a_torch_that_fails_to_load_is_wrong_and_not_a_traceback(monkeypatch):
    real_import = builtins.__import__

    def fails(name, *arguments, **keywords):
        if name == "torch":
            raise OSError("libfoo.so not found")
        return real_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", fails)
    (finding,) = doctor.check_torch()
    assert finding.verdict == "WRONG"
    assert "libfoo.so not found" in finding.text


@pytest.mark.parametrize(
    ("has_gpu", "variable", "platform", "verdict", "word"),
    [
        (False, None, "linux", "OK", "interprets"),
        (True, None, "linux", "OK", "compiles"),
        (True, "1", "linux", "TODO", "unset TRITON_INTERPRET"),
        (False, None, "darwin", "TODO", "Linux"),
    ],
)
def test_triton_s_mode_is_named(monkeypatch, has_gpu, variable, platform, verdict, word):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    if variable:
        monkeypatch.setenv("TRITON_INTERPRET", variable)
    monkeypatch.setattr(doctor.sys, "platform", platform)
    finding = doctor.check_triton(has_gpu)
    assert finding.verdict == verdict
    assert word in finding.text


def test_an_empty_cache_says_how_to_fetch(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "new"))
    assert cache_lines()["model smollm2 is not here yet: minivllm fetch smollm2"] == "TODO"
    assert not (tmp_path / "new").exists()  # a check changes nothing


def test_a_damaged_model_is_seen_by_its_bytes(monkeypatch, tmp_path):
    folder = shutil.copytree(
        packed.cache_folder() / "smollm2", tmp_path / "smollm2", copy_function=os.symlink
    )
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    config = folder / "config.json"
    text = config.read_text()
    config.unlink()
    config.write_text(text.replace("576", "577"))  # of the same size
    assert cache_lines()["model smollm2 is damaged: minivllm fetch smollm2"] == "TODO"


def test_a_disk_without_room_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path))
    usage = shutil.disk_usage(tmp_path)._replace(free=GIB // 10)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _: usage)
    assert cache_lines()[f"0.1 GB free in {tmp_path}: make room"] == "TODO"


def test_a_cache_folder_that_is_a_file_is_said(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "file"))
    lines = cache_lines()
    assert lines[f"{tmp_path / 'file'} can't be written: set MINIVLLM_CACHE to another folder"]
