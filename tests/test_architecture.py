"""Imports go down only: every file of the package is held to the table of layers below.

Lazy imports, imports under TYPE_CHECKING and `importlib.import_module("...")` count like others.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "minivllm"
FILES = sorted(PACKAGE.rglob("*.py"))

LEAVES = {"checks", "config", "parts", "sampling_params", "messages", "outputs", "errors", "trace"}
TOOLS = {"course", "bench", "plots", "cli"}  # may import anything; imported by nobody else
COMPUTE = {"models", "layers", "attention", "kernels"}
KNOWS_NO_REQUEST = {"checks", "config", "parts", "errors"}

# What a layer may import, besides itself.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "outputs": set(),
    "parts": set(),
    "checks": {"errors"},
    "config": {"checks", "parts", "errors"},
    "sampling_params": {"checks", "config", "errors"},
    "messages": {"outputs", "sampling_params"},
    "trace": {"outputs"},
    "parallel": {"errors"},
    "gguf_to_hf": {"errors"},
    "packed": {"gguf_to_hf"} | LEAVES,
    "hub": {"packed"} | LEAVES,
    "device": set(),
    "counter_random": set(),
    "kernels": {"counter_random"} | KNOWS_NO_REQUEST,
    "attention": {"kernels", "device"} | KNOWS_NO_REQUEST,
    "layers": {"attention", "device", "kernels", "parallel"} | KNOWS_NO_REQUEST,
    "models": {"layers", "attention", "kernels", "parallel"} | KNOWS_NO_REQUEST,
    "sample": {"counter_random", "kernels", "device"} | LEAVES,
    "worker": {"sample", "parallel", "hub", "device"} | COMPUTE | LEAVES,
    "core": LEAVES,
    "executor": {"worker", "sample", "parallel"} | COMPUTE | LEAVES,
    "engine": {"core", "executor", "worker", "sample", "hub"} | COMPUTE | LEAVES,
}
MAY_IMPORT["llm"] = {"engine", *MAY_IMPORT["engine"]}
MAY_IMPORT["__init__"] = {"llm", *MAY_IMPORT["llm"]}  # the front door's lazy re-exports
NO_TORCH = LEAVES | {"core"}


def module_name(path: Path) -> str:
    """`minivllm/core/stop.py` -> `minivllm.core.stop`."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported_names(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """The full name of everything that a file imports, wherever in the file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parents = module.split(".")
                keep = len(parents) - node.level + is_package
                base = ".".join([*parents[:keep], *([base] if base else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            function, first = node.func, node.args[0]
            name = getattr(function, "attr", getattr(function, "id", ""))
            is_import = name in ("import_module", "__import__")
            if is_import and isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value


def layer_of(name: str) -> str:
    """`minivllm.core.stop.check_stop` -> `core`; the package itself is `__init__`."""
    parts = name.split(".")
    known = MAY_IMPORT.keys() | TOOLS
    return parts[1] if len(parts) > 1 and parts[1] in known else "__init__"


def own_imports(path: Path) -> set[str]:
    """What a file imports from the package, by full name."""
    tree = ast.parse(path.read_text())
    names = imported_names(tree, module_name(path), path.name == "__init__.py")
    return {name for name in names if name.split(".")[0] == "minivllm"}


def upward_imports(importer: str, imports: set[str]) -> list[str]:
    """The imports that a file of layer `importer` must not have."""
    if importer in TOOLS:
        return []
    allowed = MAY_IMPORT[importer] | {importer}
    return sorted(name for name in imports if layer_of(name) not in allowed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: module_name(path))
def test_imports_go_down_only(path):
    parts = module_name(path).split(".")
    layer = parts[1] if len(parts) > 1 else "__init__"
    assert layer in MAY_IMPORT.keys() | TOOLS, f"{layer!r} is no layer: add it to this table"
    assert upward_imports(layer, own_imports(path)) == []


@pytest.mark.parametrize(
    ("layer", "source"),
    [
        ("core", "from minivllm.worker import model_runner"),
        ("core", "def f():\n    import minivllm.engine.core"),
        ("worker", "if TYPE_CHECKING:\n    from minivllm.core.request import Request"),
        ("kernels", "from minivllm.messages import SchedulerOutput"),
        ("attention", "from minivllm.layers.norm import RMSNorm"),
        ("attention", "from ..models import qwen3"),
        ("models", "from minivllm import LLM"),
        ("errors", "from minivllm import config"),
        ("engine", "import importlib\nimportlib.import_module('minivllm.course.registry')"),
        ("llm", "from minivllm.bench.planner import run_planner_benchmark"),
        ("layers", "from minivllm.hub import find"),
        ("core", "from minivllm.parallel import TensorParallel"),
    ],
)
def test_an_upward_import_would_be_seen(layer, source):
    names = set(imported_names(ast.parse(source), f"minivllm.{layer}.some_file", False))
    own = {name for name in names if name.startswith("minivllm")}
    assert upward_imports(layer, own)


def test_no_module_imports_itself_through_others():
    graph = {}
    for module, path in MODULES.items():
        targets = set()
        for name in own_imports(path):
            while name not in MODULES:  # a name inside a module
                name = name.rpartition(".")[0]
            targets.add(name)
        is_front_door = module == "minivllm"  # it imports lazily, and everything starts with it
        graph[module] = set() if is_front_door else targets - {module, "minivllm"}
    list(TopologicalSorter(graph).static_order())  # raises CycleError, which names the cycle


def imports_at_run_time(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements of a file, but for those under `if TYPE_CHECKING:`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.body = []
    yield from (n for n in ast.walk(tree) if isinstance(n, ast.Import | ast.ImportFrom))


@pytest.mark.parametrize("layer", sorted(NO_TORCH))
def test_planner_and_leaves_import_only_the_standard_library(layer):
    paths = [p for p in FILES if p.relative_to(PACKAGE).with_suffix("").parts[0] == layer]
    assert paths, f"{layer} has no file"
    for path in paths:
        for node in imports_at_run_time(ast.parse(path.read_text())):
            is_from = isinstance(node, ast.ImportFrom)
            names = [node.module or "minivllm"] if is_from else [a.name for a in node.names]
            for name in names:
                top = name.split(".")[0]
                assert top == "minivllm" or top in sys.stdlib_module_names, f"{path}: {name}"


@pytest.mark.parametrize("module", ["minivllm", "minivllm.core.scheduler", "minivllm.messages"])
def test_import_loads_no_torch_and_changes_no_environment(module):
    code = (
        "import os, sys; before = dict(os.environ);"
        f"import {module};"
        "heavy = {'torch', 'numpy', 'triton', 'transformers', 'jaxtyping'} & set(sys.modules);"
        "assert not heavy, heavy; assert dict(os.environ) == before"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
