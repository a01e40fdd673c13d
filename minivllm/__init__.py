"""minivllm: a small LLM inference engine to read, and a course to rebuild it by.

    from minivllm import LLM, SamplingParams

Importing it starts nothing: each name below is loaded when it is first used.
Next file to read: `minivllm/llm.py`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minivllm.config import (
        CacheConfig,
        LLMConfig,
        ModelConfig,
        ParallelConfig,
        SchedulerConfig,
    )
    from minivllm.errors import (
        CheckpointError,
        ConfigError,
        EngineDeadError,
        ModelNotFoundError,
        RequestError,
    )
    from minivllm.llm import LLM
    from minivllm.outputs import CompletionOutput, RequestMetrics, RequestOutput
    from minivllm.parts import Parts
    from minivllm.sampling_params import SamplingParams

__version__ = "0.1.0"

_MODULE_OF = {
    "LLM": "llm",
    "SamplingParams": "sampling_params",
    "LLMConfig": "config",
    "ModelConfig": "config",
    "CacheConfig": "config",
    "SchedulerConfig": "config",
    "ParallelConfig": "config",
    "Parts": "parts",
    "RequestOutput": "outputs",
    "CompletionOutput": "outputs",
    "RequestMetrics": "outputs",
    "ConfigError": "errors",
    "RequestError": "errors",
    "ModelNotFoundError": "errors",
    "CheckpointError": "errors",
    "EngineDeadError": "errors",
}

__all__ = [
    "LLM",
    "CacheConfig",
    "CheckpointError",
    "CompletionOutput",
    "ConfigError",
    "EngineDeadError",
    "LLMConfig",
    "ModelConfig",
    "ModelNotFoundError",
    "ParallelConfig",
    "Parts",
    "RequestError",
    "RequestMetrics",
    "RequestOutput",
    "SamplingParams",
    "SchedulerConfig",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'minivllm' has no attribute {name!r}")
    return getattr(import_module(f"minivllm.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
