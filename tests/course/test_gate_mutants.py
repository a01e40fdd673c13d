"""Gate: every classic mistake is caught by a check, and named in the report."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from course_kit import each_task

from minivllm.course.matrix import PAGE, Row, rows_of, section
from minivllm.course.registry import mutants_of

TASKS = [param for param in each_task() if mutants_of(param.values[0])]


ADVICE = "run: python -m minivllm.course.build matrix"


@pytest.fixture(scope="module")
def page() -> str:
    return PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize("task", TASKS)
def test_each_mutant_is_caught_and_named_as_the_page_says(task, page):
    rows = list(rows_of(task))
    assert [(row.mutant.id, row.killed_by, row.named) for row in rows if not row.is_right] == []
    assert section(task, rows) in page, ADVICE


@pytest.mark.parametrize("task", TASKS)
def test_each_equivalence_class_has_a_mutant_of_its_name(task):
    ids = {mutant.id for mutant in mutants_of(task)}
    assert {mutant.group for mutant in mutants_of(task)} <= ids


def test_the_page_has_a_section_for_each_exercise_and_counts_its_rows(page):
    assert re.findall(r"^## (\S+)$", page, re.M) == [param.values[0].id for param in TASKS], ADVICE
    mutants = [mutant for param in TASKS for mutant in mutants_of(param.values[0])]
    wrong = [mutant for mutant in mutants if mutant.equivalent is None and mutant.gpu is None]
    n = len(wrong)
    assert f"\n{n} mistakes, {n} caught, {n} named " in page, ADVICE


def test_a_mutant_that_survives_or_goes_by_another_name_is_not_right():
    mutant = replace(mutants_of(TASKS[0].values[0])[0], equivalent=None, same_as=None)
    assert Row(mutant=mutant, killed_by="a check", named=mutant.id).is_right
    assert not Row(mutant=mutant, killed_by=None, named=None).is_right
    assert not Row(mutant=mutant, killed_by="a check", named="another").is_right
    assert not Row(
        mutant=replace(mutant, equivalent="because"), killed_by="a check", named=None
    ).is_right
