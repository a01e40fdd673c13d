"""Shows a report: at most 18 lines of 80 columns, as text or as HTML.

Next file to read: `notebook.py`.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator

from minivllm.course.report import Fact, Report

PRE_STYLE = "white-space:pre-wrap;font-family:var(--jp-code-font-family,monospace)"
WIDTH = 80
MAX_LINES = 18
_LABEL = 10  # columns of a label, and of the indentation of what follows it
_ROOM = WIDTH - _LABEL - 2


def render(report: Report, *, verbose: bool = False) -> str:
    """The report as text; `verbose` adds the traceback and what was printed, without a limit."""
    lines = list(_lines(report))
    if len(lines) > MAX_LINES:
        lines = _shortened(lines)
    if verbose and report.failure is not None and report.failure.trace:
        lines += ["", *report.failure.trace.rstrip().splitlines()]
    if verbose and report.printed:
        lines += ["", "printed:", *report.printed.rstrip().splitlines()]
    return "\n".join(lines)


def render_html(report: Report) -> str:
    """The report for a notebook: the same text, its state in colour and in words."""
    colour = {"PASSED": "#0072B2", "NOT YET": "#B34700"}.get(report.state, "#555555")
    style = f"border-left:4px solid {colour};padding-left:8px;margin:0;{PRE_STYLE}"
    return f'<pre style="{style}">{html.escape(render(report))}</pre>'


def headline(left: str, state: str) -> str:
    """Name on the left, state at the right margin."""
    left = _cut(left, WIDTH - len(state) - 2)
    return f"{left}{state:>{WIDTH - len(left)}}"


def _lines(report: Report) -> Iterator[str]:
    if report.state == "PASSED":
        yield headline(f"{report.task_id}   {len(report.checks)} checks", "PASSED")
        yield from _fact("next", "minivllm next")
    elif report.state == "SKIPPED":
        yield headline(report.task_id, "SKIPPED")
        yield from _fact("why", "it needs a GPU, and there is none: this is not a pass")
    elif report.state == "NOT STARTED":
        yield from _not_started(report)
    else:
        yield from _not_yet(report)


def _not_started(report: Report) -> Iterator[str]:
    facts = dict(report.failure.facts) if report.failure is not None else {}
    unwritten = facts.get("unwritten", "")
    yield headline(report.task_id, "NOT STARTED")
    if "returned" in facts:
        write = f"a return: it gave None ({report.file}, line {report.line})"
    elif unwritten in ("", report.task_id):
        write = f"{report.file}, line {report.line}"
    else:
        write = f"{report.file}, line {report.line}: {unwritten}"
    yield f"  {'write':<{_LABEL}}{_cut(write, _ROOM)}"
    yield f"  {'then':<{_LABEL}}check {report.task_id}   ·   hint {report.task_id}"


def _not_yet(report: Report) -> Iterator[str]:
    failure = report.failure
    assert failure is not None, "what is not yet right has a reason"
    number = report.num_passed + 1
    name = report.checks[report.num_passed] if report.checks else ""
    head = f'{report.task_id}   check {number} of {len(report.checks)} "{name}"'
    yield headline(head, "NOT YET")
    for label, text in failure.facts:
        yield from _fact(label, text)
    if failure.likely is not None:
        mutant_id, sentence = failure.likely
        yield from _fact("likely", f"{sentence} [{mutant_id}]")
    yield from _fact("look at", failure.advice.look_at or report.look_at)
    yield from _fact("try", failure.advice.try_it or report.try_it)
    if rest := report.checks[number:]:
        yield from _fact("then", f"{len(rest)} more not reached: {', '.join(rest)}", 2)
    more = "   ·   -v for the trace" if failure.trace else ""
    yield from _fact("next", f"hint {report.task_id} ({report.hint} of 3){more}")


def _fact(label: str, text: str, max_lines: int = 3) -> Iterator[str]:
    """A label and a text that is wrapped; without a label, the text stands alone."""
    room = _ROOM if label else WIDTH - 2
    text = text if "   " in text else " ".join(text.split())
    lines = [text] if len(text) <= room else textwrap.wrap(text, room) or [""]
    if len(lines) > max_lines:
        lines = [*lines[: max_lines - 1], _cut(" ".join(lines[max_lines - 1 :]), room)]
    for index, line in enumerate(lines):
        head = f"{label if index == 0 else '':<{_LABEL}}" if label else ""
        yield f"  {head}{line}".rstrip()


def _shortened(lines: list[str]) -> list[str]:
    """The first and the last lines: the call and the difference, then the advice."""
    num_last = 6
    first = lines[: MAX_LINES - num_last - 1]
    return [*first, "  ...", *lines[-num_last:]]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def summary(reports: list[Report]) -> str:
    """A line for many reports."""
    counts: dict[str, int] = {}
    for report in reports:
        counts[report.state] = counts.get(report.state, 0) + 1
    facts: list[Fact] = [(state, str(count)) for state, count in counts.items()]
    return ", ".join(f"{count} {state.lower()}" for state, count in facts)
