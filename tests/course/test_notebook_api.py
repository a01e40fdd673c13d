"""What a notebook calls: shows itself as HTML and as text, and never stops a run as shipped."""

from __future__ import annotations

import pytest
from course_kit import DETECTIVE
from matplotlib.figure import Figure

from minivllm.course import notebook, pictures
from minivllm.course.checking import check_task
from minivllm.course.notebook import CheckFailed, check, hints, predict, setup, status, use_mine
from minivllm.course.registry import find, solution_of, stub_of

NAME = "ch00.blocks_needed"
TASK = find(NAME)


@pytest.fixture
def file(tmp_path, monkeypatch):
    folder = tmp_path / "exercises"
    folder.mkdir()
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(folder))
    path = folder / "ch00_start_here.py"
    path.write_text(stub_of(TASK))
    return path


def test_a_check_cell_shows_not_started_and_does_not_raise(file):
    shown = check(NAME)
    assert "NOT STARTED" in repr(shown)
    assert "NOT STARTED" in shown._repr_html_()


def test_where_all_is_solved_a_check_cell_raises_unless_it_passes(tmp_path, monkeypatch):
    folder = tmp_path / "solutions"
    folder.mkdir()
    monkeypatch.setenv("MINIVLLM_EXERCISES", str(folder))
    for text in (stub_of(TASK), solution_of(TASK).replace(" - 1", "")):
        (folder / "ch00_start_here.py").write_text(text)
        with pytest.raises(CheckFailed, match="NOT"):
            check(NAME)
    (folder / "ch00_start_here.py").write_text(solution_of(TASK))
    assert "PASSED" in repr(check(NAME))


def test_mine_is_used_only_when_asked_for_and_passed(file, capsys):
    assert use_mine(NAME, max) is max
    assert use_mine(NAME, max, ask=True) is max
    assert "has not passed as it stands" in capsys.readouterr().out
    file.write_text(solution_of(TASK))
    check_task(TASK)
    assert use_mine(NAME, max) is max
    assert use_mine(NAME, max, ask=True)(5, 4) == 2
    file.write_text(solution_of(TASK).replace(" - 1", ""))
    assert use_mine(NAME, max, ask=True) is max


def test_solutions_are_used_without_a_record(monkeypatch):
    monkeypatch.setenv("MINIVLLM_EXERCISES", "solutions")
    assert use_mine(NAME, max, ask=True)(5, 4) == 2


def test_each_choice_has_its_own_explanation():
    shown = predict("How many?", right="b", a=("8", "too few"), b=("10", "three wait <b>"))
    html = shown._repr_html_()
    assert html.count("<details>") == 2
    assert "Not quite. too few" in html
    assert "Right. three wait &lt;b&gt;" in html
    assert "too few" not in repr(shown)
    with pytest.raises(ValueError, match="none of a, b"):
        predict("?", right="c", a=("1", "x"), b=("2", "y"))


def test_hints_are_folded():
    assert hints(NAME)._repr_html_().count("<details>") == 3


def test_setup_prints_environment_and_progress(file, capsys):
    setup("ch00")
    out = capsys.readouterr().out
    assert "seed 0" in out
    assert "exercises passed: 0 of 1 (in exercises/)" in out


def test_status_is_a_table_with_a_text_beside_it(file):
    assert "<progress" in status()._repr_html_()
    assert NAME in repr(status())


def test_a_listing_has_line_numbers_and_reasons(monkeypatch):
    monkeypatch.setattr(notebook, "find", lambda _: DETECTIVE)
    lines = repr(notebook.listing("ch90.detective")).splitlines()
    assert lines[0] == "  1  def listed(q: Tensor, k: Tensor) -> Tensor:"
    assert lines[DETECTIVE.culprit_line - 1].startswith("  4  ")
    assert lines[-1] == "c  no scale"
    assert notebook.planted("ch90.detective") is DETECTIVE.listing


def draw(step: int, mode: str) -> Figure:
    figure = Figure(figsize=(2, 1))
    figure.subplots().plot([0, step], [0, len(mode)])
    return figure


def describe(step: int, mode: str) -> str:
    return f"A line from zero to step {step}, in the mode that is called {mode}."


@pytest.fixture
def displayed(monkeypatch):
    found = []
    monkeypatch.setattr(pictures, "_display", lambda *objects, **o: found.append((objects[0], o)))
    return found


def test_the_static_figure_stands_first_and_has_a_text(displayed, monkeypatch):
    monkeypatch.setenv("MINIVLLM_STATIC", "1")
    pictures.explore(draw, alt=describe, step=range(2, 5), mode=["exact", "tiled"])
    ((bundle, options),) = displayed
    assert bundle["text/plain"] == describe(2, "exact")
    assert options["metadata"]["image/png"]["alt"] == describe(2, "exact")


def test_a_live_notebook_gets_controls_that_redraw(displayed, monkeypatch):
    monkeypatch.delenv("MINIVLLM_STATIC", raising=False)
    pictures.explore(draw, alt=describe, step=range(2, 5), mode=["exact", "tiled"])
    box = displayed[1][0]
    slider, choice, picture = box.children
    assert (slider.min, slider.max, slider.continuous_update) == (2, 4, False)
    slider.value = 4
    first = picture.value
    assert "step 4" in first
    choice.value = "tiled"
    assert picture.value != first
    assert "called tiled" in picture.value


def test_more_than_three_controls_are_refused():
    with pytest.raises(ValueError, match="4 controls"):
        pictures.explore(draw, alt="x", a=[1], b=[1], c=[1], d=[1])


def test_a_figure_needs_a_text_that_says_something(displayed):
    with pytest.raises(ValueError, match="too little"):
        pictures.show(draw(1, "x"), summary="It rises.", alt="a plot")
