"""Worker: one device, its model, and the memory of its KV cache.

It builds everything that a `ModelRunner` needs and decides how many blocks fit; it takes no part in
a step beyond passing the plan on.
Next file to read: `model_runner.py`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import LayerKVCache
from minivllm.attention.registry import attention_backend
from minivllm.config import LLMConfig
from minivllm.errors import ConfigError
from minivllm.messages import SchedulerOutput
from minivllm.models.hf_config import ModelArchitecture
from minivllm.models.loader import init_dummy_weights, load_weights
from minivllm.models.registry import model_class
from minivllm.parallel import TensorParallel
from minivllm.sample.sampler import Sampler
from minivllm.worker.device_graph import CaptureError, CudaGraph
from minivllm.worker.input_batch import InputBatch
from minivllm.worker.interfaces import CausalLM
from minivllm.worker.memory import GIB, largest_plan, physical_memory
from minivllm.worker.model_runner import ModelRunner
from minivllm.worker.step_under_way import StepUnderWay


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" is CUDA if there is one.

    Raises:
        ConfigError: CUDA is asked for, but not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            f"device={name!r} is not there: torch sees {torch.cuda.device_count()} CUDA devices. "
            'Use device="cpu", or install a CUDA build of torch'
        )
    return device


def resolve_dtype(name: str, device: torch.device) -> torch.dtype:
    """The number format called `name`; "auto" is float32 on a CPU, where bfloat16 is slower."""
    if name == "auto":
        name = "float32" if device.type == "cpu" else "bfloat16"
    dtype = getattr(torch, name)
    assert isinstance(dtype, torch.dtype), "ModelConfig lets no other name pass"
    return dtype


class Worker:
    """One device.

    Attributes:
        device: The device.
        runner: Runs the steps.
        bytes_per_block: What one block takes over all layers, keys and values.
    """

    def __init__(self, config: LLMConfig, arch: ModelArchitecture, folder: Path) -> None:
        """Load the model onto its device.

        Args:
            config: Its scheduler config has no `None` left.
            arch: The model's shape.
            folder: Where its weights are.

        Raises:
            ConfigError: The device is not there.
            CheckpointError: The weights are damaged or do not fit the model.
        """
        model_config, scheduler_config = config.model_config, config.scheduler_config
        assert scheduler_config.max_model_len is not None, "the engine resolves the config first"
        self._config = config
        self._arch = arch
        self.device = resolve_device(model_config.device)
        self._dtype = resolve_dtype(model_config.dtype_name, self.device)
        self._tp = TensorParallel()

        parts = config.parts
        if parts.attention is not None:
            attention = parts.attention()
        else:
            attention = attention_backend(model_config.attention_backend, self.device, self._dtype)
        self.runner = ModelRunner(
            model=self._load_model(attention, folder),
            attention=attention,
            sampler=(parts.sampler or Sampler)(),
            input_batch=self._new_input_batch(),
            device=self.device,
        )
        elements = 2 * arch.num_layers * arch.num_kv_heads * arch.head_dim
        self.bytes_per_block = elements * config.cache_config.block_size * self._dtype.itemsize

    def _load_model(self, attention: AttentionBackend, folder: Path) -> CausalLM:
        build = self._config.parts.model or model_class(self._arch.name)
        default_dtype = torch.get_default_dtype()
        torch.set_default_dtype(self._dtype)
        try:
            with self.device:
                model = build(self._arch, attention, self._tp)
        finally:
            torch.set_default_dtype(default_dtype)
        if self._config.model_config.load_format == "dummy":
            init_dummy_weights(model, seed=self._config.model_config.seed)
        else:
            load_weights(model, folder, progress=True)
        loaded: CausalLM = model.requires_grad_(False).eval()
        return loaded

    def _new_input_batch(self) -> InputBatch:
        config = self._config.scheduler_config
        assert config.max_model_len is not None, "the engine resolves the config first"
        block_size = self._config.cache_config.block_size
        return InputBatch(config.max_num_seqs, config.max_model_len, block_size)

    def determine_num_blocks(self) -> int:
        """How many blocks the cache has: as many as are asked for, or as fit.

        Raises:
            ConfigError: They do not fit; the message names bytes and the setting to change.
        """
        cache = self._config.cache_config
        if cache.num_blocks is not None:
            return cache.num_blocks
        if self.device.type == "cpu":
            available = int(cache.cpu_kv_cache_gib * GIB)
            knob = f"cpu_kv_cache_gib={cache.cpu_kv_cache_gib:g}"
        else:
            available = self._available_gpu_bytes()
            knob = f"gpu_memory_utilization={cache.gpu_memory_utilization:g}"
        if available < self.bytes_per_block:
            raise ConfigError(
                f"the KV cache has no room for a single block: {knob} leaves {available:,} bytes, "
                f"and a block of {cache.block_size} tokens takes {self.bytes_per_block:,}. "
                "Raise it, or choose a smaller block_size"
            )
        return available // self.bytes_per_block

    def _available_gpu_bytes(self) -> int:
        """The share of total memory that is ours, less what is in use and what a step needs."""
        before = torch.cuda.memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        self._profile_run()
        step_bytes = torch.cuda.max_memory_allocated(self.device) - before
        torch.cuda.empty_cache()
        free, total = torch.cuda.mem_get_info(self.device)
        share = self._config.cache_config.gpu_memory_utilization
        return max(0, int(total * share) - (total - free) - step_bytes)

    def _profile_run(self) -> None:
        """Run the largest step there can be, on a cache that is just large enough for it."""
        block_size = self._config.cache_config.block_size
        plan = largest_plan(self._config.scheduler_config, block_size)
        num_blocks = sum(len(new.block_ids) for new in plan.new_requests)
        self.runner.kv_caches = self._allocate(num_blocks)
        self.runner.execute_model(plan)
        self.runner.kv_caches = []
        self.reset()

    def initialize_kv_cache(self, num_blocks: int) -> None:
        """Allocate the pages of `num_blocks` blocks, and capture the graphs that use them.

        Raises:
            ConfigError: There is not enough memory; the message names bytes and setting.
        """
        needed = num_blocks * self.bytes_per_block
        try:
            if self.device.type == "cpu" and needed > physical_memory():
                raise MemoryError  # Linux would promise it now, and kill the process later
            self.runner.kv_caches = self._allocate(num_blocks)
        except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
            raise ConfigError(
                f"a KV cache of {num_blocks} blocks takes {needed:,} bytes, more than there is on "
                f"{self.device}: lower num_blocks, cpu_kv_cache_gib or gpu_memory_utilization"
            ) from error

        self._capture_graphs()

    def _capture_graphs(self) -> None:
        """Capture decode steps where there is something to gain, and the attention can be."""
        new_graph = self._config.parts.graph
        if new_graph is None and self.device.type == "cuda":
            new_graph = partial(CudaGraph, pool=torch.cuda.graph_pool_handle())
        is_eager = self._config.model_config.enforce_eager
        if new_graph is None or is_eager or not self.runner.attention.can_be_captured:
            return
        try:
            self.runner.capture_graphs(new_graph)
        except (torch.OutOfMemoryError, CaptureError) as error:
            if not isinstance(error.__cause__ or error, torch.OutOfMemoryError):
                raise
            raise ConfigError(
                f"the memory of {self.device} ran out while decode steps were captured as graphs: "
                "lower gpu_memory_utilization, num_blocks or max_num_seqs, or set "
                "enforce_eager=True"
            ) from error

    def _allocate(self, num_blocks: int) -> list[LayerKVCache]:
        arch, block_size = self._arch, self._config.cache_config.block_size
        shape = (2, num_blocks, block_size, arch.num_kv_heads, arch.head_dim)
        layers = range(arch.num_layers)
        pages = [torch.zeros(shape, dtype=self._dtype, device=self.device) for _ in layers]
        return [LayerKVCache(key=page[0], value=page[1]) for page in pages]

    def start(self, plan: SchedulerOutput) -> StepUnderWay:
        """Start one step."""
        return self.runner.start(plan)

    def reset(self) -> None:
        """Forget every request; pages keep what they hold, as none of it can be found any more."""
        self.runner.input_batch = self._new_input_batch()
