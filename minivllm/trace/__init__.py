"""The trace: every decision of the scheduler and of the block pool, to keep, to read and to draw.

    scheduler, block pool, engine core --events--> Trace --+-- save_trace, load_trace   a file
                                                           +-- timeline                 text
                                                           +-- chrome_trace             Perfetto
                                                           +-- minivllm/plots/          figures

Reading order: `events.py`, `file.py`, `replay.py`, `text.py`, `chrome.py`. It knows nothing of the
engine, only the events themselves.
"""

from __future__ import annotations

from minivllm.trace.chrome import chrome_trace
from minivllm.trace.events import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
    BlockHit,
    RequestAdded,
    RequestFinished,
    RequestPreempted,
    RequestResumed,
    RequestScheduled,
    StepExecuted,
    StepFailed,
    Trace,
    TraceEvent,
)
from minivllm.trace.file import load_trace, save_trace
from minivllm.trace.text import timeline

__all__ = [
    "BlockAllocated",
    "BlockCached",
    "BlockEvicted",
    "BlockFreed",
    "BlockHit",
    "RequestAdded",
    "RequestFinished",
    "RequestPreempted",
    "RequestResumed",
    "RequestScheduled",
    "StepExecuted",
    "StepFailed",
    "Trace",
    "TraceEvent",
    "chrome_trace",
    "load_trace",
    "save_trace",
    "timeline",
]
