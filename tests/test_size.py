"""Files and functions stay small enough to be read in one go (style, point 6).

Kernels, their references and their launchers may be longer and take more arguments; so may the
commands of the command line, whose parameters are its options.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for folder in ("minivllm", "tools") for path in (ROOT / folder).rglob("*.py"))

MAX_FILE_LINES = 300
MAX_FUNCTION_LINES = 60
MAX_KERNEL_LINES = 90
MAX_PARAMETERS = 6
MAX_NESTING = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.Match, ast.AsyncFor, ast.AsyncWith)


def functions(tree: ast.AST) -> Iterator[Function]:
    yield from (node for node in ast.walk(tree) if isinstance(node, Function))


def num_lines(function: Function) -> int:
    """From `def` to the last line: decorators do not count, the docstring does."""
    assert function.end_lineno is not None
    return function.end_lineno - function.lineno + 1


def num_parameters(function: Function) -> int:
    """All that a caller may pass; `self` and `cls` are not passed."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    stars = [star for star in (arguments.vararg, arguments.kwarg) if star is not None]
    return len([arg for arg in named if arg.arg not in ("self", "cls")]) + len(stars)


def nesting(node: ast.AST, is_elif: bool = False) -> int:
    """How many blocks stand inside each other; an `elif` is as deep as its `if`."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda | ast.ClassDef):
            continue  # measured by itself
        child_is_elif = (
            isinstance(node, ast.If) and node.orelse == [child] and isinstance(child, ast.If)
        )
        deepest = max(deepest, nesting(child, child_is_elif))
    return deepest + (isinstance(node, BLOCKS) and not is_elif)


def excesses(source: str, path: str = "minivllm/x.py") -> list[str]:
    """What is too large in a file."""
    found = []
    is_kernel = path.startswith("minivllm/kernels/")
    lines = source.count("\n")
    if lines > MAX_FILE_LINES:
        found.append(f"{lines} lines, at most {MAX_FILE_LINES}")
    has_free_parameters = is_kernel or path.startswith("minivllm/cli/")
    max_lines = MAX_KERNEL_LINES if is_kernel else MAX_FUNCTION_LINES
    for function in functions(ast.parse(source)):
        name = f"{function.name} (line {function.lineno})"
        if num_lines(function) > max_lines:
            found.append(f"{name}: {num_lines(function)} lines, at most {max_lines}")
        if num_parameters(function) > MAX_PARAMETERS and not has_free_parameters:
            found.append(f"{name}: {num_parameters(function)} parameters")
        if nesting(function) > MAX_NESTING:
            found.append(f"{name}: {nesting(function)} blocks inside each other")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_file_and_its_functions_are_small(path):
    assert excesses(path.read_text(), path.relative_to(ROOT).as_posix()) == []


DEEP = "def f():\n for a in b:\n  if a:\n   with a:\n    while a:\n     pass\n"
ELIFS = "def f():\n if a:\n  pass\n elif b:\n  pass\n elif c:\n  pass\n elif d:\n  pass\n"


SEVEN = "def f(a, b, c, d, e, f, g): pass\n"
SIXTY_ONE = "def f():\n" + "    x = 1\n" * 60
KERNEL = "minivllm/kernels/x.py"


@pytest.mark.parametrize(
    ("source", "num_found"),
    [
        ("\n" * 300, 0),
        ("\n" * 301, 1),
        ("def f():\n" + "    x = 1\n" * 59, 0),
        (SIXTY_ONE, 1),
        ("class C:\n def f(self, a, b, c, d, e, f): pass\n", 0),
        (SEVEN, 1),
        ("def f(a, b, c, *, d, e, f, g): pass\n", 1),
        ("def f(a, b, c, d, e, *args, **kwargs): pass\n", 1),
        (DEEP, 1),
        (ELIFS, 0),
    ],
)
def test_what_is_too_large_would_be_seen(source, num_found):
    assert len(excesses(source)) == num_found


def test_kernels_may_be_longer_and_take_more_but_not_without_end():
    assert excesses(SIXTY_ONE, KERNEL) == []
    assert excesses(SEVEN, KERNEL) == []
    assert excesses("def f():\n" + "    x = 1\n" * 90, KERNEL)
    assert excesses(DEEP, KERNEL)


def test_commands_may_have_many_options():
    assert excesses(SEVEN, "minivllm/cli/x.py") == []
    assert excesses(SIXTY_ONE, "minivllm/cli/x.py")
