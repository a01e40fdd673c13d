"""Reads exercise files as text: which functions are unwritten, changed, or import the answer.

Works on syntax trees alone, and runs nothing. Next file to read: `loading.py`.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_NOT_STARTED = "ExerciseNotStarted"


def definitions(tree: ast.Module) -> dict[str, Definition]:
    """Every function, class and method of a file: "rms_norm", "FreeQueue.append"."""
    found: dict[str, Definition] = {}
    for node in tree.body:
        if not isinstance(node, Definition):
            continue
        found[node.name] = node
        if isinstance(node, ast.ClassDef):
            methods = (child for child in node.body if isinstance(child, Definition))
            found.update({f"{node.name}.{method.name}": method for method in methods})
    return found


def body_of(node: Definition) -> list[ast.stmt]:
    """The statements after the docstring."""
    has_docstring = ast.get_docstring(node, clean=False) is not None
    return node.body[1:] if has_docstring else node.body


def holes(stub: ast.Module, names: tuple[str, ...]) -> list[str]:
    """The functions and methods, of those named, that the stub leaves to the learner."""
    return [
        name
        for name, node in definitions(stub).items()
        if name.split(".")[0] in names
        and not isinstance(node, ast.ClassDef)
        and any(_raises_not_started(child) for child in ast.walk(node))
    ]


def _raises_not_started(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Raise)
        and node.exc is not None
        and (_NOT_STARTED in ast.unparse(node.exc))
    )


def unfilled(source: ast.Module, stub: ast.Module, names: tuple[str, ...]) -> list[str]:
    """The holes that are as they were, or hold nothing: `pass`, `...`, `return None`, a raise."""
    mine, shipped = definitions(source), definitions(stub)
    return [
        name
        for name in holes(stub, names)
        if name in mine and (_is_empty(mine[name]) or _same_body(mine[name], shipped[name]))
    ]


def _is_empty(node: Definition) -> bool:
    return all(_does_nothing(statement) for statement in body_of(node))


def _does_nothing(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return | ast.Expr):
        return statement.value is None or (
            isinstance(statement.value, ast.Constant)
            and (isinstance(statement, ast.Expr) or statement.value.value is None)
        )
    is_raise = isinstance(statement, ast.Raise) and statement.exc is not None
    return isinstance(statement, ast.Pass) or (
        (is_raise and "NotImplemented" in ast.unparse(statement)) or _raises_not_started(statement)
    )


def _same_body(a: Definition, b: Definition) -> bool:
    return [ast.dump(s) for s in body_of(a)] == [ast.dump(s) for s in body_of(b)]


def parameters(node: Definition) -> list[str]:
    """The names of a function's parameters, in order, without `self`."""
    if isinstance(node, ast.ClassDef):
        return []
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    return [argument.arg for argument in arguments if argument.arg not in ("self", "cls")]


def signature_problem(
    source: ast.Module, stub: ast.Module, names: tuple[str, ...]
) -> tuple[str, str] | None:
    """The first definition that is missing or takes other arguments: (got, expected)."""
    mine, shipped = definitions(source), definitions(stub)
    for name, node in shipped.items():
        if name.split(".")[0] not in names:
            continue
        wanted = f"{name}({', '.join(parameters(node))})"
        if name not in mine:
            return "nothing of this name", wanted if not _is_class(node) else f"class {name}"
        if type(mine[name]) is not type(node):
            return f"a {type(mine[name]).__name__}", f"a {type(node).__name__}"
        if not _takes_the_same(mine[name], node):
            return f"{name}({', '.join(parameters(mine[name]))})", wanted
    return None


def _is_class(node: Definition) -> bool:
    return isinstance(node, ast.ClassDef)


def _takes_the_same(mine: Definition, shipped: Definition) -> bool:
    """Same names in the same order; more of them only with a default."""
    if isinstance(mine, ast.ClassDef) or isinstance(shipped, ast.ClassDef):
        return True
    found, wanted = parameters(mine), parameters(shipped)
    num_more = len(found) - len(wanted)
    num_defaults = len(mine.args.defaults) + sum(d is not None for d in mine.args.kw_defaults)
    return found[: len(wanted)] == wanted and num_more <= num_defaults


def imported(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Each imported name in full, "minivllm.layers.norm.RMSNorm", and its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = "." * node.level + (node.module or "")
            yield from ((f"{prefix}.{alias.name}", node.lineno) for alias in node.names)
        elif isinstance(node, ast.Call) and _is_import_call(node):
            yield str(ast.literal_eval(node.args[0])), node.lineno


def _is_import_call(node: ast.Call) -> bool:
    name = ast.unparse(node.func)
    is_import = name == "__import__" or name.endswith("import_module")
    return is_import and bool(node.args) and isinstance(node.args[0], ast.Constant)


def code_hash(source: str, names: tuple[str, ...]) -> str:
    """A name for the code of these definitions; comments, layout and docstrings do not count."""
    nodes = definitions(ast.parse(source))
    text = ""
    for name, node in nodes.items():
        if name.split(".")[0] in names and not isinstance(node, ast.ClassDef):
            text += name + ast.dump(node.args) + "".join(ast.dump(s) for s in body_of(node))
        elif name in names:
            attributes = (s for s in body_of(node) if not isinstance(s, Definition))
            text += name + "".join(ast.dump(s) for s in attributes)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
