"""Gates over every notebook: its anatomy, and that it runs as shipped and with all solved."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import nbformat
import pytest
from notebook_lint import (
    CELLS,
    HEADINGS,
    lint_anatomy,
    lint_checks,
    lint_contents,
    lint_outputs,
    lint_size,
    num_words,
)

from minivllm.course.build import as_shipped, execute, read_notebook_source
from minivllm.course.registry import tasks_of
from minivllm.course.stubs import ROOT

SOURCES = sorted((ROOT / "notebooks" / "source").glob("*.py"))
EACH = pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)


def built(source: Path) -> Any:
    return nbformat.read(ROOT / "notebooks" / f"{source.stem}.ipynb", as_version=4)


def task_ids(source: Path) -> list[str]:
    return [task.id for task in tasks_of(f"ch{source.stem[:2]}")]


@EACH
def test_it_has_every_part_in_order(source):
    assert lint_anatomy(read_notebook_source(source)) == []


@EACH
def test_it_is_neither_short_nor_long(source):
    assert lint_size(read_notebook_source(source)) == []


@EACH
def test_each_exercise_has_its_check_cell(source):
    assert lint_checks(read_notebook_source(source), task_ids(source)) == []


@EACH
def test_it_needs_no_machine_and_no_network(source):
    assert lint_contents(read_notebook_source(source)) == []


@EACH
def test_the_built_notebook_has_no_error_and_words_for_each_picture(source):
    assert lint_contents(built(source)) == []
    assert lint_outputs(built(source)) == []


def texts_of(cell: Any) -> str:
    parts = []
    for output in cell.outputs:
        parts.append(output.get("text", ""))
        parts.append(output.get("data", {}).get("text/plain", ""))
    return "".join(parts)


def tagged(notebook: Any, tag: str) -> list[Any]:
    return [c for c in notebook.cells if tag in c.metadata.get("tags", [])]


@EACH
def test_as_shipped_it_runs_to_its_end_and_every_check_is_not_started(source, tmp_path):
    notebook = read_notebook_source(source)
    execute(notebook, ROOT / "notebooks", as_shipped(tmp_path))
    checks = tagged(notebook, "check")
    assert checks
    assert [texts_of(c) for c in checks if "NOT STARTED" not in texts_of(c)] == []
    # What the reader sees in the built notebook is what the cells give here.
    before = {cell.id: texts_of(cell) for cell in tagged(built(source), "nbval-check-output")}
    after = {cell.id: texts_of(cell) for cell in tagged(notebook, "nbval-check-output")}
    assert after == before


@EACH
def test_solved_it_runs_to_its_end_and_every_check_passes(source, tmp_path, generated):
    notebook = read_notebook_source(source)
    environment = {
        "MINIVLLM_EXERCISES": str(generated / "solutions"),
        "MINIVLLM_PROGRESS": str(tmp_path / "progress.json"),
    }
    execute(notebook, ROOT / "notebooks", environment)  # a check that does not pass raises
    checks = tagged(notebook, "check")
    assert [texts_of(c) for c in checks if "PASSED" not in texts_of(c)] == []


def good_notebook() -> Any:
    new = nbformat.v4
    words = "word " * 1500
    cells = [new.new_markdown_cell(f"# 07 · Paged\n\n{words[:90]}")]
    cells += [new.new_markdown_cell(f"## {name}: more") for name in HEADINGS]
    cells += [new.new_markdown_cell("\n".join(["word " * 15] * 100))]
    calls = ["setup('ch07')", "show(f)", "explore(f)", *["predict('?')"] * 3]
    cells += [new.new_code_cell(call) for call in calls]
    cells += [new.new_code_cell('check("ch07.a")', metadata={"tags": ["check"]})]
    cells += [new.new_code_cell("1") for _ in range(CELLS.start - len(cells))]
    return new.new_notebook(cells=cells)


def all_problems(notebook: Any) -> list[str]:
    return [
        *lint_anatomy(notebook),
        *lint_size(notebook),
        *lint_checks(notebook, ["ch07.a"]),
        *lint_contents(notebook),
    ]


def test_a_good_notebook_has_no_problem():
    assert all_problems(good_notebook()) == []


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("# 07 · Paged", "Paged", "one title"),
        ("## Recap: more", "# Recap", "one title"),
        ("## Recap: more", "", "no heading '## Recap'"),
        ("## Measure: more", "## Break it\n\n## Measure", "the order is"),
        ("explore(f)", "1", "fewer than 1 explore("),
        ("predict('?')", "1", "fewer than 3 predict("),
        ("setup('ch07')", "open('/home/me/x')", "/home/me/x"),
        ("show(f)", "show(get('http://x.org'))", "http://x.org"),
        ("show(f)", "show(f)\nplt.show()", "plt.show"),
        ('check("ch07.a")', 'check("ch07.b")', "tagged cells"),
        ("## Recap: more", "## Recap\n\n![a plot](x.png)", "image without words"),
        ("## Recap: more", "## Recap" + " x" * 60, "columns"),
        ("word " * 15, "word", "words"),
    ],
)
def test_what_is_not_good_is_seen(old, new, problem):
    notebook = copy.deepcopy(good_notebook())
    for cell in notebook.cells:
        cell.source = cell.source.replace(old, new)
    assert [text for text in all_problems(notebook) if problem in text]


def test_an_error_and_a_figure_without_words_are_seen():
    notebook = good_notebook()
    cell = next(cell for cell in notebook.cells if cell.cell_type == "code")
    cell.outputs = [
        nbformat.v4.new_output("error", ename="ValueError", evalue="", traceback=[]),
        nbformat.v4.new_output("display_data", data={"image/png": "x"}),
    ]
    found = lint_outputs(notebook)
    assert "error: ValueError" in found
    assert "figure without words: ''" in found
    assert "not every cell was run, in order" in found


def test_words_are_those_a_reader_reads():
    assert num_words("Two words, <b>bold</b> https://x.org/a/b $$x + y$$ isn't") == 4
