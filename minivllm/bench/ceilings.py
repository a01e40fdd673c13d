"""Ceilings: how fast this machine copies, reads and multiplies, measured before anything else.

Only a GPU has them here: on a CPU a small model fits into the caches, and no bandwidth of the
memory says how fast it could be read.
Next file to read: `adapter.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import torch

from minivllm.bench.floors import Ceilings, ModelWork
from minivllm.errors import ConfigError
from minivllm.models.hf_config import ModelArchitecture, parse_config, read_config
from minivllm.worker.worker import resolve_device, resolve_dtype

_NUM_BYTES = 2 << 30  # far beyond any cache
_SIZE = 8192  # of the matrices
_NUM_RUNS = 9


def require_gpu(what: str) -> torch.device:
    """The GPU to measure on.

    Raises:
        ConfigError: There is none.
    """
    if not torch.cuda.is_available():
        raise ConfigError(f"{what} measures a GPU, and torch {torch.__version__} sees none here")
    return torch.device("cuda")


def model_and_ceilings(
    folder: str, settings: Mapping[str, Any]
) -> tuple[ModelArchitecture, ModelWork, Ceilings | None]:
    """What a model has to do, and how fast the device of these settings can be; `None` on a CPU."""
    arch = parse_config(read_config(Path(folder)))
    device = resolve_device(settings["device"])
    dtype = resolve_dtype(settings["dtype"], device)
    ceilings = None if device.type == "cpu" else measure_ceilings(device)
    torch.cuda.empty_cache()  # of what was copied: the engine asks how much memory is free
    return arch, ModelWork.of(arch, dtype.itemsize), ceilings


def measure_ceilings(device: torch.device) -> Ceilings:
    """The speeds of a GPU: medians, over random data in bfloat16."""
    source = torch.randn(_NUM_BYTES // 2, device=device, dtype=torch.bfloat16)
    target = torch.empty_like(source)
    copy = 2 * _NUM_BYTES / _seconds(partial(target.copy_, source))
    read = _NUM_BYTES / _seconds(_reader(source))
    a, b = (torch.randn(_SIZE, _SIZE, device=device, dtype=torch.bfloat16) for _ in range(2))
    matmul = 2 * _SIZE**3 / _seconds(partial(torch.matmul, a, b))
    return Ceilings(copy=copy, read=read, matmul=matmul)


def _reader(source: torch.Tensor) -> Callable[[], object]:
    """A pass over `source`: by a kernel of its own, or by PyTorch's maximum without Triton."""
    from minivllm.device import has_triton

    if not has_triton():
        return source.amax
    from minivllm.bench.read_kernel import read_all

    return lambda: read_all(source)


def _seconds(operation: Callable[[], object]) -> float:
    """Median time of one operation, after three that warm up."""
    for _ in range(3):
        operation()
    times = []
    for _ in range(_NUM_RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        operation()
        end.record()
        end.synchronize()
        times.append(float(start.elapsed_time(end)) / 1e3)
    return median(times)
