"""The trace: every decision of the scheduler and of the block pool, as typed records.

`Trace` is a list that knows the current step. Scheduler and block pool are given one or `None`;
with `None` the cost of tracing is one comparison where an event would have been made. What the
events become (JSONL, figures) is the business of their readers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from minivllm.outputs import FinishReason


@dataclass(frozen=True, kw_only=True, slots=True)
class TraceEvent:
    """Something that was decided in step `step`."""

    step: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestAdded(TraceEvent):
    """A request joined the waiting queue."""

    request_id: str
    num_prompt_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestScheduled(TraceEvent):
    """A request computes `num_tokens` tokens, after the `num_computed_tokens` it already has."""

    request_id: str
    num_tokens: int
    num_computed_tokens: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestPreempted(TraceEvent):
    """A request lost its blocks and went back to the waiting queue."""

    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestResumed(TraceEvent):
    """A preempted request runs again."""

    request_id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RequestFinished(TraceEvent):
    """A request ended."""

    request_id: str
    finish_reason: FinishReason


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockAllocated(TraceEvent):
    """A block was taken from the free queue to be filled."""

    block_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockHit(TraceEvent):
    """A request found a block of its prompt in the prefix cache."""

    block_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockCached(TraceEvent):
    """A full block got a hash and can be found from now on."""

    block_id: int
    block_hash: str


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockEvicted(TraceEvent):
    """A cached block lost its hash, to be filled with something else."""

    block_id: int


@dataclass(frozen=True, kw_only=True, slots=True)
class BlockFreed(TraceEvent):
    """The last request that used a block let go of it."""

    block_id: int


@dataclass(kw_only=True)
class Trace:
    """The events of an engine, in order.

    Attributes:
        step: The step that is being planned; the scheduler moves it on.
        events: What happened so far.
    """

    step: int = 0
    events: list[TraceEvent] = field(default_factory=list)

    def add(self, event: TraceEvent) -> None:
        """Append one event."""
        self.events.append(event)
