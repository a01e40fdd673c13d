"""Makes the files of the course that are generated: exercises and notebooks.

    solutions/chNN_topic.py          ->  exercises/chNN_topic.py      regions blanked
    notebooks/source/NN_topic.py     ->  notebooks/NN_topic.ipynb     built and executed

    python -m minivllm.course.build exercises
    python -m minivllm.course.build notebooks
    python -m minivllm.course.build matrix       docs/kill_matrix.md, from the mutants

Works on the files of a checkout and knows nothing of what the exercises are about.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from minivllm.course.matrix import build_matrix
from minivllm.course.stubs import ROOT, build_exercises, stubs

_SECONDS_PER_CELL = 120


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
        if cell.source.startswith("predict("):  # the code holds the answer: JupyterLab folds it
            cell.metadata["jupyter"] = {"source_hidden": True}
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


def execute(notebook: Any, folder: Path, environment: Mapping[str, str] | None = None) -> None:
    """Run every cell, in place.

    Args:
        notebook: What `read_notebook_source` gives.
        folder: The working directory.
        environment: Variables that are set besides those of this process.

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
        coalesce_streams=True,  # how many pieces a text comes in depends on the clock
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute(env={**os.environ, **(environment or {})})


def clean_outputs(notebook: Any) -> None:
    """Take out what differs from run to run and helps no reader: progress bars on stderr."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [o for o in cell.outputs if o.get("name") != "stderr"]
    notebook.metadata["language_info"] = {"name": "python"}  # without the version that ran it


def as_shipped(folder: Path, root: Path = ROOT) -> dict[str, str]:
    """Variables for a notebook as a reader first sees it: stubs, no progress, no live widgets.

    Args:
        folder: Where the stubs are written; its own, and empty.
        root: The checkout.
    """
    exercises = folder / "exercises"
    exercises.mkdir()
    for path, text in stubs(root):
        (exercises / path.name).write_text(text, encoding="utf-8")
    return {
        "MINIVLLM_EXERCISES": str(exercises),
        "MINIVLLM_PROGRESS": str(folder / "progress.json"),
        "MINIVLLM_STATIC": "1",
    }


def build_notebooks(root: Path = ROOT) -> list[Path]:
    """Build and execute every notebook; gives the files written."""
    import nbformat

    written = []
    for source in sorted((root / "notebooks" / "source").glob("*.py")):
        notebook = read_notebook_source(source)
        with tempfile.TemporaryDirectory() as folder:
            execute(notebook, root / "notebooks", as_shipped(Path(folder), root))
        clean_outputs(notebook)
        path = root / "notebooks" / f"{source.stem}.ipynb"
        nbformat.write(notebook, path)
        written.append(path)
    return written


def main(arguments: list[str]) -> int:
    """Build what is named; gives the exit code."""
    builders = {
        "exercises": build_exercises,
        "notebooks": build_notebooks,
        "matrix": build_matrix,
    }
    if len(arguments) != 1 or arguments[0] not in builders:
        print(f"usage: python -m minivllm.course.build {'|'.join(builders)}", file=sys.stderr)
        return 2
    for path in builders[arguments[0]]():
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
