"""Which attention backend a name stands for.

Next file to read: `backend.py`, what every backend promises.
"""

from __future__ import annotations

import torch

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention
from minivllm.device import has_triton
from minivllm.errors import ConfigError

NAMES = ("reference", "sdpa", "triton")


def attention_backend(name: str, device: torch.device, dtype: torch.dtype) -> AttentionBackend:
    """A new backend by its name; "auto" is the fastest one for `device`.

    Raises:
        ConfigError: There is no backend of that name, or it can't run here.
    """
    if name == "auto":
        name = "triton" if device.type == "cuda" and has_triton() else "sdpa"
    match name:
        case "reference":
            return ReferenceAttention()
        case "sdpa":
            return SdpaAttention()
        case "triton":
            if not has_triton():
                raise ConfigError(
                    "attention_backend='triton' needs the package triton, which this system does "
                    "not have: use 'sdpa'"
                )
            return _triton_attention(device, dtype)
    known = ", ".join(["auto", *NAMES])
    raise ConfigError(f"attention_backend={name!r} is unknown: use one of {known}")


def _triton_attention(device: torch.device, dtype: torch.dtype) -> AttentionBackend:
    # Not at the top: this import chooses, for the whole process, how Triton runs.
    from minivllm.attention.triton import TritonAttention
    from minivllm.kernels.common import IS_INTERPRETED

    if device.type == "cpu" and not IS_INTERPRETED:
        raise ConfigError(
            "attention_backend='triton' runs on a CPU in Triton's interpreter only, and Triton was "
            "imported without it: set TRITON_INTERPRET=1 before Python starts, or use 'sdpa'"
        )
    if device.type == "cuda" and IS_INTERPRETED:
        raise ConfigError(
            "attention_backend='triton' would run in Triton's interpreter, as TRITON_INTERPRET=1 "
            "is set: unset it before Python starts, or use 'sdpa'"
        )
    if IS_INTERPRETED and dtype == torch.bfloat16:
        raise ConfigError(
            "attention_backend='triton' can't run in bfloat16 on a CPU, where Triton's interpreter "
            "gets it wrong: use dtype='float32', or 'sdpa'"
        )
    return TritonAttention()
