"""A report has at most 18 lines of 80 columns, whatever is in it."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from minivllm.course.exercise import Advice
from minivllm.course.render import MAX_LINES, WIDTH, render, render_html, summary
from minivllm.course.report import Failure, Report

TEXT = st.text(max_size=400)
LINE = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=300)
FACTS = st.lists(
    st.tuples(st.sampled_from(["", "call", "wrong", "pattern", "step", "raised"]), TEXT),
    max_size=30,
)


@st.composite
def reports(draw):
    checks = tuple(draw(st.lists(LINE, min_size=1, max_size=20)))
    failure = Failure(
        facts=tuple(draw(FACTS)),
        advice=Advice(look_at=draw(st.none() | LINE), try_it=draw(st.none() | LINE)),
        trace=draw(TEXT),
        likely=draw(st.none() | st.tuples(st.just("gqa.tile"), LINE)),
    )
    return Report(
        task_id="ch02.gqa",
        state=draw(st.sampled_from(["NOT YET", "NOT STARTED", "SKIPPED", "PASSED"])),
        checks=checks,
        num_passed=draw(st.integers(0, len(checks) - 1)),
        failure=failure,
        file=draw(LINE),
        look_at=draw(LINE),
        try_it=draw(LINE),
    )


@given(reports())
def test_it_fits_on_18_lines_of_80_columns(report):
    lines = render(report).split("\n")
    assert len(lines) <= MAX_LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].endswith(report.state)
    assert lines[0].startswith("ch02.gqa")


@given(reports())
def test_the_next_step_is_never_cut_off(report):
    if report.state == "NOT YET":
        assert render(report).split("\n")[-1].startswith("  next      hint ch02.gqa (1 of 3)")


class Texts(HTMLParser):
    def __init__(self, source: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)

    def handle_data(self, data):
        self.texts.append(data)


@given(reports())
def test_html_shows_the_same_text_and_no_markup_of_the_learner(report):
    parsed = Texts(render_html(report))
    assert parsed.tags == ["pre"]
    assert "".join(parsed.texts).replace("\r", "\n") == render(report).replace("\r", "\n")


def test_the_sample():
    report = Report(
        task_id="ch02.gqa",
        state="NOT YET",
        checks=("a", "heads read the right KV head", "b", "c"),
        num_passed=1,
        failure=Failure(
            facts=(
                ("call", "attend(q, k, v)   q (2,8,5,16)  k,v (2,2,5,16)  seed 11"),
                ("", "shape ok (2,8,5,16)   dtype ok float32   finite ok"),
                ("pattern", "heads 0 and 7 right, 1-6 wrong"),
            ),
            likely=("gqa.tile", 'your output equals "KV heads tiled" on 3 inputs'),
            trace="Traceback",
        ),
        look_at="the line that expands k",
        try_it="k = arange(heads)",
    )
    assert render(report).split("\n") == [
        'ch02.gqa   check 2 of 4 "heads read the right KV head"                   NOT YET',
        "  call      attend(q, k, v)   q (2,8,5,16)  k,v (2,2,5,16)  seed 11",
        "  shape ok (2,8,5,16)   dtype ok float32   finite ok",
        "  pattern   heads 0 and 7 right, 1-6 wrong",
        '  likely    your output equals "KV heads tiled" on 3 inputs [gqa.tile]',
        "  look at   the line that expands k",
        "  try       k = arange(heads)",
        "  then      2 more not reached: b, c",
        "  next      hint ch02.gqa (1 of 3)   ·   -v for the trace",
    ]
    assert "Traceback" not in render(report)
    assert render(report, verbose=True).endswith("Traceback")


def test_a_skipped_check_says_that_it_is_no_pass():
    text = render(Report(task_id="ch06.kernel", state="SKIPPED"))
    assert "SKIPPED" in text
    assert "not a pass" in text


def test_the_summary_counts_states():
    states = ["PASSED", "NOT YET", "PASSED"]
    reports_ = [Report(task_id="x", state=state) for state in states]
    assert summary(reports_) == "2 passed, 1 not yet"
