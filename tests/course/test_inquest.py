"""A detective's answer: its form, its line, its reason."""

from __future__ import annotations

import pytest
from course_kit import DETECTIVE, attempt

from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.render import render

LINE, LETTER = DETECTIVE.culprit_line, DETECTIVE.right


def report_on(answer):
    return examine(attempt(DETECTIVE, ready=lambda: answer), Bank(DETECTIVE))


@pytest.mark.parametrize("letter", [LETTER, LETTER.upper(), f" {LETTER} "])
@pytest.mark.parametrize("kind", [tuple, list])
def test_the_right_line_and_letter_pass_however_they_are_written(letter, kind):
    assert report_on(kind((LINE, letter))).passed


@pytest.mark.parametrize(
    "answer", [(str(LINE), LETTER), (LINE, [LETTER]), (LINE, {}), (True, LETTER), LETTER, (LINE,)]
)
def test_another_form_is_told_what_is_expected(answer):
    report = report_on(answer)
    assert dict(report.failure.facts)["expected"].startswith("the number of a line")
    assert "Traceback" not in render(report)


def test_a_right_line_with_a_wrong_reason_is_told_why_not():
    wrong = next(letter for letter in DETECTIVE.reasons if letter != LETTER)
    facts = dict(report_on((LINE, wrong)).failure.facts)
    assert facts["line"] == "found"
    assert facts["but"] == DETECTIVE.explain[wrong]


def test_a_line_that_is_not_there_is_told_how_many_there_are():
    assert f"of {len(DETECTIVE.source)} lines" in render(report_on((99, LETTER)))
