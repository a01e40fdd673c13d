"""Changes to the learner's files: back to the stub, or on to a newer one; and the solution beside.

Every change leaves the old file in `.minivllm/backup/`.
"""

from __future__ import annotations

import ast
import difflib
import time
from collections.abc import Iterator
from pathlib import Path

from minivllm.course.exercise import Task
from minivllm.course.progress import progress_file
from minivllm.course.registry import SOLUTIONS, exercise_folder, file_of, solution_of, stub_of
from minivllm.course.source import Definition, body_of, definitions, holes, unfilled

_COLUMN = 58  # of the solution beside what was written


def backup(path: Path) -> Path:
    """A copy of a file in the backup folder, named after the time."""
    folder = progress_file().parent / "backup"
    folder.mkdir(parents=True, exist_ok=True)
    stamp, number = time.strftime("%Y%m%d-%H%M%S"), 0
    while (copy := folder / f"{path.stem}.{stamp}-{number}.py").exists():
        number += 1
    copy.write_bytes(path.read_bytes())
    return copy


def segment(source: str, node: Definition) -> str:
    """The lines of a definition, with its decorators."""
    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
    return "".join(source.splitlines(keepends=True)[first - 1 : node.end_lineno])


def reset_task(task: Task) -> Path:
    """Put back the stub of one exercise, and leave the rest of the file; gives the backup.

    Raises:
        FileNotFoundError: The file is missing: reset the chapter.
        ValueError: The file is no Python, or the exercise is not in it: reset the chapter.
    """
    path = file_of(task.chapter, exercise_folder())
    source, stub = path.read_text(encoding="utf-8"), stub_of(task)
    saved = backup(path)
    for name in task.names:
        try:
            mine = definitions(ast.parse(source))[name]
        except (SyntaxError, KeyError) as error:
            raise ValueError(
                f"{name} can't be found in {path.name}: reset {task.chapter}"
            ) from error
        shipped = segment(stub, definitions(ast.parse(stub))[name])
        source = source.replace(segment(source, mine), shipped, 1)
    path.write_text(source, encoding="utf-8")
    return saved


def reset_chapter(chapter: str) -> Path | None:
    """Put back the whole file of a chapter; gives the backup, if there was a file."""
    solution = file_of(chapter, SOLUTIONS)
    path = exercise_folder() / solution.name
    saved = backup(path) if path.exists() else None
    from minivllm.course.stubs import blank_solution

    path.write_text(blank_solution(solution.read_text(encoding="utf-8"), chapter), encoding="utf-8")
    return saved


def update_chapter(chapter: str) -> tuple[Path, list[str]]:
    """Bring in the stub as it is shipped now, and keep what was written.

    Returns:
        The backup, and the functions whose code was kept.

    Raises:
        SyntaxError: The learner's file is no Python.
    """
    from minivllm.course.stubs import blank_solution

    path = file_of(chapter, exercise_folder())
    stub = blank_solution(file_of(chapter, SOLUTIONS).read_text(encoding="utf-8"), chapter)
    source = path.read_text(encoding="utf-8")
    merged, kept = merge(source, stub)
    saved = backup(path)
    path.write_text(merged, encoding="utf-8")
    return saved, kept


def merge(source: str, stub: str) -> tuple[str, list[str]]:
    """The stub with the bodies, the helpers and the imports of `source` in it."""
    mine, shipped = definitions(ast.parse(source)), definitions(ast.parse(stub))
    names = tuple(name for name in shipped if "." not in name)
    open_holes = set(unfilled(ast.parse(source), ast.parse(stub), names))
    kept = [n for n in holes(ast.parse(stub), names) if n in mine and n not in open_holes]
    lines = stub.splitlines(keepends=True)
    for name in sorted(kept, key=lambda name: -shipped[name].lineno):
        first, last = _body_lines(shipped[name])
        start, end = _body_lines(mine[name])
        lines[first - 1 : last] = source.splitlines(keepends=True)[start - 1 : end]
    extra = list(_own_statements(source, stub))
    imports = [text for text in extra if text.startswith(("import ", "from "))]
    others = [text for text in extra if text not in imports]
    place = _after_imports("".join(lines))
    lines[place:place] = [f"{text}\n" for text in imports]
    text = "".join(lines)
    if others:
        text = text.rstrip("\n") + "\n\n\n" + "\n\n\n".join(others) + "\n"
    return text, kept


def _body_lines(node: Definition) -> tuple[int, int]:
    """The first and last line of what stands under the docstring, comments included."""
    body = body_of(node)
    has_docstring = len(body) < len(node.body)
    first = (node.body[0].end_lineno or 0) + 1 if has_docstring else body[0].lineno
    return first, node.end_lineno or first


def _own_statements(source: str, stub: str) -> Iterator[str]:
    """The learner's own helpers, constants and imports: what the stub does not have."""
    known = {ast.dump(node) for node in ast.parse(stub).body}
    names = set(definitions(ast.parse(stub)))
    for node in ast.parse(source).body:
        is_docstring = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        is_known = ast.dump(node) in known or getattr(node, "name", None) in names
        if not is_known and not is_docstring:
            text = ast.get_source_segment(source, node)
            yield segment(source, node).rstrip("\n") if isinstance(node, Definition) else text or ""


def _after_imports(source: str) -> int:
    imports = (n for n in ast.parse(source).body if isinstance(n, ast.Import | ast.ImportFrom))
    return max((node.end_lineno or 0 for node in imports), default=0)


def side_by_side(task: Task) -> str:
    """What the learner wrote on the left, the solution on the right; `|` marks what differs."""
    path = file_of(task.chapter, exercise_folder())
    solution = solution_of(task).replace("# SOLUTION BEGIN", "").replace("# SOLUTION END", "")
    texts = [path.read_text(encoding="utf-8"), solution]
    rows = [f"{'yours':<{_COLUMN}}   solution"]
    for name in task.names:
        left, right = (_code_of(text, name) for text in texts)
        rows += _pairs(left, right)
    return "\n".join(rows)


def _code_of(source: str, name: str) -> list[str]:
    """The lines of a definition, without its docstring and empty lines."""
    try:
        node = definitions(ast.parse(source)).get(name)
    except SyntaxError:
        node = None
    if node is None:
        return []
    docstring = range(node.body[0].lineno, body_of(node)[0].lineno)
    lines = enumerate(source.splitlines()[: node.end_lineno], start=1)
    return [
        line
        for number, line in lines
        if number >= node.lineno and number not in docstring and line.strip()
    ]


def _pairs(left: list[str], right: list[str]) -> Iterator[str]:
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        mark = " " if kind == "equal" else "|"
        for i in range(max(b - a, d - c)):
            mine = left[a + i] if a + i < b else ""
            theirs = right[c + i] if c + i < d else ""
            cut = mine if len(mine) <= _COLUMN else f"{mine[: _COLUMN - 3]}..."
            yield f"{cut:<{_COLUMN}} {mark} {theirs}".rstrip()
