"""Every setting of the engine, checked where it is made.

Four frozen groups (model, cache, scheduler, parallel) and `LLMConfig`, which holds them. A wrong
value raises `ConfigError` with the field, the value and the remedy; nothing is written back
into a config later. What only the loaded model can decide (the context length, how many blocks
fit) is computed at start-up and travels as an argument.

Imports no torch: a dtype is compared by name. Next file to read: `minivllm/sampling_params.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from minivllm.checks import check_at_least, check_bool, check_one_of, is_int, is_number
from minivllm.errors import ConfigError
from minivllm.parts import Parts

if TYPE_CHECKING:
    import torch

SchedulingPolicy = Literal["fcfs", "priority"]

_DTYPE_NAMES = {
    "auto": "auto",
    "float32": "float32",
    "float": "float32",
    "fp32": "float32",
    "float16": "float16",
    "half": "float16",
    "fp16": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
}
DEFAULT_MODEL = "storyteller-7m"  # shipped: minivllm/assets/storyteller-7m/README.md
_DEFAULT_TOKEN_BUDGET = 2048


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Which model, where it runs, and in which number format.

    Attributes:
        model: A shipped or known name, a folder, or a Hugging Face repository id.
        tokenizer: The same for the tokenizer; `None` takes the model's.
        device: "auto" (CUDA if there is one), "cpu", "cuda" or "cuda:N".
        dtype: A torch dtype or its name; "auto" or `None` is float32 on a CPU, bfloat16 on CUDA.
        load_format: "safetensors" reads the checkpoint, "dummy" makes seeded random weights.
        attention_backend: "auto" (Triton on a GPU, else SDPA), "triton", "sdpa", "reference".
        enforce_eager: Never capture CUDA graphs.
        seed: Base of every random number of the engine (dummy weights, unseeded sampling).
    """

    model: str | Path = DEFAULT_MODEL
    tokenizer: str | Path | None = None
    device: str = "auto"
    dtype: str | torch.dtype | None = None
    load_format: Literal["auto", "safetensors", "dummy"] = "auto"
    attention_backend: str = "auto"
    enforce_eager: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            ConfigError: A value is out of its range.
        """
        for name in ("model", "tokenizer"):
            value = getattr(self, name)
            is_default = name == "tokenizer" and value is None
            if not is_default and not (isinstance(value, str | Path) and str(value).strip()):
                raise ConfigError(f"{name}={value!r} must be a name or a folder")
        if not re.fullmatch("auto|cpu|cuda(:[0-9]+)?", str(self.device)):
            raise ConfigError(f"device={self.device!r} is unknown: use auto, cpu, cuda or cuda:N")
        _ = self.dtype_name
        check_one_of("load_format", self.load_format, ("auto", "safetensors", "dummy"))
        backends = ("auto", "reference", "sdpa", "triton")
        check_one_of("attention_backend", self.attention_backend, backends)
        check_bool("enforce_eager", self.enforce_eager)
        check_at_least("seed", self.seed, 0)

    @property
    def dtype_name(self) -> str:
        """The number format by name: "auto", "float32", "float16" or "bfloat16".

        Raises:
            ConfigError: The dtype is none of these.
        """
        name = "auto" if self.dtype is None else str(self.dtype).removeprefix("torch.")
        if name not in _DTYPE_NAMES:
            raise ConfigError(
                f"dtype={self.dtype!r} is unknown: use auto, float32, float16 or bfloat16"
            )
        return _DTYPE_NAMES[name]


@dataclass(frozen=True, kw_only=True)
class CacheConfig:
    """The paged KV cache: how long a block is, and how many there are.

    Attributes:
        block_size: Tokens per block; a power of two.
        num_blocks: Blocks in the pool; `None` derives it from memory.
        gpu_memory_utilization: Share of the GPU's total memory that weights, activations and
            cache together may take.
        cpu_kv_cache_gib: Size of the cache in GiB when the model runs on a CPU.
        enable_prefix_caching: Keep the blocks of finished requests for prompts that start alike.
    """

    block_size: int = 16
    num_blocks: int | None = None
    gpu_memory_utilization: float = 0.9
    cpu_kv_cache_gib: float = 1.0
    enable_prefix_caching: bool = True

    def __post_init__(self) -> None:
        """Check each field.

        Raises:
            ConfigError: A value is out of its range.
        """
        block_size = self.block_size
        if not is_int(block_size) or block_size < 1 or block_size & (block_size - 1):
            raise ConfigError(f"{block_size=} must be a power of two, such as 16")
        if self.num_blocks is not None:
            check_at_least("num_blocks", self.num_blocks, 1)
        share = self.gpu_memory_utilization
        if not is_number(share) or not 0 < share <= 1:
            raise ConfigError(f"gpu_memory_utilization={share!r} must be above 0 and at most 1")
        gib = self.cpu_kv_cache_gib
        if not is_number(gib) or gib <= 0:
            raise ConfigError(f"cpu_kv_cache_gib={gib!r} must be a number above 0 (GiB)")
        check_bool("enable_prefix_caching", self.enable_prefix_caching)


@dataclass(frozen=True, kw_only=True)
class SchedulerConfig:
    """How much work one step may hold, and who goes first.

    Attributes:
        max_model_len: Longest prompt plus output in tokens; `None` is what the model allows.
        max_num_batched_tokens: The token budget of a step; `None` is 2048, or `max_model_len` if
            that is larger and chunking is off.
        max_num_seqs: Most requests that run at once.
        enable_chunked_prefill: A prompt longer than the rest of the budget is split over steps.
        scheduling_policy: "fcfs", or "priority" (the smaller number first).
        async_scheduling: Plan a step while the one before runs, so that a GPU never waits for the
            plan; tokens come one step later. `None` is on for a GPU, and off for a CPU, which
            would have to do both.
    """

    max_model_len: int | None = None
    max_num_batched_tokens: int | None = None
    max_num_seqs: int = 256
    enable_chunked_prefill: bool = True
    scheduling_policy: SchedulingPolicy = "fcfs"
    async_scheduling: bool | None = None

    def __post_init__(self) -> None:
        """Check each field and the budget against the context length.

        Raises:
            ConfigError: A value is out of its range, or the budget can't hold a prompt.
        """
        if self.max_model_len is not None:
            check_at_least(
                "max_model_len", self.max_model_len, 2
            )  # one prompt token, one new token
        if self.max_num_batched_tokens is not None:
            check_at_least("max_num_batched_tokens", self.max_num_batched_tokens, 1)
        check_at_least("max_num_seqs", self.max_num_seqs, 1)
        check_bool("enable_chunked_prefill", self.enable_chunked_prefill)
        check_one_of("scheduling_policy", self.scheduling_policy, ("fcfs", "priority"))
        if self.async_scheduling is not None:
            check_bool("async_scheduling", self.async_scheduling)
        budget, length = self.max_num_batched_tokens, self.max_model_len
        if not self.enable_chunked_prefill and budget and length and budget < length:
            raise ConfigError(
                f"max_num_batched_tokens={budget} is less than max_model_len={length}, and "
                f"enable_chunked_prefill is off: a prompt of {length} tokens could never run. "
                "Raise the budget, lower max_model_len, or turn chunked prefill on"
            )

    def resolved(self, model_limit: int) -> SchedulerConfig:
        """The same settings with no `None` left, for a model that can see `model_limit` tokens.

        Raises:
            ConfigError: `max_model_len` is beyond what the model can do.
        """
        length = self.max_model_len or model_limit
        if length > model_limit:
            raise ConfigError(
                f"max_model_len={length} is more than the {model_limit} tokens that the model's "
                f"config.json allows (max_position_embeddings); use {model_limit} or less"
            )
        budget = self.max_num_batched_tokens or _DEFAULT_TOKEN_BUDGET
        if not self.enable_chunked_prefill and self.max_num_batched_tokens is None:
            budget = max(budget, length)
        return replace(self, max_model_len=length, max_num_batched_tokens=budget)


@dataclass(frozen=True, kw_only=True)
class ParallelConfig:
    """Over how many devices a layer's weights are split."""

    tensor_parallel_size: int = 1

    def __post_init__(self) -> None:
        """Check the size.

        Raises:
            ConfigError: The size is below 1, or above 1 (not built yet).
        """
        check_at_least("tensor_parallel_size", self.tensor_parallel_size, 1)
        if self.tensor_parallel_size > 1:
            raise ConfigError(
                f"tensor_parallel_size={self.tensor_parallel_size} is not supported yet: use 1"
            )


