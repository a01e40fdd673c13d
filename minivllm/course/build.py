"""Makes the files of the course that are generated: exercises and notebooks.

    solutions/chNN_topic.py          ->  exercises/chNN_topic.py      regions blanked
    notebooks/source/NN_topic.py     ->  notebooks/NN_topic.ipynb     built and executed

    python -m minivllm.course.build exercises
    python -m minivllm.course.build notebooks

Works on the files of a checkout and knows nothing of what the exercises are about.
"""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]

_BEGIN, _END = "# SOLUTION BEGIN", "# SOLUTION END"
_UNUSED = "  # noqa: F401"  # on the import that only the exercise needs
_SECONDS_PER_CELL = 120


def blank_solution(source: str, chapter: str) -> str:
    """The exercise file of a solution file.

    Each marked region becomes one line that raises, named after the function around it:

        # SOLUTION BEGIN
        return -(-a // b)             ->      raise ExerciseNotStarted("ch00.divide")
        # SOLUTION END

    Args:
        source: The text of the solution file.
        chapter: The first half of an exercise's id, such as "ch00".

    Raises:
        ValueError: A region does not end, or does not begin, or stands in no function.
    """
    lines, function, in_region = [], None, False
    for number, line in enumerate(source.splitlines(), start=1):
        if match := re.match(r"\s*def (\w+)", line):
            function = match[1]
        marker = line.strip()
        if marker == _BEGIN:
            if in_region or function is None:
                raise ValueError(f"line {number}: {_BEGIN} inside a region, or in no function")
            indent = line[: line.index("#")]
            lines.append(f'{indent}raise ExerciseNotStarted("{chapter}.{function}")')
            in_region = True
        elif marker == _END:
            if not in_region:
                raise ValueError(f"line {number}: {_END} without {_BEGIN}")
            in_region = False
        elif not in_region:
            lines.append(line)
    if in_region:
        raise ValueError(f"{_BEGIN} without {_END}")
    return "\n".join(lines).replace(_UNUSED, "") + "\n"


def build_exercises(root: Path = ROOT) -> list[Path]:
    """Write exercises/ from solutions/, over what is there; gives the files written."""
    written = []
    for solution in sorted((root / "solutions").glob("ch*.py")):
        chapter = solution.name.partition("_")[0]
        exercise = root / "exercises" / solution.name
        exercise.write_text(blank_solution(solution.read_text(), chapter))
        written.append(exercise)
    return written


def read_notebook_source(source: Path) -> Any:
    """The notebook of a py:percent file: no outputs yet, and ids that outlast an edit elsewhere."""
    import jupytext

    notebook: Any = jupytext.read(source, fmt="py:percent")
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    seen: set[str] = set()
    for cell in notebook.cells:
        cell.id = _cell_id(cell.source, seen)
    return notebook


def _cell_id(source: str, seen: set[str]) -> str:
    """Derived from the cell's own text, so that inserting a cell renames no other."""
    copy = 0
    while True:
        cell_id = hashlib.sha256(f"{source}{copy}".encode()).hexdigest()[:8]
        if cell_id not in seen:
            seen.add(cell_id)
            return cell_id
        copy += 1


def execute(notebook: Any, folder: Path) -> None:
    """Run every cell, in place, with `folder` as the working directory.

    Raises:
        CellExecutionError: A cell failed.
    """
    from nbclient import NotebookClient

    client = NotebookClient(
        notebook,
        timeout=_SECONDS_PER_CELL,
        kernel_name="python3",
        record_timing=False,
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()


def clean_outputs(notebook: Any) -> None:
    """Take out what differs from run to run and helps no reader: progress bars on stderr."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}  # without the version that ran it


def build_notebooks(root: Path = ROOT) -> list[Path]:
    """Build and execute every notebook; gives the files written."""
    import nbformat

    written = []
    for source in sorted((root / "notebooks" / "source").glob("*.py")):
        notebook = read_notebook_source(source)
        execute(notebook, root / "notebooks")
        clean_outputs(notebook)
        path = root / "notebooks" / f"{source.stem}.ipynb"
        nbformat.write(notebook, path)
        written.append(path)
    return written


def main(arguments: list[str]) -> int:
    """Build what is named; gives the exit code."""
    builders = {"exercises": build_exercises, "notebooks": build_notebooks}
    if len(arguments) != 1 or arguments[0] not in builders:
        print(f"usage: python -m minivllm.course.build {'|'.join(builders)}", file=sys.stderr)
        return 2
    for path in builders[arguments[0]]():
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
