"""What was going on in each step, worked out from the events: phases, pool, block tables.

Text, Perfetto files and figures are all made from these. A step is seen as it ran: after its plan
was made, before requests that ended in it gave their blocks back.
Next file to read: `text.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from minivllm.trace.events import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
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

Phase = Literal["prefill", "chunk", "decode", "preempted"]
PHASES: tuple[Phase, ...] = ("prefill", "chunk", "decode", "preempted")


@dataclass(frozen=True, slots=True)
class PoolState:
    """How many blocks of the pool are in which state.

    Attributes:
        num_used: In a request's table.
        num_cached: In none, but they still hold a prefix that can be hit.
        num_evicted: Lost their prefix in this step, to be filled anew.
    """

    num_used: int
    num_cached: int
    num_evicted: int


@dataclass(frozen=True, slots=True)
class TableEntry:
    """One block of a block table, and whether the prefix cache gave it."""

    block_id: int
    is_hit: bool


def request_ids(trace: Trace) -> list[str]:
    """The requests in the order in which they first appear."""
    kinds = (RequestAdded, RequestScheduled, RequestPreempted, RequestFinished)
    return list(dict.fromkeys(e.request_id for e in trace.events if isinstance(e, kinds)))


def steps(trace: Trace) -> range:
    """The steps in which something ran, with any between them."""
    numbers = [e.step for e in trace.events if isinstance(e, RequestScheduled | StepExecuted)]
    return range(min(numbers), max(numbers) + 1) if numbers else range(0)


def scheduled(trace: Trace) -> dict[str, dict[int, RequestScheduled]]:
    """For each request, what it computed in which step."""
    plans: dict[str, dict[int, RequestScheduled]] = {name: {} for name in request_ids(trace)}
    for event in trace.events:
        if isinstance(event, RequestScheduled):
            plans[event.request_id][event.step] = event
    return plans


def phases(trace: Trace) -> dict[str, dict[int, Phase]]:
    """For each request, its phase in each step; none where it waits or is not there.

    The engine has no phases, only tokens to catch up with; these are names for what is seen:

        prefill    all that was left of the known tokens, so the step samples the next one
        chunk      a part of them: nothing is sampled
        decode     one generated token
        preempted  waits to start over
    """
    num_prompt: dict[str, int] = {}
    found: dict[str, dict[int, Phase]] = {name: {} for name in request_ids(trace)}
    preempted_at: dict[str, int] = {}
    for event in trace.events:
        match event:
            case RequestAdded(request_id=name):
                num_prompt[name] = event.num_prompt_tokens
            case RequestPreempted(request_id=name, step=step):
                preempted_at[name] = step
            case RequestScheduled(request_id=name, step=step):
                _mark_preempted(found, name, preempted_at.pop(name, step), step)
                found[name][step] = _phase(event, num_prompt.get(name, 0))
            case RequestFinished(request_id=name, step=step):
                _mark_preempted(found, name, preempted_at.pop(name, step + 1), step + 1)
    for name, step in preempted_at.items():
        _mark_preempted(found, name, step, steps(trace).stop)
    return found


def _mark_preempted(
    found: dict[str, dict[int, Phase]], request_id: str, start: int, stop: int
) -> None:
    found.setdefault(request_id, {}).update(dict.fromkeys(range(start, stop), "preempted"))


def _phase(plan: RequestScheduled, num_prompt_tokens: int) -> Phase:
    if plan.num_computed_tokens + plan.num_tokens < plan.num_known_tokens:
        return "chunk"
    is_generated = plan.num_tokens == 1 and plan.num_known_tokens > num_prompt_tokens
    return "decode" if is_generated else "prefill"


def runs(phase_of: Mapping[int, Phase]) -> Iterator[tuple[Phase, range]]:
    """Consecutive steps of one phase, taken together."""
    start: int | None = None
    for step in sorted(phase_of):
        if start is None:
            start = step
        if phase_of.get(step + 1) != phase_of[step]:
            yield phase_of[step], range(start, step + 1)
            start = None


def pool_states(trace: Trace) -> dict[int, PoolState]:
    """The pool in each step; it is worked out from where the trace begins, with an empty pool."""
    used: set[int] = set()
    cached: set[int] = set()
    evictions = Counter(e.step for e in trace.events if isinstance(e, BlockEvicted))
    states: dict[int, PoolState] = {}
    for event in trace.events:
        match event:
            case BlockAllocated(block_id=block) | BlockHit(block_id=block):
                used.add(block)
            case BlockFreed(block_id=block):
                used.discard(block)
            case BlockCached(block_id=block):
                cached.add(block)
            case BlockEvicted(block_id=block):
                cached.discard(block)
            case StepFailed():
                used, cached = set(), set()
            case RequestScheduled(step=step):
                num_cached = len(cached - used)
                states[step] = PoolState(len(used), num_cached, evictions[step])
    return states


def block_table(trace: Trace, request_id: str, step: int) -> list[TableEntry]:
    """The block table of a request while `step` ran.

    Raises:
        ValueError: The request, or its table in that step, is not in the trace.
    """
    table: list[TableEntry] = []
    for event in trace.events:
        if event.step > step:
            break
        if isinstance(event, StepFailed) or (
            _gives_back(event, step) and _is_of(event, request_id)
        ):
            table = []
        elif isinstance(event, RequestScheduled) and event.request_id == request_id:
            table += _new_entries(trace, event, is_start=not table)
    if not table:
        known = [name for name, plans in scheduled(trace).items() if step in plans]
        raise ValueError(
            f"request {request_id!r} has no blocks in step {step}; "
            f"with blocks in that step: {', '.join(known) or 'none'}"
        )
    return table


def num_written(trace: Trace, request_id: str, step: int) -> int:
    """Tokens of a request whose keys and values are in the cache once `step` has run."""
    plans = [plan for at, plan in scheduled(trace)[request_id].items() if at <= step]
    last = max(plans, key=lambda plan: plan.step)
    return last.num_computed_tokens + last.num_tokens


def _gives_back(event: TraceEvent, step: int) -> bool:
    """Whether the event takes a request's blocks away before `step` runs."""
    is_end = isinstance(event, RequestFinished) and event.step < step
    return is_end or isinstance(event, RequestPreempted)


def _is_of(event: TraceEvent, request_id: str) -> bool:
    return getattr(event, "request_id", None) == request_id


def _new_entries(trace: Trace, plan: RequestScheduled, *, is_start: bool) -> list[TableEntry]:
    """The blocks a plan appends; only a request that starts can hit, and its hits come first."""
    if trace.block_size is None:
        raise ValueError("the trace does not know its block size: set trace.block_size")
    num_hits = plan.num_computed_tokens // trace.block_size if is_start else 0
    return [TableEntry(block, i < num_hits) for i, block in enumerate(plan.new_block_ids)]
