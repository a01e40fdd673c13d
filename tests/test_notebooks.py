"""Each shipped notebook is its source, executed, and holds no state of a widget.

That every cell runs is nbval's business (`pytest --nbval-lax notebooks`); what a chapter must have,
and that it runs both as shipped and solved, is in `course/test_gate_notebooks.py`.
"""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest

from minivllm.course.build import read_notebook_source

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))


def shipped(source: Path) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", as_version=4)


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_it_has_the_cells_of_its_source(source):
    def cells(notebook):
        return [(c.id, c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]

    assert cells(shipped(source)) == cells(read_notebook_source(source))
    assert "widgets" not in shipped(source).metadata


def test_every_notebook_has_a_source():
    built = {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert built == {source.stem for source in SOURCES}
