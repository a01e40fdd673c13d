"""A trace as text: one line a step, for a terminal.

    step       ms  running  waiting    KV  what happened
       0      3.1        2        0   38%  a prefill 5 | b chunk 3 from 4 | hit block 0

"from 4" are the tokens computed before, or found in the prefix cache.
Next file to read: `chrome.py`.
"""

from __future__ import annotations

from collections import defaultdict

from minivllm.trace.events import (
    BlockCached,
    BlockEvicted,
    BlockHit,
    RequestAdded,
    RequestFinished,
    RequestPreempted,
    RequestScheduled,
    StepExecuted,
    StepFailed,
    Trace,
    TraceEvent,
)
from minivllm.trace.replay import phases

_BLOCK_VERBS: dict[str, type[BlockHit | BlockCached | BlockEvicted]] = {
    "hit": BlockHit,
    "evicted": BlockEvicted,
    "cached": BlockCached,
}
_HEADER = "step       ms  running  waiting    KV  what happened"


def timeline(trace: Trace) -> str:
    """One line per step: its time, the queues, and what each request did."""
    phase_of = phases(trace)
    by_step: dict[int, list[TraceEvent]] = defaultdict(list)
    for event in trace.events:
        by_step[event.step].append(event)
    lines = [_HEADER]
    for step, events in sorted(by_step.items()):
        words = []
        for event in events:
            if isinstance(event, RequestScheduled):
                words.append(_plan(event, phase_of[event.request_id][step]))
            elif text := _happening(event):
                words.append(text)
        words += [
            f"{verb} {_blocks(ids)}"
            for verb, kind in _BLOCK_VERBS.items()
            if (ids := [event.block_id for event in events if isinstance(event, kind)])
        ]
        lines.append(f"{step:>4} {_numbers(events)}  {' | '.join(words)}")
    return "\n".join(lines)


def _plan(event: RequestScheduled, phase: str) -> str:
    """A decode is always one token, so only the others say how many."""
    if phase == "decode":
        return f"{event.request_id} decode"
    start = f" from {event.num_computed_tokens}" if event.num_computed_tokens else ""
    return f"{event.request_id} {phase} {event.num_tokens}{start}"


def _happening(event: TraceEvent) -> str | None:
    match event:
        case RequestAdded(request_id=name):
            return f"{name} added"
        case RequestPreempted(request_id=name):
            return f"{name} preempted"
        case RequestFinished(request_id=name, finish_reason=reason):
            return f"{name} finished ({reason})"
        case StepFailed():
            return "the step failed: all start over"
    return None


def _blocks(block_ids: list[int]) -> str:
    noun = "block" if len(block_ids) == 1 else "blocks"
    return f"{noun} {', '.join(map(str, block_ids))}"


def _numbers(events: list[TraceEvent]) -> str:
    """Time and queues, for a step that was timed."""
    for event in events:
        if isinstance(event, StepExecuted):
            return (
                f"{event.seconds * 1e3:>8.1f}  {event.num_running:>7}  {event.num_waiting:>7}"
                f"  {event.kv_usage:>4.0%}"
            )
    return f"{'-':>8}  {'-':>7}  {'-':>7}  {'-':>4}"
