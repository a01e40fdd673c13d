"""What a computation has to know of the device it runs on, and no more.

`to_device` lets arrays cross to it without anybody waiting; `uses_kernels` says whether a layer
computes with a Triton kernel there, or with PyTorch's operators. The operators stay in each layer,
as the formula to read and as what runs on a CPU. Kernels are imported where they are called, as
their import chooses, for the whole process, whether Triton interprets or compiles.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor


def to_device(array: np.ndarray, device: torch.device) -> Tensor:
    """A copy of the array on `device`."""
    # Copied in any case: it may have gaps (a field of records), and its owner may change it while
    # the device still reads. A GPU copies by itself from memory that is pinned, that is, never
    # moved to disk; from any other the driver copies first, and the host waits for it.
    tensor = torch.from_numpy(array.copy())
    return tensor if device.type == "cpu" else tensor.pin_memory().to(device, non_blocking=True)


def uses_kernels(x: Tensor) -> bool:
    """Whether `x` is where compiled Triton kernels run."""
    return x.is_cuda and has_triton()


@cache
def has_triton() -> bool:
    """Whether Triton is installed; it exists for Linux."""
    return find_spec("triton") is not None
