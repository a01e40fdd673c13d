"""Turns what is wrong into the labelled lines of a report.

Knows the labels and the wording, not the layout: that is `render.py`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from minivllm.course.attempt import Attempt
from minivllm.course.compare import Mismatch, finite, unexpected_nonfinite
from minivllm.course.diagnose import pattern
from minivllm.course.exercise import Output
from minivllm.course.probe import Outcome, Probe
from minivllm.course.report import Fact
from minivllm.course.scene import scene_of

_LONGEST_VALUE = 60
_ONE_LINE = 76  # characters that fit beside the margin


def shown(value: Any) -> str:
    """A value in few characters."""
    if isinstance(value, Tensor):
        if value.dim() == 0:
            return f"{value.item():.4g}" if value.is_floating_point() else str(value.item())
        if value.numel() > 8 or value.dim() > 1:
            return f"a tensor {size(value)}"
        return f"tensor({[round(x, 4) for x in value.tolist()]})"
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


def shown_apart(got: Tensor, expected: Tensor) -> tuple[str, str]:
    """Two numbers that differ, with as many digits as show it."""
    pair = shown(got), shown(expected)
    for num_digits in range(5, 18):  # 17 tell any two float64 apart
        if pair[0] != pair[1]:
            break
        pair = f"{got.item():.{num_digits}g}", f"{expected.item():.{num_digits}g}"
    return pair


def size(x: Tensor) -> str:
    """A shape without spaces: (2,8,5,16)."""
    return "(" + ",".join(map(str, x.shape)) + ("," if x.dim() == 1 else "") + ")"


def call_facts(attempt: Attempt, probe: Probe) -> list[Fact]:
    """The call: names, then shapes, equal ones together, and the seed."""
    arguments, name = probe.arguments, attempt.task.names[-1]
    if not any(isinstance(x, Tensor) for x in arguments.values()):
        given = ", ".join(shown(value) for value in arguments.values())
        return [("call", f"{name}({given})")]
    shapes: dict[str, list[str]] = {}
    for key, value in arguments.items():
        text = size(value) if isinstance(value, Tensor) else f"= {shown(value)}"
        shapes.setdefault(text, []).append(key)
    details = "  ".join(f"{','.join(keys)} {text}" for text, keys in shapes.items())
    seed = f"  seed {probe.seed}" if probe.case.kind != "hand" else ""
    return [("call", f"{name}({', '.join(arguments)})   {details}{seed}")]


def mismatch_facts(
    mismatch: Mismatch, output: Output, probe: Probe, outcome: Outcome
) -> list[Fact]:
    """What is wrong with one output."""
    which = f"{output.name} " if len(probe.exercise.output_list) > 1 else ""
    if mismatch.wrong is None:
        return [("", fact) for fact in _coarse(mismatch, which)]
    facts: list[Fact] = [("", _fine(mismatch, which))]
    facts += value_facts(mismatch, output)
    scene = scene_of(mismatch, output, probe.arguments)
    return [*facts, ("pattern", pattern(scene))]


def _coarse(mismatch: Mismatch, which: str) -> list[str]:
    got, expected = mismatch.got, mismatch.expected
    if mismatch.problem == "shape":
        return [f"{which}shape {size(got)}, expected {size(expected)}"]
    if mismatch.problem == "dtype":
        allowed = " or ".join(str(dtype).removeprefix("torch.") for dtype in expected)
        return [f"{which}dtype {str(got.dtype).removeprefix('torch.')}, expected {allowed}"]
    if mismatch.problem == "device":
        return [f"{which}device {got.device}, expected {expected.device}"]
    if mismatch.problem == "type":
        kinds = _kind(got), _kind(expected)
        if kinds[0] != kinds[1]:
            return [
                f"{which}got {kinds[0]}: {shown(got)}",
                f"expected {kinds[1]}: {shown(expected)}",
            ]
    return [f"{which}got {shown(got)}, expected {shown(expected)}"]


def _kind(value: Any) -> str:
    return "a tensor" if isinstance(value, Tensor) else type(value).__name__


def _fine(mismatch: Mismatch, which: str) -> str:
    got = mismatch.got
    dtype = str(got.dtype).removeprefix("torch.")
    num_bad = 0
    if isinstance(mismatch.expected, Tensor) and got.shape == mismatch.expected.shape:
        num_bad = int(unexpected_nonfinite(got, mismatch.expected).sum())
    state = f"not finite: {num_bad} of {got.numel()} values" if num_bad else "finite ok"
    return f"{which}shape ok {size(got)}   dtype ok {dtype}   {state}"


def place(index: tuple[int, ...], axes: tuple[str, ...]) -> str:
    """[batch=0, head=1]."""
    names = [*axes, *(f"axis {i}" for i in range(len(axes), len(index)))]
    return "[" + ", ".join(f"{name}={i}" for name, i in zip(names, index, strict=False)) + "]"


def value_facts(mismatch: Mismatch, output: Output) -> list[Fact]:
    """The first place that is wrong, how many are, and by how much."""
    wrong, got, expected = mismatch.wrong, mismatch.got, mismatch.expected
    assert wrong is not None, "called for tensors of one shape"
    first = tuple(int(i) for i in wrong.nonzero()[0])
    where = f" at {place(first, output.axis_names)}" if first else ""
    pair = "got {}  expected {}".format(*shown_apart(got[first], expected[first]))
    lines: list[Fact] = [("", f"first mismatch{where}:"), ("", f"   {pair}")]
    if len(lines[0][1]) + len(pair) < _ONE_LINE:
        lines = [("", f"first mismatch{where}:  {pair}")]
    number, total = int(wrong.sum()), wrong.numel()
    text = f"{number} of {total} values ({100 * number / total:.3g} %)"
    if expected.is_floating_point():
        error = finite(got.to(torch.float64) - expected).abs() * wrong
        worst = tuple(int(i) for i in (error == error.max()).nonzero()[0])
        if error.max() > 0:
            text += f"; worst {error.max().item():.3g} at {list(worst)}".replace(", ", ",")
        text += f"; allowed {mismatch.allowed:.1g}"
    return [*lines, ("wrong", text)]


def property_facts(name: str, output: Output, mismatch: Mismatch) -> tuple[Fact, ...]:
    """Two calls that should agree and do not."""
    facts: list[Fact] = [("compared", f"two calls of yours that must agree: {name}")]
    if mismatch.wrong is None:
        return (*facts, *(("", text) for text in _coarse(mismatch, "")))
    facts += value_facts(mismatch, output)
    scene = scene_of(mismatch, replace(output, block={}, valid={}), {})
    return (*facts, ("pattern", pattern(scene)))
