"""What a step must not do while a graph is captured, and what to do instead.

On a GPU such an operation breaks the capture with an error from far away ("operation not permitted
when stream is capturing"). On a CPU it would work, and its frozen result be wrong at each replay.
So `recorded_graph.py` asks here before each operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minivllm.worker.device_graph import CaptureError


class _Rule(NamedTuple):
    """Why a GPU's graph can't hold it, and what to do."""

    reason: str
    remedy: str


_READS_BACK = _Rule(
    "the host would wait for a value of the device, and no host code runs in a replay to use it",
    "Keep it a tensor on the device, or read the graph's outputs after replay()",
)
_OPEN_SHAPE = _Rule(
    "the shape of its result depends on values, and in a graph shapes and addresses are fixed",
    "Keep the shape: torch.where, masked_fill, or as many indices as there can be at most",
)
_HOST_DATA = _Rule(
    "it copies from host memory, which is not there any more, or not new, in a replay",
    "Make the tensor before capture() and copy_() new values into it before replay(); "
    "torch.full and torch.arange are made on the device",
)
_UNSAFE = _Rule("PyTorch marks it as unsafe there", "Do it before or after the graph")

# Calls that the dispatcher doesn't see, as a CPU tensor is on the host already.
_READING_CALLS: set[Callable[..., Any]] = {
    Tensor.cpu,
    Tensor.numpy,
    Tensor.tolist,
    Tensor.__array__,
    Tensor.__repr__,
    Tensor.__format__,
}
_COPYING_CALLS: set[Callable[..., Any]] = {torch.tensor, Tensor.new_tensor}

_PLAIN_NAMES = {
    "_local_scalar_dense": ".item(), int(), float(), bool() or `if` of a tensor",
    "lift_fresh": "a tensor made from host data (a list, a NumPy array)",
}


def check_call(func: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Refuse what is only seen where the function is called.

    Raises:
        CaptureError: A graph can't hold it.
    """
    if func in _READING_CALLS:
        _refuse(f".{func.__name__}() of a tensor", _READS_BACK)
    # A `torch.device` may be the engine's own device; only the word itself is known to be the host.
    words = [x for x in (*args, *kwargs.values()) if isinstance(x, str)]
    if func is Tensor.to and "cpu" in words:
        _refuse('.to("cpu")', _READS_BACK)
    if func in _COPYING_CALLS:
        _refuse(_PLAIN_NAMES["lift_fresh"], _HOST_DATA)


def check_operator(func: Any, args: Sequence[Any]) -> None:
    """Refuse an operator of the dispatcher's.

    Raises:
        CaptureError: A graph can't hold it.
    """
    name = func.overloadpacket.__name__
    what = _PLAIN_NAMES.get(name, f"torch.ops.{func}")
    if name in ("index", "index_put", "index_put_"):
        _check_indexing(name, args)
    elif torch.Tag.data_dependent_output in func.tags:
        _refuse(what, _READS_BACK)
    elif torch.Tag.dynamic_output_shape in func.tags:
        _refuse(what, _OPEN_SHAPE)
    elif torch.Tag.cudagraph_unsafe in func.tags:
        _refuse(what, _UNSAFE)
    elif name == "lift_fresh" and args[0].dim() > 0:  # a single number travels with the launch
        _refuse(what, _HOST_DATA)


def _check_indexing(name: str, args: Sequence[Any]) -> None:
    has_mask = any(x is not None and x.dtype in (torch.bool, torch.uint8) for x in args[1])
    fills = name != "index" and args[2].dim() == 0  # `x[mask] = 0` is a masked_fill
    if has_mask and not fills:
        _refuse("indexing with a boolean mask", _OPEN_SHAPE)


def _refuse(what: str, rule: _Rule) -> None:
    raise CaptureError(f"{what} while a graph is captured: {rule.reason}. {rule.remedy}")
