"""Finds a pattern in what is wrong: how the numbers relate to the right ones, and at which places.

Each detector is small, looks at one thing, and gives a phrase or `None`. The first phrase about the
numbers and the first about the places make the line "pattern" of a report.
Next file to read: `bank.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from minivllm.course.compare import finite, unexpected_nonfinite
from minivllm.course.places import PLACE_DETECTORS
from minivllm.course.scene import Scene

_TOLERANCE = 1e-4  # of a factor or offset over all places
_MAX_PERMUTED = 64  # rows whose order is looked for


def pattern(scene: Scene) -> str:
    """What is known of the numbers, and of the places, in a line or two."""
    numbers = _first(NUMBER_DETECTORS, scene)
    places = _first(PLACE_DETECTORS, scene)
    return "; ".join(phrase for phrase in (numbers, places) if phrase)


def _first(detectors: tuple[Callable[[Scene], str | None], ...], scene: Scene) -> str | None:
    return next((phrase for d in detectors if (phrase := d(scene)) is not None), None)


def not_finite(scene: Scene) -> str | None:
    """NaN or infinity, and where it likely comes from."""
    bad = unexpected_nonfinite(scene.got, scene.expected)
    if not bool(bad.any()):
        return None
    is_nan = bool(scene.got[bad].isnan().any())
    if not is_nan and bool((scene.got[bad] < 0).all()):
        return "minus infinity: the log of 0, or a row that sees nothing"
    if not is_nan:
        return "infinity: an exp or a square that is too large, or a division by 0"
    rows = bad.flatten(0, -2) if bad.dim() > 1 else bad.unsqueeze(0)
    whole = bool((rows.any(1) == rows.all(1)).all())
    poisoned = any(bool(x.isnan().any()) for x in scene.inputs.values() if x.is_floating_point())
    if poisoned:
        return "NaN: memory never written may be read (unused places of the inputs are NaN)"
    rule = "0 / 0 or inf - inf in whole rows" if whole else "0 / 0, inf - inf or 0 * inf"
    return f"NaN: {rule}, or memory from torch.empty that was not written"


def all_zero(scene: Scene) -> str | None:
    """Nothing was written, or what was is zero."""
    return "every wrong value is 0" if not bool(scene.got[scene.wrong].any()) else None


def same_as_input(scene: Scene) -> str | None:
    """An argument comes back unchanged."""
    for name, x in scene.inputs.items():
        if x.shape == scene.got.shape and torch.equal(x, scene.got.to(x.dtype)):
            return f"the output equals the argument {name}"
    return None


def flipped(scene: Scene) -> str | None:
    """True and False are wrong in one direction only."""
    if scene.expected.dtype != torch.bool or scene.got.dtype != torch.bool:
        return None
    found = scene.got[scene.wrong].unique().tolist()
    return (
        f"every wrong place is {found[0]} and should be {not found[0]}" if len(found) == 1 else None
    )


def constant_factor(scene: Scene) -> str | None:
    """One number times the right answer."""
    if scene.expected.dtype == torch.bool or scene.are_ids:
        return None
    got, expected = _where_wrong(scene)
    big = expected.abs() > 1e-3 * expected.abs().max()
    if int(big.sum()) < 2:
        return None
    ratios = got[big] / expected[big]
    factor = ratios.median()
    if bool((ratios - factor).abs().max() > _TOLERANCE * factor.abs()) or factor == 0:
        return None
    return f"every wrong value is {_number(factor.item())} times the right one"


def constant_offset(scene: Scene) -> str | None:
    """The right answer plus one number."""
    got, expected = _where_wrong(scene)
    if len(got) < 2 or not scene.expected.is_floating_point():
        return None
    offsets = got - expected
    offset = offsets.median()
    scale = max(expected.abs().max().item(), abs(offset.item()))
    if bool((offsets - offset).abs().max() > _TOLERANCE * scale):
        return None
    return f"every wrong value is the right one {_signed(offset.item())}"


def integer_offset(scene: Scene) -> str | None:
    """Whole numbers that are all too large, or too small, by the same."""
    if scene.expected.is_floating_point() or scene.expected.dtype == torch.bool or scene.are_ids:
        return None
    offsets = (scene.got - scene.expected)[scene.wrong].unique()
    if len(offsets) != 1:
        return None
    return f"every wrong value is the right one {_signed(offsets.item())}"


def permutation(scene: Scene) -> str | None:
    """The right rows in another order, along one axis."""
    for index in range(scene.got.dim()):
        order = _order(scene, index)
        if order is not None:
            shown = ", ".join(map(str, order[:8])) + (", ..." if len(order) > 8 else "")
            return f"right values in another order along {scene.axis(index)}: {shown}"
    return None


def _order(scene: Scene, index: int) -> list[int] | None:
    got = finite(scene.got.to(torch.float64)).movedim(index, 0)
    expected = finite(scene.expected.to(torch.float64)).movedim(index, 0)
    got, expected = (
        got.flatten(1) if got.dim() > 1 else got[:, None],
        expected.reshape(len(got), -1),
    )
    if not 2 <= len(got) <= _MAX_PERMUTED:
        return None
    distance = (got[:, None] - expected[None]).abs().amax(-1)
    nearest = distance.argmin(1)
    is_near = distance.amin(1) <= 1e-4 * expected.abs().max().clamp(min=1e-30)
    order: list[int] = nearest.tolist()
    is_other = order != list(range(len(order)))
    return order if bool(is_near.all()) and is_other and len(set(order)) == len(order) else None


def _where_wrong(scene: Scene) -> tuple[Tensor, Tensor]:
    places = scene.wrong & torch.isfinite(scene.got) & torch.isfinite(scene.expected)
    if not bool(places.any()):
        return torch.zeros(1), torch.zeros(1)
    return scene.got[places].to(torch.float64), scene.expected[places].to(torch.float64)


def _number(x: float) -> str:
    """A factor, with what it may be where it is a power of two or a root of one."""
    known = {n**0.5: f"sqrt({n})" for n in (2, 3, 5, 6, 7, 8, 10, 12, 16, 32, 48, 64, 80, 96, 128)}
    for value, name in known.items():
        if abs(x - value) < 1e-3 * value and value != int(value):
            return f"{x:.4g} ({name})"
        if abs(x * value - 1) < 1e-3 and value != int(value):
            return f"{x:.4g} (1/{name})"
    return f"{x:.4g}"


def _signed(x: float) -> str:
    return f"{'plus' if x > 0 else 'minus'} {abs(x):.4g}"


NUMBER_DETECTORS = (
    not_finite,
    flipped,
    same_as_input,
    all_zero,
    integer_offset,
    constant_factor,
    constant_offset,
    permutation,
)
