"""environment.yml, constraints.txt, pyproject.toml and what is installed describe one thing."""

from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def requirements(lines: list[str]) -> list[Requirement]:
    """Those that apply to this machine, without the package itself."""
    parsed = [Requirement(line) for line in lines]
    return [
        r for r in parsed if r.name != PROJECT["name"] and (r.marker is None or r.marker.evaluate())
    ]


def pins() -> dict[str, str]:
    """Package -> the exact version in constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    parsed = requirements([line for line in lines if line and not line.startswith("#")])
    return {canonicalize_name(r.name): str(r.specifier).removeprefix("==") for r in parsed}


DIRECT = requirements(
    [*PROJECT["dependencies"], *(line for extra in EXTRAS.values() for line in extra)]
)


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda r: r.name)
def test_each_dependency_has_a_tested_version_inside_its_range(requirement):
    pin = pins()[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pin)


def test_nothing_is_pinned_that_is_no_dependency():
    assert set(pins()) == {canonicalize_name(r.name) for r in DIRECT}


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda r: r.name)
def test_the_installed_version_is_in_the_range(requirement):
    installed = version(requirement.name).partition("+")[0]  # 2.13.0+cpu is 2.13.0
    assert requirement.specifier.contains(installed)


def test_conda_installs_the_same_python_and_the_same_packages():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    assert environment["name"] == PROJECT["name"]
    *conda, pip = environment["dependencies"]
    python = next(line for line in conda if line.startswith("python "))
    assert SpecifierSet(python.removeprefix("python ")) == SpecifierSet(PROJECT["requires-python"])
    assert {"pip", "make"} <= set(conda)
    assert pip == {"pip": ["--constraint constraints.txt", "--editable .[dev]"]}


def test_building_the_package_needs_no_torch():
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]
    assert not any("torch" in requirement for requirement in build["requires"])
