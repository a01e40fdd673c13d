"""The detectors of places: which heads, rows, blocks or triangles are wrong.

Each gives a phrase, or `None`. Next file to read: `diagnose.py`.
"""

from __future__ import annotations

import torch

from minivllm.course.scene import Scene


def past_the_context(scene: Scene) -> str | None:
    """Only places beyond the valid length, or only the last valid one."""
    for name, length in scene.valid.items():
        index = scene.axes.index(name)
        place = torch.arange(scene.wrong.shape[index])
        past = place >= length if isinstance(length, int) else place[None] >= length[:, None]
        shape = [1] * scene.wrong.dim()
        shape[index] = len(place)
        if not isinstance(length, int):
            shape[0] = len(past)
        past = past.reshape(shape).expand_as(scene.wrong)
        if bool((scene.wrong & past).any()) and not bool((scene.wrong & ~past).any()):
            return f"only places past the valid length along {name} are wrong"
    return None


def upper_triangle(scene: Scene) -> str | None:
    """Only above, or only below, the diagonal, where the last axis is that of the keys."""
    if scene.axes[-1:] != ("key",) or scene.wrong.dim() < 2 or min(scene.wrong.shape[-2:]) < 2:
        return None
    square = scene.wrong.flatten(0, -3).any(0) if scene.wrong.dim() > 2 else scene.wrong
    num_rows, num_columns = square.shape
    rows = torch.arange(num_rows)[:, None] + max(0, num_columns - num_rows)
    above = torch.arange(num_columns)[None] > rows
    names = f"{scene.axis(scene.wrong.dim() - 2)} and {scene.axis(scene.wrong.dim() - 1)}"
    if bool(square[above].any()) and not bool(square[~above].any()):
        return f"only above the diagonal of {names}"
    below = torch.arange(num_columns)[None] < rows
    if bool(square[below].any()) and not bool(square[~below].any()) and num_rows > 2:
        return f"only below the diagonal of {names}"
    return None


def partial_block(scene: Scene) -> str | None:
    """Whole blocks are right, the last, partly filled one is not; or the other way round."""
    for name, size in scene.block.items():
        flags = scene.over_axis(scene.axes.index(name))
        last = len(flags) // size * size
        if last == len(flags) or last == 0:
            continue
        if any(flags[last:]) and not any(flags[:last]):
            return f"only the last, partly filled block of {size} along {name} is wrong"
    return None


def blocks(scene: Scene) -> str | None:
    """Some blocks are right and some wrong."""
    for name, size in scene.block.items():
        flags = scene.over_axis(scene.axes.index(name))
        groups = [any(flags[i : i + size]) for i in range(0, len(flags), size)]
        if len(groups) > 1 and any(groups) and not all(groups):
            return _split(f"block (of {size} along {name})", groups)
    return None


def along_an_axis(scene: Scene) -> str | None:
    """Which places of the axis are wrong that tells right and wrong apart most clearly."""
    best: tuple[int, str] | None = None
    for index in range(scene.wrong.dim()):
        flags = scene.over_axis(index)
        if all(flags) or not any(flags):
            continue
        # The axis along which most of the right places are right altogether explains most.
        score = flags.count(False) * scene.wrong.numel() // len(flags)
        if best is None or score > best[0]:
            best = score, _split(scene.axis(index), flags)
    return best[1] if best else None


def everywhere(scene: Scene) -> str | None:
    """Nothing is right, or hardly anything."""
    share = scene.wrong.float().mean().item()
    return "every value is wrong" if share == 1 else "wrong places in every row of every axis"


def _split(name: str, flags: list[bool]) -> str:
    wrong = [i for i, flag in enumerate(flags) if flag]
    right = [i for i, flag in enumerate(flags) if not flag]
    if len(wrong) <= len(right):
        return f"{_plural(name, wrong)} wrong, the others right"
    return f"{_plural(name, right)} right, {_ranges(wrong)} wrong"


def _plural(name: str, places: list[int]) -> str:
    head, _, tail = name.partition(" ")
    noun = (head if len(places) == 1 else f"{head}s") + (f" {tail}" if tail else "")
    return f"{noun} {_ranges(places)}"


def _ranges(places: list[int]) -> str:
    """[0, 1, 2, 5] -> "0-2 and 5"; a long list is cut."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    texts = [f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs]
    if len(texts) > 5:
        return ", ".join(texts[:5]) + ", ..."
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


PLACE_DETECTORS = (
    past_the_context,
    partial_block,
    upper_triangle,
    blocks,
    along_an_axis,
    everywhere,
)
