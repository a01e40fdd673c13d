"""Solutions become exercises, sources become notebooks."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from minivllm.course.build import clean_outputs, execute, read_notebook_source
from minivllm.course.stubs import blank_solution

ROOT = Path(__file__).parents[2]

SOLUTION = '''\
"""Chapter 07."""

from minivllm.course.errors import ExerciseNotStarted  # noqa: F401


def double(x: int) -> int:
    """Twice x."""
    # SOLUTION BEGIN
    y = x
    return x + y
    # SOLUTION END


class Counter:
    def step(self) -> None:
        # SOLUTION BEGIN
        self.count += 1
        # SOLUTION END

    def stop(self) -> None:
        # SOLUTION BEGIN stopped
        self.count = 0
        # SOLUTION END
        self.log()
'''
EXERCISE = '''\
"""Chapter 07."""

from minivllm.course.errors import ExerciseNotStarted


def double(x: int) -> int:
    """Twice x."""
    raise ExerciseNotStarted("ch07.double")


class Counter:
    def step(self) -> None:
        raise ExerciseNotStarted("ch07.counter")

    def stop(self) -> None:
        raise ExerciseNotStarted("ch07.stopped")
        self.log()
'''


def test_each_region_becomes_one_raise_under_signature_and_docstring():
    assert blank_solution(SOLUTION, "ch07") == EXERCISE


@pytest.mark.parametrize(
    "body",
    [
        "def f():\n    # SOLUTION BEGIN\n    return 1\n",
        "def f():\n    return 1\n    # SOLUTION END\n",
        "# SOLUTION BEGIN\nx = 1\n# SOLUTION END\n",
        "def f():\n    # SOLUTION BEGIN\n    # SOLUTION BEGIN\n    # SOLUTION END\n",
    ],
    ids=["no end", "no begin", "no function", "nested"],
)
def test_a_region_that_cannot_be_blanked_is_refused(body):
    with pytest.raises(ValueError, match="SOLUTION"):
        blank_solution(body, "ch07")


def committed_and_current(path: str) -> list[str]:
    """The file as committed, where a learner's edits don't count, and as it lies there now."""
    command = ["git", "-C", str(ROOT), "show", f"HEAD:{path}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    return [run.stdout, (ROOT / path).read_text()]


@pytest.mark.parametrize(
    "solution", sorted((ROOT / "solutions").glob("*.py")), ids=lambda p: p.stem
)
def test_the_shipped_exercise_is_what_its_solution_gives(solution):
    chapter = solution.name.partition("_")[0]
    expected = blank_solution(solution.read_text(), chapter)
    assert expected in committed_and_current(f"exercises/{solution.name}")


def write_source(folder: Path, *cells: str) -> Path:
    path = folder / "07_topic.py"
    path.write_text("\n\n".join(cells) + "\n")
    return path


def test_cells_keep_their_ids_when_another_is_inserted(tmp_path):
    one, two, new = "# %% [markdown]\n# # Title", "# %%\nx = 1", "# %%\ny = 2"
    before = read_notebook_source(write_source(tmp_path, one, two))
    after = read_notebook_source(write_source(tmp_path, one, new, two))
    ids = [cell.id for cell in after.cells]
    assert [cell.id for cell in before.cells] == [ids[0], ids[2]]
    assert len(set(ids)) == 3


def test_equal_cells_get_different_ids(tmp_path):
    notebook = read_notebook_source(write_source(tmp_path, "# %%\nx = 1", "# %%\nx = 1"))
    assert len({cell.id for cell in notebook.cells}) == 2


def test_an_executed_notebook_keeps_its_output_and_drops_stderr(tmp_path):
    code = "# %%\nimport sys\nprint('kept')\nprint('dropped', file=sys.stderr)"
    notebook = read_notebook_source(write_source(tmp_path, code))
    execute(notebook, tmp_path)
    clean_outputs(notebook)
    assert [(o.name, o.text) for o in notebook.cells[0].outputs] == [("stdout", "kept\n")]
    assert notebook.cells[0].execution_count == 1
    assert notebook.metadata["language_info"] == {"name": "python"}


def test_the_code_of_a_question_is_folded_because_it_holds_the_answer(tmp_path):
    source = tmp_path / "90_demo.py"
    source.write_text("# %%\npredict('?', right='a', a=('1', 'yes'))\n\n# %%\nprint(1)\n")
    cells = read_notebook_source(source).cells
    assert [cell.metadata.get("jupyter") for cell in cells] == [{"source_hidden": True}, None]


def test_the_build_command_names_what_it_takes():
    command = [sys.executable, "-m", "minivllm.course.build", "everything"]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (run.returncode, run.stdout) == (2, "")
    assert "exercises|notebooks" in run.stderr
