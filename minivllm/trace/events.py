"""What can happen in a step, as typed records, and the `Trace` that collects them.

Scheduler, block pool and engine core are given a `Trace` or `None`; with `None` the cost of tracing
is one comparison where an event would have been made. An event says what was decided and never
repeats what earlier events tell: who holds which block follows from all of them, see `replay.py`.
Next file to read: `file.py`.
"""

from __future__ import annotations

import time
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
    """A request computes `num_tokens` tokens, after the `num_computed_tokens` it already has.

    Attributes:
        num_known_tokens: Its tokens so far, prompt and generated. Where the other two add up to
            this, the step samples the next one.
        new_block_ids: Blocks appended to its table in this step, cached prefix first.
    """

    request_id: str
    num_tokens: int
    num_computed_tokens: int
    num_known_tokens: int
    new_block_ids: tuple[int, ...] = ()


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


@dataclass(frozen=True, kw_only=True, slots=True)
class StepExecuted(TraceEvent):
    """A step was planned, run and entered.

    Attributes:
        start: When it began, in seconds since the trace did.
        seconds: How long it took.
        num_running: Requests with blocks, while it ran.
        num_waiting: Requests without.
        kv_usage: Share of the blocks in use, while it ran.
    """

    start: float
    seconds: float
    num_running: int
    num_waiting: int
    kv_usage: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StepFailed(TraceEvent):
    """A step failed and was undone: every request waits again, and the pool is empty."""


@dataclass(kw_only=True)
class Trace:
    """The events of an engine, in order.

    Attributes:
        step: The step that is being planned; the scheduler moves it on.
        events: What happened so far.
        num_blocks: Blocks of the KV cache, once the engine knows.
        block_size: Tokens per block.
        began: When the trace began, in seconds of `time.monotonic`. It means nothing in another
            process, so it is neither compared nor saved.
    """

    step: int = 0
    events: list[TraceEvent] = field(default_factory=list)
    num_blocks: int | None = None
    block_size: int | None = None
    began: float = field(default_factory=time.monotonic, compare=False)

    def add(self, event: TraceEvent) -> None:
        """Append one event."""
        self.events.append(event)
