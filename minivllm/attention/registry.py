"""Which attention backend a name stands for.

Next file to read: `backend.py`, what every backend promises.
"""

from __future__ import annotations

import torch

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.sdpa import SdpaAttention
from minivllm.errors import ConfigError

_BACKENDS: dict[str, type[AttentionBackend]] = {
    "reference": ReferenceAttention,
    "sdpa": SdpaAttention,
}


def attention_backend(name: str, device: torch.device) -> AttentionBackend:
    """A new backend by its name; "auto" is the fastest one for `device`.

    Raises:
        ConfigError: There is no backend of that name.
    """
    if name == "auto":
        name = "sdpa"  # the fastest so far, on every device
    if name not in _BACKENDS:
        known = ", ".join(["auto", *sorted(_BACKENDS)])
        raise ConfigError(f"attention_backend={name!r} is unknown: use one of {known}")
    return _BACKENDS[name]()
