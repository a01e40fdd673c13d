"""RecordedGraph: what a CUDA graph does, on a CPU.

    capture    step() -> PyTorch's operators, one by one ->  tape: operator, arguments, results
    replay     each operator of the tape again, its result copied into the tensor it gave at capture

Two modes of PyTorch's watch a step while it is captured: one sees each operator that reaches the
dispatcher, the other the calls that never get there, a Triton launch above all. Nothing is faster
than without a graph: a CPU has no launches to save. But whatever is wrong with a step as a graph
is wrong here too, in any process and under a debugger.

Next file to read: `capture_rules.py`, what is refused and why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Private, but the only way to see each operator; the course's spy has the same exception.
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from minivllm.kernels.launch import launch
from minivllm.worker.capture_rules import check_call, check_operator
from minivllm.worker.device_graph import DeviceGraph, T

# They reserve memory and write nothing: a replay has nothing to do.
_UNWRITTEN = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}


class RecordedGraph(DeviceGraph):
    """A tape of a step's operators, on the tensors that they had when it was captured.

    Unlike a CUDA graph it carries the operations out while it records them, so `capture` runs them
    twice, not once. It keeps all memory in between for itself. And there is only one device to see:
    a `.to(device)` is taken for the step's own device, and `torch.tensor(3)`, which might stay on
    the host of a GPU, is refused like one that would have to travel.
    """

    def __init__(self) -> None:
        super().__init__()
        self._tape: list[_Operation] = []

    @property
    def num_operations(self) -> int:
        """How many operations a replay runs: on a GPU the launches that one replay stands for."""
        return len(self._tape)

    def _record(self, step: Callable[[], T]) -> T:
        step()
        operators = _Operators(self._tape)
        with _Calls(operators), operators:
            outputs = step()
        with torch.inference_mode():
            for operation in self._tape:
                operation.forget()
        return outputs

    @torch.inference_mode()
    def _run(self) -> None:
        for operation in self._tape:
            operation.replay()


@dataclass(frozen=True, kw_only=True)
class _Operation:
    """An operator or a launch with its arguments.

    Attributes:
        func: What is called.
        args: Its arguments; the tensors among them are aliases, which no later `t_()` can turn.
        kwargs: The named ones, likewise.
        outputs: The tensors of its result, in order; `None` for one whose memory was an argument's.
    """

    func: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outputs: list[Tensor | None]

    def replay(self) -> None:
        """Compute the outputs again, in their old places."""
        results = _tensors_in(self.func(*self.args, **self.kwargs))
        for static, result in zip(self.outputs, results, strict=True):
            if static is not None:
                static.copy_(result)

    def forget(self) -> None:
        """Fill the outputs with NaN: after a CUDA capture too nothing has been computed yet."""
        for static in self.outputs:
            if static is not None and static.is_floating_point():
                static.fill_(torch.nan)


class _Operators(TorchDispatchMode):
    """Puts each operator that writes anything on the tape."""

    def __init__(self, tape: list[_Operation]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._tape = tape
        self._is_inside = False  # what a launch does in Triton's interpreter is a part of it

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._is_inside:
            return func(*args, **kwargs)
        with self:  # in inference mode `linear` comes in one piece: take it apart as elsewhere
            result = func.decompose(*args, **kwargs)
        if result is not NotImplemented:
            return result
        check_operator(func, args)
        return self.record(func, args, kwargs)

    def record(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What `func` returns; on the tape unless there is nothing to repeat, as for a view."""
        self._is_inside = True
        try:
            aliases = _aliases_of((args, kwargs))
            result = func(*args, **kwargs)
            known = {_storage_of(x) for x in _tensors_in(aliases)}
            # By memory, not by schema: whether `reshape` copies depends on the strides.
            outputs = [
                None if _storage_of(x) in known else _aliases_of(x) for x in _tensors_in(result)
            ]
        finally:
            self._is_inside = False
        if _writes(func, outputs):
            recorded_args, recorded_kwargs = aliases
            self._tape.append(
                _Operation(func=func, args=recorded_args, kwargs=recorded_kwargs, outputs=outputs)
            )
        return result


class _Calls(TorchFunctionMode):
    """Sees what the dispatcher does not: Triton launches, and a host that looks at a tensor."""

    def __init__(self, operators: _Operators) -> None:
        super().__init__()
        self._operators = operators

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is launch:
            return self._operators.record(launch, args, kwargs)
        check_call(func, args, kwargs)
        return func(*args, **kwargs)


def _writes(func: Any, outputs: list[Tensor | None]) -> bool:
    """Whether a replay has something to do: not for a view, nor for an unwritten tensor."""
    if func is launch:
        return True
    if func.overloadpacket.__name__ in _UNWRITTEN or torch.Tag.inplace_view in func.tags:
        return False
    return func._schema.is_mutable or any(x is not None for x in outputs)


def _aliases_of(tree: Any) -> Any:
    """The same nested lists, tuples and dicts; each tensor with a shape and strides of its own."""
    return tree_map(lambda x: x.detach() if isinstance(x, Tensor) else x, tree)


def _tensors_in(tree: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor)]


def _storage_of(x: Tensor) -> int:
    """What is equal for a tensor and its views."""
    return x.untyped_storage().data_ptr()
