"""Each shipped notebook is its source, executed, and readable by everyone.

That every cell runs is nbval's business: `pytest --nbval-lax notebooks`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import nbformat
import pytest

from minivllm.course.build import read_notebook_source

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))

pytestmark = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def shipped(source: Path) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", as_version=4)


def code_cells(source: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in shipped(source).cells if cell.cell_type == "code"]


def printed(cell: nbformat.NotebookNode) -> str:
    return "".join(output.get("text", "") for output in cell.outputs)


def test_it_has_the_cells_of_its_source(source):
    def cells(notebook):
        return [(c.id, c.cell_type, c.source, c.metadata.get("tags", [])) for c in notebook.cells]

    assert cells(shipped(source)) == cells(read_notebook_source(source))


def test_every_code_cell_was_run_in_order_without_an_error(source):
    cells = code_cells(source)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {output.output_type for cell in cells for output in cell.outputs}
    assert kinds <= {"stream", "display_data", "execute_result"}


def test_check_cells_are_shipped_as_not_started(source):
    checks = [cell for cell in code_cells(source) if "check" in cell.metadata.get("tags", [])]
    assert checks
    assert all("NOT STARTED" in printed(cell) for cell in checks)


def test_each_picture_has_an_alternative_text(source):
    pictures = [
        output
        for cell in code_cells(source)
        for output in cell.outputs
        if "image/png" in output.get("data", {})
    ]
    assert pictures
    for picture in pictures:
        assert len(picture.metadata["image/png"]["alt"]) > 40


def test_it_has_one_title(source):
    markdown = [cell.source for cell in shipped(source).cells if cell.cell_type == "markdown"]
    titles = [line for text in markdown for line in text.splitlines() if line.startswith("# ")]
    assert len(titles) == 1


def test_it_holds_no_path_of_a_machine_and_no_widget_state(source):
    text = (ROOT / "notebooks" / f"{source.stem}.ipynb").read_text()
    assert not re.search(r"/(home|root|work|tmp|Users|opt)/", text)
    assert "widgets" not in json.loads(text)["metadata"]


def test_prose_fits_the_page(source):
    for cell in shipped(source).cells:
        for line in cell.source.splitlines():
            assert len(line) <= 100, line
