"""Watches what torch is asked to do: which operators, and how large the tensors that they make.

Two places are watched: the function as it was called (`softmax`), and the operators that it became
(`_softmax`), because a fused function may become something with another name.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Private, but the only way to see each operator; style.md allows it here and in the recorder.
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_UNWRITTEN = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided"}
_FUSED_ATTENTION = "scaled_dot_product"  # each backend's operator has its own ending


class Poison(TorchFunctionMode):
    """Inside this block memory that was never written is NaN, or -99, and not what lay there."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in _UNWRITTEN and result.dtype != torch.bool:
            result.fill_(math.nan if result.is_floating_point() else -99)
        return result


class _Functions(TorchFunctionMode):
    def __init__(self, calls: Counter[str]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        self._calls[getattr(func, "__name__", str(func)).strip("_")] += 1
        return func(*args, **(kwargs or {}))


class _Operators(TorchDispatchMode):
    def __init__(self, spy: Spy) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._spy = spy

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        known = {storage_of(x) for x in tensors_in((args, kwargs))}
        made = [x for x in tensors_in(result) if storage_of(x) not in known]
        self._spy.saw(func.overloadpacket.__name__.strip("_"), made)
        return result


class Spy:
    """Counts what happens inside a `with` block.

    Attributes:
        calls: Function or operator -> how often; the names have no leading underscore.
        num_ops: Operators that were dispatched, views included.
        shapes: Of every tensor that was made, in order; a view of another one is not made.
        bytes: Of all of them together.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.num_ops = 0
        self.shapes: list[tuple[int, ...]] = []
        self.bytes = 0
        self._modes: tuple[Any, ...] = (_Functions(self.calls), _Operators(self))

    @property
    def largest(self) -> int:
        """Elements of the largest tensor that was made."""
        return max((_num_elements(shape) for shape in self.shapes), default=0)

    def uses(self, banned: str) -> bool:
        """Whether a function or operator of this name was called."""
        if banned.startswith(_FUSED_ATTENTION):
            return any(name.startswith(_FUSED_ATTENTION) for name in self.calls)
        return banned in self.calls

    def squares(self, size: int) -> list[tuple[int, ...]]:
        """The shapes that have two axes of at least `size`."""
        return [shape for shape in self.shapes if sum(n >= size for n in shape) >= 2]

    def saw(self, name: str, made: list[Tensor]) -> None:
        """Count an operator and what it made."""
        self.num_ops += 1
        self.calls[name] += 1
        for tensor in made:
            self.shapes.append(tuple(tensor.shape))
            self.bytes += tensor.numel() * tensor.element_size()

    def __enter__(self) -> Spy:
        for mode in self._modes:
            mode.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for mode in reversed(self._modes):
            mode.__exit__(kind, error, trace)


def tensors_in(tree: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def storage_of(x: Tensor) -> int:
    """What is equal for a tensor and its views."""
    return x.untyped_storage().data_ptr()


def _num_elements(shape: tuple[int, ...]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
