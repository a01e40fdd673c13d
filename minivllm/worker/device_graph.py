"""A step recorded once and replayed many times: the interface, and the CUDA graph behind it.

Launching a kernel costs the host some microseconds, and a decode step has hundreds of them: at
small batches the GPU waits for the host. A graph holds all of a step's launches with their
arguments and is launched as one. What that means:

    static addresses    a replay reads and writes the memory that the step used at its capture:
                        new inputs are copied into the old tensors, results appear in the old ones
    frozen host code    no Python runs in a replay: an `if`, a loop's count, an integer stay as
                        they were at capture
    no way back         the host can't look at a value in the middle, so nothing may depend on one

Knows nothing of models or batches. Next file to read: `recorded_graph.py`, the same on a CPU.
Source: docs.pytorch.org/docs/stable/notes/cuda.html, section "CUDA Graphs".
"""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Literal, TypeVar

import torch

T = TypeVar("T")

_ONE_CAPTURE_AT_A_TIME = Lock()  # as CUDA has it: one in a process


class CaptureError(RuntimeError):
    """A step that can't be a graph, or a graph used in the wrong order."""


class DeviceGraph(ABC):
    """The operations of one step, with their memory."""

    def __init__(self) -> None:
        self._state: Literal["new", "failed", "captured"] = "new"

    def capture(self, step: Callable[[], T]) -> T:
        """What `step` returned: its tensors are the static outputs, to be read after a replay.

        Until the first replay their contents are undefined. `step` is called twice: first as a
        rehearsal, in which kernels are compiled and what is made once is made. Its operations are
        carried out then, so let it write nowhere that matters: slots of -1, or scratch memory. The
        tensors that it reads stay the caller's, to be kept alive as long as the graph.

        Raises:
            CaptureError: `step` does what a graph can't hold, this graph has been captured before,
                or another capture is going on. An error of `step` itself is passed on. After either
                this graph is of no use; a new one may be captured.
        """
        if self._state != "new":
            raise CaptureError(f"this graph has {self._state}: capture() needs a new one")
        if not _ONE_CAPTURE_AT_A_TIME.acquire(blocking=False):
            raise CaptureError(
                "capture() inside another capture: a graph can't hold a graph. Capture one step "
                "after the other"
            )
        self._state = "failed"  # unless the end is reached
        try:
            with torch.no_grad():
                outputs = self._record(step)
        finally:
            _ONE_CAPTURE_AT_A_TIME.release()
        self._state = "captured"
        return outputs

    def replay(self) -> None:
        """Runs the recorded operations again, on the same memory.

        Raises:
            CaptureError: There is nothing to replay.
        """
        if self._state != "captured":
            what = "its capture failed" if self._state == "failed" else "nothing was captured yet"
            raise CaptureError(f"replay() of a graph without operations: {what}")
        self._run()

    @abstractmethod
    def _record(self, step: Callable[[], T]) -> T:
        """What `step` returns, after a rehearsal and the recording."""

    @abstractmethod
    def _run(self) -> None:
        """Run what was recorded."""


class CudaGraph(DeviceGraph):
    """A CUDA graph. `replay` returns at once, as a launch does: the GPU works in stream order."""

    def __init__(self, pool: Any = None) -> None:
        """A graph still to be captured.

        Args:
            pool: From `torch.cuda.graph_pool_handle()`: graphs with one pool use the same memory
                for what is in between, so they must not run at the same time, and the outputs of
                one that the caller has let go of are overwritten by another. `None` is memory of
                its own.
        """
        super().__init__()
        self._pool = pool
        self._graph = torch.cuda.CUDAGraph()

    def _record(self, step: Callable[[], T]) -> T:
        current, side = torch.cuda.current_stream(), _side_stream(torch.cuda.current_device())
        side.wait_stream(current)
        with torch.cuda.stream(side):  # and back, where torch.cuda.graph fails and forgets it
            step()
            try:
                graph = torch.cuda.graph(self._graph, pool=self._pool, stream=side)
                with _no_garbage_collection(), graph:
                    outputs = step()
            except RuntimeError as error:  # the rehearsal went well: it is the capture that fails
                raise CaptureError(
                    "CUDA refused an operation of the step. Capture it with RecordedGraph, which "
                    "names the operation and says what to do instead"
                ) from error
        current.wait_stream(side)
        return outputs

    def _run(self) -> None:
        self._graph.replay()


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Let no old engine be taken apart now: whatever CUDA frees in a capture makes it invalid."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """Where graphs are captured: the default stream can't be.

    One for all of them. A pool shares memory only within a stream, and for each stream cuBLAS takes
    a workspace of its own: 32 MiB on an H200.
    """
    return torch.cuda.Stream(device)
