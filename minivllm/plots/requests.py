"""Requests as rows, steps as columns: who computed what, and who waited.

Next file to read: `blocks.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from minivllm.plots.picture import (
    BLUE,
    CROSSED,
    FONT_SIZE,
    SKY_BLUE,
    YELLOW,
    Picture,
    box,
    columns_of,
    count,
    has_room,
    label_steps,
    legend,
    new_axes,
)
from minivllm.trace import RequestFinished, RequestScheduled, Trace
from minivllm.trace.replay import PHASES, Phase, phases, runs, scheduled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LOOKS = {"prefill": BLUE, "chunk": SKY_BLUE, "decode": YELLOW, "preempted": CROSSED}
_LABELS = {"prefill": "prefill", "chunk": "prefill, only a chunk"}
_MAX_ROWS = 24  # up to which the figure grows, and each row has its name


def plot_requests(trace: Trace) -> Picture:
    """What each request did in each step; a number is how many tokens it computed.

    Raises:
        ValueError: Nothing ran in this trace.
    """
    columns = columns_of(trace)
    phase_of, plans = phases(trace), scheduled(trace)
    rows = {name: row for row, name in enumerate(phase_of)}
    figure, axes = new_axes(height=1.2 + 0.34 * min(len(rows), _MAX_ROWS))
    for name, row in rows.items():
        _draw_row(axes, row, phase_of[name], plans[name] if has_room(columns) else None)
    aborts = [
        event
        for event in trace.events
        if isinstance(event, RequestFinished) and event.finish_reason == "abort"
    ]
    for event in aborts:
        axes.plot(event.step + 1, rows[event.request_id] + 0.5, "X", color="black", clip_on=False)
    axes.set_ylim(len(rows), 0)
    axes.set_ylabel("request", fontsize=FONT_SIZE)
    shown = list(rows)[:: -(-len(rows) // _MAX_ROWS)]
    axes.set_yticks([rows[name] + 0.5 for name in shown], shown)
    label_steps(axes, columns)
    seen = {phase for cells in phase_of.values() for phase in cells.values()}
    looks = {_LABELS.get(phase, phase): _LOOKS[phase] for phase in PHASES if phase in seen}
    legend(axes, looks, {"aborted": "X"} if aborts else None)
    summary = _summary(phase_of, len(columns))
    lines = [f"Request {name}: {_in_words(cells)}." for name, cells in phase_of.items()]
    return Picture(figure, summary, " ".join([summary, *lines]))


def _draw_row(
    axes: Axes,
    row: int,
    phase_of: Mapping[int, Phase],
    plans: Mapping[int, RequestScheduled] | None,
) -> None:
    """One request: a numbered cell per step, or, without `plans`, a bar per phase."""
    if plans is None:
        for phase, run in runs(phase_of):
            box(axes, (run.start, row), len(run), _LOOKS[phase], None)
        return
    for step, phase in phase_of.items():
        number = str(plans[step].num_tokens) if step in plans else None
        box(axes, (step, row), 1, _LOOKS[phase], number)


def _summary(phase_of: Mapping[str, Mapping[int, Phase]], num_steps: int) -> str:
    num_preempted = sum("preempted" in cells.values() for cells in phase_of.values())
    return (
        f"{count(len(phase_of), 'request')} in {count(num_steps, 'step')}, "
        f"{num_preempted or 'none'} of them preempted."
    )


def _in_words(phase_of: Mapping[int, Phase]) -> str:
    """`prefill in step 0, decode in steps 1 to 4`."""
    parts = [
        f"{phase} in step {run.start}"
        if len(run) == 1
        else f"{phase} in steps {run.start} to {run[-1]}"
        for phase, run in runs(phase_of)
    ]
    return ", ".join(parts) or "never ran"
