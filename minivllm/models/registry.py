"""Which model class runs a checkpoint: looked up by `architectures[0]` of its config.json.

A name that is not in the table is refused. A model that merely looks alike would load, run and
give wrong text. A family's module is imported when it is asked for.
Next file: `minivllm/models/qwen3.py`, or the family you came for.
"""

from __future__ import annotations

import importlib
from typing import Any

from minivllm.errors import CheckpointError

_MODULES = {
    "LlamaForCausalLM": "minivllm.models.llama",
    "MistralForCausalLM": "minivllm.models.mistral",
    "Qwen2ForCausalLM": "minivllm.models.qwen2",
    "Qwen3ForCausalLM": "minivllm.models.qwen3",
}
SUPPORTED = tuple(_MODULES)


def check_supported(architecture: object) -> str:
    """The name itself, if there is a model class of that name.

    Raises:
        CheckpointError: There is none; the message lists those that exist.
    """
    if not isinstance(architecture, str) or architecture not in _MODULES:
        raise CheckpointError(
            f"architectures[0]={architecture!r} is not supported; use one of {', '.join(SUPPORTED)}"
        )
    return architecture


def model_class(architecture: str) -> type[Any]:
    """The class of that name, built as `model_class(arch.name)(arch, attention, tp)`.

    Raises:
        CheckpointError: The architecture is unknown.
    """
    module = importlib.import_module(_MODULES[check_supported(architecture)])
    found: type[Any] = getattr(module, architecture)
    return found
