"""Parts: which implementation each place of the engine is built from.

A field left at `None` means the package's own part, and is resolved where that part is built. A
field that is set takes its place, called with the same arguments: this is how a chapter of the
course runs the learner's attention, sampler or scheduler inside the real engine. This module
knows nothing of the course, and of each part only the name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Parts:
    """Factories for the exchangeable parts of the engine; `None` is the package's own.

    Attributes:
        model: Called like `minivllm.models.qwen3.Qwen3ForCausalLM`:
            `model(arch, attention, tp)`, where `attention` is the backend. Used instead of the
            class that `architectures[0]` of the checkpoint would choose.
        attention: Called without arguments; gives an `AttentionBackend`.
        sampler: Called without arguments; gives an object with the `__call__` of
            `minivllm.sample.sampler.Sampler`.
        block_pool: Called like `minivllm.core.block_pool.BlockPool`:
            `block_pool(num_blocks, enable_caching=..., trace=...)`.
        scheduler: Called like `minivllm.core.scheduler.Scheduler`:
            `scheduler(scheduler_config, kv_cache_manager, trace=...)`. Steps then run in turn.
        graph: Called without arguments; gives a `minivllm.worker.device_graph.DeviceGraph` that is
            still to be captured. The package's own is a CUDA graph, and on a CPU there is none:
            with `minivllm.worker.recorded_graph.RecordedGraph` decode steps are captured there too
            (it needs attention_backend="triton").
    """

    model: Callable[..., Any] | None = None
    attention: Callable[..., Any] | None = None
    sampler: Callable[..., Any] | None = None
    block_pool: Callable[..., Any] | None = None
    scheduler: Callable[..., Any] | None = None
    graph: Callable[..., Any] | None = None
