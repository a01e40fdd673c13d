"""The README does what it says: its code runs, its commands and files exist."""

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from minivllm import ConfigError, LLMConfig, SamplingParams

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)


def blocks(language):
    return [code for kind, code in BLOCKS if kind == language]


@pytest.mark.slow
@pytest.mark.parametrize("code", blocks("python"))
def test_python_block_runs_and_tells_the_story_that_was_asked_for(code):
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    first, second, *_ = run.stdout.split("Once upon a time")
    assert first == ""
    assert "One windy morning, a small mouse" in second
    assert re.search(r"\bdog\b", run.stdout)
    assert re.search(r"\bkite\b", run.stdout)


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"make\s+(\w+)", README.split("```bash")[1] + README):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), target


@pytest.mark.slow
def test_the_shell_command_tells_of_a_frog_and_a_lamp():
    (line,) = [
        line for code in blocks("bash") for line in code.splitlines() if "minivllm generate" in line
    ]
    arguments = shlex.split(line)[1:]
    run = subprocess.run(
        [sys.executable, "-m", "minivllm.cli", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert re.search(r"\bfrog\b.*\blamp\b", run.stdout, flags=re.DOTALL)


def test_every_file_in_the_map_exists():
    table = README[README.index("## Files") :].split("\n## ")[0]
    for path in re.findall(r"^\| `([^`]+)`", table, flags=re.MULTILINE):
        assert (ROOT / path).exists(), path


def test_every_module_is_in_the_map():
    table = README[README.index("## Files") :]
    for path in sorted((ROOT / "minivllm").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        folder_is_listed = any(
            f"`{parent.relative_to(ROOT).as_posix()}/`" in table
            for parent in path.parents
            if parent.is_relative_to(ROOT / "minivllm")
        )
        is_named = path.name in table
        assert path.name == "__init__.py" or folder_is_listed or is_named, name


def table_under(heading):
    return README[README.index(f"| {heading} |") :].split("\n\n")[0]


def test_every_field_and_keyword_is_compared_with_vllms():
    fields = [field.name for field in dataclasses.fields(SamplingParams)]
    with pytest.raises(ConfigError, match="LLM takes: ") as error:
        LLMConfig.from_keywords(**{"": None})
    keywords = str(error.value).split("LLM takes: ")[1].split(", ")
    for heading, names in (("fields of `SamplingParams`", fields), ("keywords of `LLM`", keywords)):
        table = table_under(heading)
        assert len(names) > 15
        assert [name for name in names if f"`{name}`" not in table] == []


def test_what_is_left_out_is_refused():
    left_out = table_under("fields of `SamplingParams`").split("| left out |")[1]
    for name in re.findall(r"`(\w+)`", left_out):
        with pytest.raises(TypeError, match=name):
            SamplingParams(**{name: None})
