"""Gates over every chapter: stubs pass nothing, solutions everything; hints help and don't tell."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys

import pytest
from course_kit import each_task

from minivllm.course.controls import survivors
from minivllm.course.detective import Detective
from minivllm.course.exercise import Exercise
from minivllm.course.grade import grade
from minivllm.course.loading import run_source, take
from minivllm.course.probe import probes_of
from minivllm.course.registry import (
    SOLUTIONS,
    bank_of_chapter,
    chapters,
    file_of,
    mutants_of,
    solution_of,
    stub_of,
    tasks_of,
)
from minivllm.course.render import render
from minivllm.course.source import body_of, definitions, holes
from minivllm.course.stubs import ROOT, blank_solution

TASKS = each_task()
EXERCISES = [p for p in TASKS if isinstance(p.values[0], Exercise)]
DETECTIVES = [p for p in TASKS if isinstance(p.values[0], Detective)]


@pytest.mark.parametrize("chapter", chapters())
def test_the_chapter_can_be_imported(chapter):
    assert tasks_of(chapter)


@pytest.mark.parametrize("task", TASKS)
def test_the_stub_passes_nothing_and_says_so_in_three_lines(task, generated):
    report = grade(task, generated / "exercises")
    assert (report.state, report.num_passed) == ("NOT STARTED", 0)
    assert len(render(report).splitlines()) == 3


@pytest.mark.parametrize("task", TASKS)
def test_the_solution_passes(task, generated):
    report = grade(task, generated / "solutions")
    assert report.passed, render(report, verbose=True)
    assert report.seconds < task.seconds / 2, "slower machines need room"


@pytest.mark.parametrize("task", EXERCISES)
def test_answers_that_are_plainly_wrong_are_refused(task):
    solution = take(run_source(solution_of(task), f"<solution {task.id}>"), task.names)
    assert list(survivors(task, probes_of(task), solution)) == []


@pytest.mark.parametrize("task", DETECTIVES)
def test_the_planted_mistake_shows_and_its_fix_works(task):
    assert task.shows_bug(task.listing)
    assert not task.shows_bug(task.fixed())
    assert set(task.explain) == set(task.reasons) - {task.right}


def solution_lines(task) -> set[str]:
    """The statements that the learner is to write, without spaces; very short ones tell nothing."""
    tree, stub = ast.parse(solution_of(task)), ast.parse(stub_of(task))
    nodes = definitions(tree)
    texts = (
        ast.unparse(statement)
        for name in holes(stub, task.names)
        for child in body_of(nodes[name])
        for statement in ast.walk(child)
        if isinstance(statement, ast.stmt)
    )
    lines = {squeezed(line) for text in texts for line in text.splitlines()}
    return {line for line in lines if len(line) > 12}


def squeezed(text: str) -> str:
    return re.sub(r"\s+", "", text)


@pytest.mark.parametrize("task", TASKS)
def test_each_hint_says_something_and_none_is_the_solution(task):
    assert len(set(task.hints)) == 3
    for text in task.hints:
        assert len(text) > 15
        told = [line for line in solution_lines(task) if line in squeezed(text)]
        assert told == [], text


@pytest.mark.parametrize("task", TASKS)
def test_it_has_a_contract_and_asks_for_at_most_25_lines_a_function(task):
    solution = solution_of(task)
    nodes = definitions(ast.parse(solution))
    for name in holes(ast.parse(stub_of(task)), task.names):
        body = body_of(nodes[name])
        lines = solution.splitlines()[body[0].lineno - 1 : nodes[name].end_lineno]
        assert sum(bool(line.strip()) and "# SOLUTION" not in line for line in lines) <= 25, name
    for name in task.names:
        assert name in nodes, f"solutions/ has no {name}"
        assert ast.get_docstring(nodes[name]), f"{name} has no docstring: the contract"
    assert task.look_at
    assert task.try_it


@pytest.mark.parametrize("chapter", chapters())
def test_every_region_and_every_mutant_belongs_to_an_exercise(chapter):
    tasks = tasks_of(chapter)
    solution = file_of(chapter, SOLUTIONS).read_text()
    ids = set(re.findall(r'ExerciseNotStarted\("(.+?)"\)', blank_solution(solution, chapter)))
    assert ids == {task.id for task in tasks}
    topics = {task.topic for task in tasks}
    assert [mutant.id for mutant in bank_of_chapter(chapter) if mutant.topic not in topics] == []
    assert all(mutants_of(task) for task in tasks if not isinstance(task, Detective))


def run_pytest(folder) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder)]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, cwd=folder.parent
    )


def test_pytest_finds_no_green_check_in_the_stubs(generated):
    run = run_pytest(generated / "exercises")
    assert run.returncode == 1
    last = run.stdout.splitlines()[-1]
    assert f"{len(TASKS)} failed" in last
    assert "passed" not in last


def test_pytest_finds_only_green_checks_in_the_solutions(generated):
    run = run_pytest(generated / "solutions")
    assert run.returncode == 0, run.stdout
    assert re.fullmatch(r"\d+ passed in .*", run.stdout.splitlines()[-1])
