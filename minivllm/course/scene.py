"""What a detector looks at: a wrong tensor, the right one, where they differ, and the axes' names.

Next file to read: `places.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from minivllm.course.compare import Mismatch
from minivllm.course.exercise import Arguments, Output


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Two tensors of one shape, where they differ, and what is known of their axes.

    Attributes:
        block: Axis -> places to a block.
        valid: Axis -> how many of its places count: one number, or one for each row of axis 0.
        inputs: The tensors of the call, by name.
        are_ids: The numbers are names, with which nobody calculates.
    """

    got: Tensor
    expected: Tensor
    wrong: Tensor
    axes: tuple[str, ...]
    block: Mapping[str, int] = field(default_factory=dict)
    valid: Mapping[str, int | Tensor] = field(default_factory=dict)
    inputs: Mapping[str, Tensor] = field(default_factory=dict)
    are_ids: bool = False

    def axis(self, index: int) -> str:
        """The name of an axis, or its number."""
        return self.axes[index] if index < len(self.axes) else f"axis {index}"

    def over_axis(self, index: int, *, every: bool = False) -> list[bool]:
        """For each place along an axis, whether anything (or everything) there is wrong."""
        rows = (
            self.wrong.movedim(index, 0).flatten(1)
            if self.wrong.dim() > 1
            else (self.wrong.unsqueeze(1))
        )
        return (rows.all(1) if every else rows.any(1)).tolist()


def scene_of(mismatch: Mismatch, output: Output, arguments: Arguments) -> Scene:
    """The scene of a mismatch of two tensors."""
    assert mismatch.wrong is not None, "only tensors of one shape have wrong places"
    return Scene(
        got=mismatch.got,
        expected=mismatch.expected,
        wrong=mismatch.wrong,
        axes=output.axis_names,
        block={axis: int(_value(size, arguments)) for axis, size in output.block.items()},
        valid={axis: _value(size, arguments) for axis, size in output.valid.items()},
        inputs={name: x for name, x in arguments.items() if isinstance(x, Tensor)},
        are_ids=output.are_ids,
    )


def _value(size: int | str, arguments: Arguments) -> Any:
    value = arguments[size] if isinstance(size, str) else size
    return torch.tensor(value) if isinstance(value, list | tuple) else value
