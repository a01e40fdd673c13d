"""`minivllm doctor`: is everything here that the engine and the course need?

Each line begins with OK, with TODO (something optional is missing) or with WRONG (it can't work
like this), and then says what to do.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Literal, NamedTuple

import typer
from rich.console import Console
from rich.text import Text

_COURSE = ("jupyterlab", "ipywidgets", "matplotlib", "nbval", "jupytext", "pytest")
_INSTALL = "python -m pip install --editable '.[course]' --constraint constraints.txt"
_SMOLLM2_BYTES = 700_000_000  # of the cache folder, while it is fetched and converted
_STYLES = {"OK": "green", "TODO": "yellow", "WRONG": "bold red"}


class Finding(NamedTuple):
    """One line of the report."""

    verdict: Literal["OK", "TODO", "WRONG"]
    text: str


def doctor() -> None:
    """Check versions, devices, disk, models and notebooks; say what to do.

    What is WRONG keeps the engine from running: the exit code is 1 then. What
    is TODO is optional.
    """
    console = Console(highlight=False)
    num_wrong = num_todo = 0
    for verdict, text in findings():
        line = Text(f"{verdict:6}", style=_STYLES[verdict]) + Text(text, style="default")
        console.print(line, soft_wrap=True)
        num_wrong += verdict == "WRONG"
        num_todo += verdict == "TODO"
    if num_wrong:
        console.print(f"\n{num_wrong} to repair before the engine can run.")
        raise typer.Exit(1)
    more = f"; {num_todo} TODO, if you want it" if num_todo else ""
    console.print(f"\nThe engine can run{more}.")


def findings() -> Iterator[Finding]:
    """All checks, in the order in which things depend on each other."""
    yield from check_packages()
    yield from check_torch()
    yield from check_cache()


def check_packages() -> Iterator[Finding]:
    """Python and every package, against the ranges that this package declares."""
    requires_python, requirements = declared()
    try:
        from packaging.requirements import Requirement
        from packaging.specifiers import SpecifierSet
    except ImportError:
        yield Finding("WRONG", f"packaging is missing, and so may be others: {_INSTALL}")
        return
    python = platform.python_version()
    if SpecifierSet(requires_python).contains(python):
        yield Finding("OK", f"Python {python}")
    else:
        yield Finding("WRONG", f"Python {python}: install one of {requires_python}")
    for requirement in map(Requirement, requirements):
        is_course = requirement.name in _COURSE
        marker = requirement.marker
        if marker is None or marker.evaluate({"extra": "course" if is_course else ""}):
            yield check_package(requirement.name, requirement.specifier, is_course)


def declared() -> tuple[str, list[str]]:
    """The range of Python versions, and the requirements of engine and course, in pip's words."""
    try:
        about = metadata.metadata("minivllm")
        return about["Requires-Python"], metadata.requires("minivllm") or []
    except metadata.PackageNotFoundError:  # run from a checkout that is not installed
        import tomllib

        file = Path(__file__).parents[2] / "pyproject.toml"
        project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
        extra = project["optional-dependencies"]["course"]
        return project["requires-python"], [*project["dependencies"], *extra]


def check_package(name: str, supported: Any, is_optional: bool) -> Finding:
    """Whether a package is here, in a supported version; `supported` is a `SpecifierSet`."""
    verdict: Literal["TODO", "WRONG"] = "TODO" if is_optional else "WRONG"
    purpose = " (for the course)" if is_optional else ""
    try:
        version = metadata.version(name)
    except metadata.PackageNotFoundError:
        return Finding(verdict, f"{name} is missing{purpose}: {_INSTALL}")
    if not supported.contains(version.partition("+")[0], prereleases=True):
        return Finding(verdict, f"{name} {version} is outside {supported}{purpose}: {_INSTALL}")
    return Finding("OK", f"{name} {version}")


def check_torch() -> Iterator[Finding]:
    """What torch can compute on, and whether Triton compiles or interprets."""
    try:
        import torch
    except Exception as error:  # a broken install fails in many ways
        yield Finding("WRONG", f"torch can't be imported ({error}): {_INSTALL}")
        return
    threads = torch.get_num_threads()
    cores = f"{os.cpu_count()} cores, threads in use: {threads}"
    yield Finding("OK", f"CPU: {platform.machine()}, {cores}")
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        memory = f"{about.total_memory / 2**30:.0f} GiB"
        capability = f"compute capability {about.major}.{about.minor}"
        yield Finding("OK", f"GPU cuda:{index}: {about.name}, {memory}, {capability}")
    has_gpu = torch.cuda.is_available()
    if not has_gpu and shutil.which("nvidia-smi"):
        yield Finding("TODO", f"torch {torch.__version__} sees no GPU: install its CUDA build")
    yield check_triton(has_gpu)


def check_triton(has_gpu: bool) -> Finding:
    """Which of its two modes Triton runs in here."""
    if sys.platform != "linux":
        return Finding("TODO", "Triton is for Linux: everything but its chapters works here")
    if not has_gpu:
        return Finding("OK", "Triton interprets kernels: no GPU, slow, right for learning")
    if os.environ.get("TRITON_INTERPRET") == "1":
        return Finding(
            "TODO", "Triton interprets kernels although there is a GPU: unset TRITON_INTERPRET"
        )
    return Finding("OK", "Triton compiles kernels for the GPU")


def check_cache() -> Iterator[Finding]:
    """The folder of fetched models: can it be written, is there room, is the model whole?"""
    from minivllm.packed import PACKED_MODELS, cache_folder, is_cached

    folder = cache_folder()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        yield Finding("TODO", f"{folder} can't be written: set MINIVLLM_CACHE to another folder")
    free = shutil.disk_usage(existing).free
    room = f"{free / 1e9:.1f} GB free in {folder}"
    for name in PACKED_MODELS:
        if is_cached(name, check_hashes=True):
            yield Finding("OK", f"{room}")
            yield Finding("OK", f"model {name}: every file is as it should be")
            continue
        has_room = free >= _SMOLLM2_BYTES
        yield Finding("OK" if has_room else "TODO", room if has_room else f"{room}: make room")
        state = "is damaged" if (folder / name).exists() else "is not here yet"
        yield Finding("TODO", f"model {name} {state}: minivllm fetch {name}")