@dataclass(frozen=True, kw_only=True)
class LLMConfig:
    """Everything an engine is built from.

    Attributes:
        model_config: See `ModelConfig`.
        cache_config: See `CacheConfig`.
        scheduler_config: See `SchedulerConfig`.
        parallel_config: See `ParallelConfig`.
        trace: Record every scheduling and cache decision.
        parts: Parts that take the place of the package's own.
    """

    model_config: ModelConfig = field(default_factory=ModelConfig)
    cache_config: CacheConfig = field(default_factory=CacheConfig)
    scheduler_config: SchedulerConfig = field(default_factory=SchedulerConfig)
    parallel_config: ParallelConfig = field(default_factory=ParallelConfig)
    trace: bool = False
    parts: Parts = field(default_factory=Parts)

    def __post_init__(self) -> None:
        """Check that each group is of its own type.

        Raises:
            ConfigError: A group is of another type.
        """
        groups = {**_GROUPS, "parts": Parts}
        for name, kind in groups.items():
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigError(f"{name}={value!r} must be a {kind.__name__}")
        check_bool("trace", self.trace)

    @classmethod
    def from_keywords(cls, **keywords: Any) -> LLMConfig:
        """The config that flat keywords such as `block_size=16` describe.

        Raises:
            ConfigError: A keyword is unknown, or its value is out of range.
        """
        own = {name: keywords.pop(name) for name in ("trace", "parts") if name in keywords}
        groups = {}
        for group, kind in _GROUPS.items():
            names = [f.name for f in fields(kind) if f.name in keywords]
            groups[group] = kind(**{name: keywords.pop(name) for name in names})
        if keywords:
            known = sorted(f.name for kind in _GROUPS.values() for f in fields(kind))
            raise ConfigError(
                f"unknown keyword {', '.join(map(repr, sorted(keywords)))}. "
                f"LLM takes: {', '.join([*known, 'parts', 'trace'])}"
            )
        return cls(**groups, **own)


_GROUPS: dict[str, Any] = {
    "model_config": ModelConfig,
    "cache_config": CacheConfig,
    "scheduler_config": SchedulerConfig,
    "parallel_config": ParallelConfig,
}
