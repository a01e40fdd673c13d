"""What an exercise is: the data that a chapter's checks declare.

Only data and how it is written down; `ladder.py` runs it. State machines are in `machine.py`,
planted bugs in `detective.py`. Next file to read: `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

Arguments = dict[str, Any]
Kind = Literal["hand", "sampled", "adversarial"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """What all kinds of exercises have.

    Attributes:
        id: Chapter and name, "ch01.rms_norm".
        names: What the learner writes, in the exercise file; by default the second half of `id`.
            Several names arrive as one object with an attribute for each.
        hints: Three, from what to think about to a case to try on paper.
        look_at: Where a mistake is likely, "the line that takes the mean".
        try_it: What to try by hand.
        package: The finished part, "minivllm.layers.norm.RMSNorm", which the exercise rebuilds and
            therefore may not import.
        seconds: The time that a whole check may take.
        gpu: Whether it can only be checked on a GPU.
    """

    id: str
    names: tuple[str, ...] = ()
    hints: tuple[str, str, str]
    look_at: str
    try_it: str
    package: str | None = None
    seconds: float = 10.0
    gpu: bool = False

    def __post_init__(self) -> None:
        """Fill in the name."""
        if not self.names:
            object.__setattr__(self, "names", (self.id.partition(".")[2],))

    @property
    def chapter(self) -> str:
        """The first half of the id, "ch01"."""
        return self.id.partition(".")[0]

    @property
    def topic(self) -> str:
        """The second half of the id, "rms_norm"."""
        return self.id.partition(".")[2]


@dataclass(frozen=True, kw_only=True)
class Advice:
    """What to look at and to try after one particular failure; `None` leaves it to the exercise."""

    look_at: str | None = None
    try_it: str | None = None


NO_ADVICE = Advice()


@dataclass(frozen=True)
class Output:
    """One tensor, or other value, that the learner's code gives back.

    Attributes:
        name: As reports call it.
        axes: The names of its axes, "batch token dim"; empty for what is no tensor.
        dtype: The dtypes that are right; `None` is that of the first floating-point argument.
        inplace: It is not returned: it is the argument `name` after the call.
        block: Axis -> how many of its places make a block, as a number or an argument's name.
        valid: Axis -> how many of its places count, as a number or the name of an argument: an
            int, or a tensor with one number for each row of the first axis.
        ignore: The arguments -> the places that are not compared.
        are_ids: Its integers name tokens or places: "plus 33" says nothing of them.
    """

    name: str
    axes: str = ""
    dtype: torch.dtype | tuple[torch.dtype, ...] | None = None
    inplace: bool = False
    block: Mapping[str, int | str] = field(default_factory=dict)
    valid: Mapping[str, int | str] = field(default_factory=dict)
    ignore: Callable[[Arguments], torch.Tensor] | None = None
    are_ids: bool = False

    @property
    def axis_names(self) -> tuple[str, ...]:
        """The names of the axes, one by one."""
        return tuple(self.axes.split())


@dataclass(frozen=True, kw_only=True, eq=False)  # its `expected` may be a list or a tensor
class Case:
    """One check: a name that says what it is about, and the inputs.

    Attributes:
        make: A generator -> the arguments, by name, in the order of the call.
        expected: The answer worked out by hand; `None` asks the oracle.
        atol: How far from `expected` an answer may be.
    """

    name: str
    kind: Kind
    make: Callable[[torch.Generator], Arguments]
    seeds: tuple[int, ...] = (0,)
    expected: Any = None
    atol: float = 1e-4
    advice: Advice = NO_ADVICE


def by_hand(
    name: str,
    make: Callable[[], Arguments],
    expected: Any,
    *,
    atol: float = 1e-4,
    look_at: str | None = None,
    try_it: str | None = None,
) -> Case:
    """The worked example of the chapter; `expected` has the shape of what is returned."""
    return Case(
        name=name,
        kind="hand",
        make=lambda _: make(),
        expected=expected,
        atol=atol,
        advice=Advice(look_at=look_at, try_it=try_it),
    )


def sampled(
    name: str,
    make: Callable[[torch.Generator], Arguments],
    *,
    seeds: Sequence[int] = (11, 12, 13),
    look_at: str | None = None,
    try_it: str | None = None,
) -> Case:
    """Random inputs, once for each seed."""
    advice = Advice(look_at=look_at, try_it=try_it)
    return Case(name=name, kind="sampled", make=make, seeds=tuple(seeds), advice=advice)


def adversarial(
    name: str,
    make: Callable[[torch.Generator], Arguments],
    *,
    seeds: Sequence[int] = (21,),
    look_at: str | None = None,
    try_it: str | None = None,
) -> Case:
    """Inputs that show one kind of mistake; the name says what a right answer does there."""
    advice = Advice(look_at=look_at, try_it=try_it)
    return Case(name=name, kind="adversarial", make=make, seeds=tuple(seeds), advice=advice)


@dataclass(frozen=True)
class Property:
    """Something that two calls must agree on.

    Attributes:
        name: What holds, "batch mates do not matter".
        pair: (how the learner's code is called, a generator) -> two results that must agree.
    """

    name: str
    pair: Callable[[Callable[..., Any], torch.Generator], tuple[Any, Any]]
    look_at: str | None = None
    try_it: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What an exercise may use; a field that is `None` is no limit.

    Attributes:
        banned: Names of operators, such as "scaled_dot_product_attention".
        no_square: The arguments -> S: no intermediate tensor has two axes of at least S.
        max_elements: The arguments -> the elements of the largest tensor that may be made.
        max_ops: Operators that torch may dispatch.
        max_launches: Triton kernels that may be launched.
        max_lines: Lines of the exercise file that may be executed.
        on: The case that is watched; `None` is the last one that is not by hand.
    """

    banned: tuple[str, ...] = ()
    no_square: Callable[[Arguments], int] | None = None
    max_elements: Callable[[Arguments], int] | None = None
    max_ops: int | None = None
    max_launches: int | None = None
    max_lines: int | None = None
    on: str | None = None


NO_RULES = Rules()


@dataclass(frozen=True, kw_only=True)
class Exercise(Task):
    """A function, or a class used like one, whose results are compared with an oracle's.

    Attributes:
        oracle: The right answer, in plain PyTorch or Python; is given float64 copies.
        reference: A right implementation in the case's own dtype, whose error sets the tolerance;
            `None` is the oracle.
        run: (what the learner wrote, *arguments) -> the results; `None` calls it.
    """

    outputs: Output | tuple[Output, ...]
    oracle: Callable[..., Any]
    cases: tuple[Case, ...]
    reference: Callable[..., Any] | None = None
    run: Callable[..., Any] | None = None
    properties: tuple[Property, ...] = ()
    rules: Rules = NO_RULES

    @property
    def output_list(self) -> tuple[Output, ...]:
        """The outputs as a tuple, of one or of many."""
        return self.outputs if isinstance(self.outputs, tuple) else (self.outputs,)
