"""State machines: both sides get the same events, and a failure is shrunk to the fewest."""

from __future__ import annotations

import re

import pytest
from course_kit import (
    DEMO_MUTANTS,
    DETECTIVE,
    FREE_QUEUE,
    SOLUTION,
    STUB,
    attempt,
    bank,
    report_on,
)

from minivllm.course.bank import Bank
from minivllm.course.drive import drive, scaling_steps, shrink
from minivllm.course.examine import examine
from minivllm.course.loading import run_source, take
from minivllm.course.machine import Event, Trace
from minivllm.course.registry import build_mutant
from minivllm.course.render import render

POP = ("next(iter(self._blocks))", "next(reversed(self._blocks))")


def queue(*changes):
    source = SOLUTION
    for old, new in changes:
        assert old in source
        source = source.replace(old, new)
    return take(run_source(source, "<queue>"), ("FreeQueue",))


def test_the_solution_passes_every_check():
    report = report_on(FREE_QUEUE)
    assert report.passed
    assert report.checks[2:] == (
        "what is freed first is taken first",
        "freed twice is refused",
        "30 random traces",
        "remove takes as long in a long queue",
        "built by yourself",
    )


def test_the_report_prints_step_event_field_and_both_values():
    text = render(report_on(FREE_QUEUE, POP))
    assert re.search(r"step +1 +popleft\(\)", text)
    assert "differs   returned, after step 1" in text
    assert "got 1   expected 0" in text
    assert "[free_queue.lifo]" in text


def test_a_failure_is_shrunk_to_the_events_that_matter():
    events = [Event("append", 9), Event("remove", 3), Event("popleft"), Event("append", 0)]
    noise = [Event("remove", 2), Event("append", 2)] * 10
    trace = Trace("long", {"num_blocks": 5}, (*noise, *events, *noise))
    lost = queue(
        ("self._blocks[block] = None", "self._blocks.update({} if block else {0: None, 9: None})")
    )
    small, stop = shrink(FREE_QUEUE, lost, trace)
    assert len(small.events) <= 2
    assert stop.what in ("len", "order")


def test_what_the_oracle_refuses_must_be_refused():
    stop = drive(
        FREE_QUEUE,
        queue(("if block in self._blocks:", "if False:")),
        Trace("twice", {"num_blocks": 2}, (Event("append", 1),)),
    ).stop
    assert (stop.what, stop.got, stop.expected) == ("raised", "returned None", "ValueError")


def test_an_error_in_the_class_points_to_its_line():
    report = report_on(FREE_QUEUE, (*POP[:1], "self.missing"))
    facts = dict(report.failure.facts)
    assert facts["raised"].startswith("AttributeError")
    assert "self.missing" in facts["at"]


def test_a_broken_invariant_is_named():
    doubled = queue(
        ("iter(self._blocks)\n        # SOL", "iter([*self._blocks] * 2)\n        # SOL")
    )
    machine = type(FREE_QUEUE)(**{**vars(FREE_QUEUE), "observe": {}})
    trace = Trace("any", {"num_blocks": 2}, (Event("popleft"),))
    stop = drive(machine, doubled, trace).stop
    assert (stop.what, stop.expected) == ("invariant", "a block is free once")


def test_events_that_are_not_legal_are_left_out():
    trace = Trace("empty", {"num_blocks": 0}, (Event("popleft"), Event("remove", 1)))
    assert drive(FREE_QUEUE, queue(), trace).log == ()


def test_a_search_through_the_queue_is_counted_even_where_it_runs_in_c():
    by_list = next(m for m in DEMO_MUTANTS if m.id == "free_queue.list").implementation
    small, large = scaling_steps(FREE_QUEUE, by_list, FREE_QUEUE.scaling[0])
    assert large > 20 * small
    small, large = scaling_steps(FREE_QUEUE, queue(), FREE_QUEUE.scaling[0])
    assert small == large


@pytest.mark.parametrize(
    "mutant", [m for m in DEMO_MUTANTS if m.topic == "free_queue"], ids=lambda m: m.id
)
def test_each_mutant_is_named(mutant):
    target = build_mutant(mutant, FREE_QUEUE, SOLUTION)
    report = examine(attempt(FREE_QUEUE, ready=target), bank(FREE_QUEUE))
    assert report.failure.likely[0] == mutant.id


@pytest.mark.parametrize("method", ["popleft", "append", "__len__"])
def test_one_unwritten_method_is_not_started_and_named(method):
    stub = "def " + method
    start = SOLUTION.index("# SOLUTION BEGIN", SOLUTION.index(stub))
    end = SOLUTION.index("# SOLUTION END", start)
    source = SOLUTION[:start] + "pass\n        " + SOLUTION[end:]
    report = examine(attempt(FREE_QUEUE, source), Bank(FREE_QUEUE))
    assert report.state == "NOT STARTED"
    assert f"FreeQueue.{method}" in render(report)


def test_the_stub_is_three_lines():
    report = examine(attempt(FREE_QUEUE, STUB), Bank(FREE_QUEUE))
    assert len(render(report).splitlines()) == 3


@pytest.mark.parametrize(
    ("answer", "check", "text"),
    [
        ('return 5, "b"', "the right line", "the weights of a row do sum to 1"),
        ('return 99, "b"', "the right line", "of a listing of 5 lines"),
        ('return 4, "a"', "the right reason", "dim -1 runs over the keys"),
        ("return 4", "answers with (line, reason)", 'one of "a", "b", "c"'),
        ('return 4, "z"', "answers with (line, reason)", "the number of a line, 1 to 5"),
    ],
)
def test_a_detectives_wrong_answer_is_told_why(answer, check, text):
    wrong = report_on(DETECTIVE, ('return 3, "b"', answer))
    assert wrong.checks[wrong.num_passed] == check
    assert text in render(wrong)
    assert "4" not in dict(wrong.failure.facts).get("why", "")


def test_a_detectives_right_answer_passes():
    assert report_on(DETECTIVE, ('return 3, "b"', 'return 4, "b"')).passed
    assert DETECTIVE.shows_bug(DETECTIVE.listing)
    assert not DETECTIVE.shows_bug(DETECTIVE.fixed())
