"""A trace in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open.

    process "requests"   a track per request: prefill, chunk, decode, preempted
    process "engine"     the steps; the block pool: hits, allocations, evictions, frees
                         counters: blocks in use, requests running and waiting

Times are in microseconds since the trace began. Decisions have no time of their own: those made
while a step was planned stand at its start, later ones at its end.
Source: "Trace Event Format", the document that Chrome's developers publish under this name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from minivllm.trace.events import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
    BlockHit,
    RequestFinished,
    RequestScheduled,
    StepExecuted,
    StepFailed,
    Trace,
    TraceEvent,
)
from minivllm.trace.replay import phases, pool_states, request_ids, runs, scheduled, steps

_REQUESTS, _ENGINE = 1, 2  # process ids
_STEPS, _POOL = 1, 2  # the engine's thread ids
_UNTIMED_STEP = 1000.0  # microseconds, for a trace without `StepExecuted`
_POOL_VERBS: dict[type[TraceEvent], str] = {
    BlockHit: "hit",
    BlockAllocated: "allocated",
    BlockCached: "cached",
    BlockEvicted: "evicted",
    BlockFreed: "freed",
}
_BLOCK_EVENTS = (BlockHit, BlockAllocated, BlockCached, BlockEvicted, BlockFreed)

ChromeEvent = dict[str, Any]


def chrome_trace(trace: Trace) -> dict[str, Any]:
    """The trace as an object to be written with `json.dump`."""
    spans = _step_spans(trace)
    events = [*_names(trace), *_request_events(trace, spans), *_engine_events(trace, spans)]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _step_spans(trace: Trace) -> dict[int, tuple[float, float]]:
    """When each step began and ended, in microseconds."""
    timed = {event.step: event for event in trace.events if isinstance(event, StepExecuted)}
    spans: dict[int, tuple[float, float]] = {}
    end = 0.0
    for step in steps(trace):
        if step in timed:
            start = timed[step].start * 1e6
            end = start + timed[step].seconds * 1e6
        else:  # without a time: it failed, or nothing in this trace has one
            start = end
            end = start + (0.0 if timed else _UNTIMED_STEP)
        spans[step] = (start, end)
    return spans


def _slice(
    name: str, track: tuple[int, int], span: tuple[float, float], **args: Any
) -> ChromeEvent:
    start, end = span
    event = {"name": name, "ph": "X", "pid": track[0], "tid": track[1], "args": args}
    return {**event, "ts": round(start, 3), "dur": round(end - start, 3)}


def _instant(name: str, track: tuple[int, int], time: float, **args: Any) -> ChromeEvent:
    event = {"name": name, "ph": "i", "s": "t", "pid": track[0], "tid": track[1], "args": args}
    return {**event, "ts": round(time, 3)}


def _counter(name: str, time: float, **values: int) -> ChromeEvent:
    event = {"name": name, "ph": "C", "pid": _ENGINE, "tid": 0, "args": values}
    return {**event, "ts": round(time, 3)}


def _names(trace: Trace) -> list[ChromeEvent]:
    """What the tracks are called."""
    names = {(_ENGINE, _STEPS): "steps", (_ENGINE, _POOL): "block pool"}
    names |= {(_REQUESTS, tid): name for name, tid in _track_numbers(trace).items()}
    processes = [
        {"name": "process_name", "ph": "M", "pid": pid, "tid": 0, "args": {"name": name}}
        for pid, name in ((_REQUESTS, "requests"), (_ENGINE, "engine"))
    ]
    threads = [
        {"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
        for (pid, tid), name in names.items()
    ]
    return [*processes, *threads]


def _track_numbers(trace: Trace) -> dict[str, int]:
    return {name: tid for tid, name in enumerate(request_ids(trace), start=1)}


def _request_events(trace: Trace, spans: dict[int, tuple[float, float]]) -> Iterator[ChromeEvent]:
    plans = scheduled(trace)
    tracks = {name: (_REQUESTS, tid) for name, tid in _track_numbers(trace).items()}
    for name, phase_of in phases(trace).items():
        for phase, run in runs(phase_of):
            if phase == "preempted":  # until it runs again
                start, _ = _span_at(spans, run.start)
                end, _ = _span_at(spans, run.stop)
                yield _slice(phase, tracks[name], (start, end))
                continue
            for step in run:
                plan = asdict(plans[name][step])
                del plan["request_id"]
                yield _slice(phase, tracks[name], spans[step], **plan)
    for event in trace.events:
        if isinstance(event, RequestFinished):
            _, end = _span_at(spans, event.step)
            reason = event.finish_reason
            yield _instant(f"finished ({reason})", tracks[event.request_id], end, step=event.step)


def _engine_events(trace: Trace, spans: dict[int, tuple[float, float]]) -> Iterator[ChromeEvent]:
    blocks: dict[tuple[float, str], list[int]] = defaultdict(list)
    planned: set[int] = set()
    for event in trace.events:
        start, end = _span_at(spans, event.step)
        time = end if event.step in planned else start
        if isinstance(event, _BLOCK_EVENTS):
            blocks[time, _POOL_VERBS[type(event)]].append(event.block_id)
        elif isinstance(event, RequestScheduled):
            planned.add(event.step)
        elif isinstance(event, StepExecuted):
            yield _counter("requests", start, running=event.num_running, waiting=event.num_waiting)
        elif isinstance(event, StepFailed):
            yield _instant("step failed", (_ENGINE, _STEPS), end, step=event.step)
    for (time, verb), block_ids in blocks.items():
        yield _instant(verb, (_ENGINE, _POOL), time, block_ids=block_ids)
    for step, state in pool_states(trace).items():
        yield _slice(f"step {step}", (_ENGINE, _STEPS), spans[step])
        values = {"in use": state.num_used, "cached": state.num_cached}
        yield _counter("blocks", spans[step][0], **values)


def _span_at(spans: dict[int, tuple[float, float]], step: int) -> tuple[float, float]:
    """A step's span; what happened after the last step stands at the end of that one."""
    if step in spans or not spans:
        return spans.get(step, (0.0, 0.0))
    last = max(spans)
    return (spans[last][1], spans[last][1]) if step > last else spans[min(spans)]
