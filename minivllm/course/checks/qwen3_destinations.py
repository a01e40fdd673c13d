"""Chapter 03's exercise on names: which rows of which parameter a tensor of a checkpoint fills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from minivllm.course.declare import Exercise, Output, adversarial, by_hand, sampled
from minivllm.course.exercise import Arguments
from minivllm.course.fixtures import poisoned

_ATTENTION, _MLP = "layers.1.self_attn", "layers.1.mlp"
NAMES_RIGHT = "all as in the checkpoint"


@dataclass(frozen=True)
class Shapes:
    """Rows of q, of k and of v, columns, and rows of gate and of up."""

    q: int
    kv: int
    hidden: int
    inner: int

    def parameters(self) -> dict[str, tuple[int, ...]]:
        """Name -> shape of the parameters of one layer."""
        rows = self.q + 2 * self.kv
        return {
            f"{_ATTENTION}.qkv_proj.weight": (rows, self.hidden),
            f"{_ATTENTION}.qkv_proj.bias": (rows,),
            f"{_MLP}.gate_up_proj.weight": (2 * self.inner, self.hidden),
            f"{_ATTENTION}.o_proj.weight": (self.hidden, self.q),
        }

    def fused(self) -> dict[str, dict[str, int]]:
        """Fused layer -> its parts -> their rows."""
        return {
            "qkv_proj": {"q_proj": self.q, "k_proj": self.kv, "v_proj": self.kv},
            "gate_up_proj": {"gate_proj": self.inner, "up_proj": self.inner},
        }


def _case(sizes: Shapes, **more: tuple[int, ...]) -> Arguments:
    return {"shapes": sizes.parameters() | more, "fused": sizes.fused()}


_LOOK_FUSED = {f"{_ATTENTION}.my_qkv_proj.weight": (8, 2), "qkv_proj_norm.weight": (8,)}
_PATHS = {"layers.1.qkv_proj.norm.weight": (8,), "qkv_proj.gate_up_proj.qkv_proj.weight": (8, 2)}


def _other_fused_layers(_: torch.Generator) -> Arguments:
    """Names and sizes of a model that is no transformer."""
    shapes = {
        "blocks.0.mixer.in_proj.weight": (9, 4),
        "blocks.0.mixer.in_proj.bias": (9,),
        "blocks.0.wkv.weight": (6, 4),
        "blocks.0.out.weight": (4, 4),
    }
    return {
        "shapes": shapes,
        "fused": {"in_proj": {"z": 3, "x": 5, "dt": 1}, "wkv": {"k": 4, "v": 2}},
    }


def _random_sizes(gen: torch.Generator) -> Arguments:
    q, kv, hidden, inner = (torch.randint(1, 6, (4,), generator=gen) * 2).tolist()
    return _case(Shapes(q=q + 2 * kv, kv=kv, hidden=hidden, inner=inner + 1))


def _number_rows(view: Tensor, number: int) -> None:
    """Fill a view so that each of its rows says which tensor and which row of it this is."""
    values = 100.0 * number + torch.arange(len(view), dtype=torch.float32)
    view.copy_(values.reshape(-1, *[1] * (view.dim() - 1)).expand_as(view))


def _checkpoint_shapes(
    shapes: Mapping[str, tuple[int, ...]], fused: Mapping[str, Mapping[str, int]]
) -> dict[str, list[int]]:
    """Each name of the checkpoint and the shape of its tensor."""
    found = {}
    for name, shape in shapes.items():
        path, kind = name.rsplit(".", 1)
        parent, _, layer = path.rpartition(".")
        for part, num_rows in fused.get(layer, {layer: shape[0]}).items():
            found[f"{parent}.{part}.{kind}".removeprefix(".")] = [num_rows, *shape[1:]]
    return found


def _run_destinations(
    destinations: Any, shapes: Mapping[str, tuple[int, ...]], fused: Mapping[str, Any]
) -> tuple[Any, ...]:
    parameters = {name: poisoned(*shape) for name, shape in shapes.items()}
    found = destinations(MappingProxyType(parameters), fused)  # the caller's: only to be read
    if found is None:
        return (None,) * 5
    expected = _checkpoint_shapes(shapes, fused)
    for number, name in enumerate(expected, start=1):
        if name in found:
            _number_rows(found[name], number)
    memory = list(parameters.values())[:4]
    problem = _problem_of({name: list(view.shape) for name, view in found.items()}, expected)
    if problem != NAMES_RIGHT:  # is said first, before memory that is still NaN
        memory = [rows.nan_to_num(-1.0) for rows in memory]
    return (problem, *memory)


def _problem_of(found: Mapping[str, list[int]], expected: Mapping[str, list[int]]) -> str:
    """The first name or shape that is not as in the checkpoint, or `NAMES_RIGHT`."""
    problems = [f"{name} is missing" for name in expected if name not in found]
    problems += [f"{name} is in no checkpoint" for name in found if name not in expected]
    problems += [
        f"{name}: {found[name]}, not {shape}"
        for name, shape in expected.items()
        if name in found and found[name] != shape
    ]
    return problems[0] if problems else NAMES_RIGHT


def _destinations_oracle(
    shapes: Mapping[str, tuple[int, ...]], fused: Mapping[str, Mapping[str, int]]
) -> tuple[Any, ...]:
    numbers = iter(range(1, 100))
    tensors = []
    for name, shape in shapes.items():
        parts = fused.get(name.split(".")[-2], {"": shape[0]})
        rows = torch.cat([100.0 * next(numbers) + torch.arange(size) for size in parts.values()])
        tensors.append(rows.reshape(-1, *[1] * (len(shape) - 1)).expand(shape).clone())
    return (NAMES_RIGHT, *tensors[:4])


_HAND_ROWS = torch.tensor([100.0, 101.0, 102.0, 103.0, 200.0, 201.0, 300.0, 301.0])
_BY_HAND = (
    NAMES_RIGHT,
    _HAND_ROWS[:, None].expand(8, 2).clone(),
    _HAND_ROWS + 300.0,
    torch.tensor([700.0, 701.0, 702.0, 800.0, 801.0, 802.0])[:, None].expand(6, 2).clone(),
    torch.tensor([900.0, 901.0])[:, None].expand(2, 4).clone(),
)

destinations = Exercise(
    id="ch03.destinations",
    outputs=(
        Output("names"),
        Output("qkv_proj.weight", axes="row column", dtype=torch.float32),
        Output("qkv_proj.bias", axes="row", dtype=torch.float32),
        Output("gate_up_proj.weight", axes="row column", dtype=torch.float32),
        Output("o_proj.weight", axes="row column", dtype=torch.float32),
    ),
    oracle=_destinations_oracle,
    run=_run_destinations,
    cases=(
        by_hand(
            "rows 0-3 are q, 4-5 are k, 6-7 are v",
            lambda: _case(Shapes(q=4, kv=2, hidden=2, inner=3)),
            expected=_BY_HAND,
        ),
        sampled(
            "random sizes",
            _random_sizes,
            look_at="where the rows of each part begin, and where they end",
        ),
        adversarial(
            "thirds would fit, q is larger",
            lambda _: _case(Shapes(q=16, kv=4, hidden=8, inner=6)),
            look_at="how many rows each part gets: `fused` says it, part by part",
        ),
        adversarial(
            "a name without a path",
            lambda _: _case(Shapes(q=6, kv=2, hidden=9, inner=6), **{"lm_head.weight": (3, 9)}),
            look_at="lm_head.weight: it has one word before its last, and no path",
            try_it='"lm_head.weight".split(".")[-2], then the same of "weight"',
        ),
        adversarial(
            "names that look like a fused layer's",
            lambda _: _case(Shapes(q=4, kv=2, hidden=2, inner=3), **_LOOK_FUSED),
            look_at="the word before the last, all of it: is it the name of a fused layer?",
            try_it='"qkv_proj" in "my_qkv_proj.weight"',
        ),
        adversarial(
            "a fused name in the path",
            lambda _: _case(Shapes(q=4, kv=2, hidden=2, inner=3), **_PATHS),
            look_at="the word before the last and only it: that is the layer, and that changes",
            try_it='"qkv_proj.qkv_proj.weight".replace("qkv_proj", "q_proj")',
        ),
        adversarial(
            "fused layers of another model",
            _other_fused_layers,
            look_at="names and sizes in your code: all of them come from `fused`",
        ),
    ),
    package="minivllm.models.loader.destinations",
    hints=(
        "The last word of a name says weight or bias; the word before it names the layer. Which of "
        "the two decides whether a parameter stands for several tensors?",
        "A slice of rows is a view: what is copied into it lands in the parameter. Keep a running "
        "start, and move it by the size of each part.",
        "Parts of 4, 2 and 2 rows: the slices are [0:4], [4:6] and [6:8], of the weight and of the "
        "bias alike.",
    ),
    look_at="the first and the last row of each slice, and the name that it gets",
    try_it="a [8, 2] parameter for parts of 4, 2 and 2 rows: fill each view with its number",
)
