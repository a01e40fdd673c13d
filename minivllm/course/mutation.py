"""Mutants: classic mistakes, each a wrong implementation with a sentence.

A mutant is a function written out (`mutant`), or a change to the solution's text (`edit`).
Next file to read: `registry.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from minivllm.course.exercise import NO_ADVICE, Advice


class Options(TypedDict, total=False):
    """What may be said of a mutant, besides its id and sentence.

    `replaces` names the one of several functions that it replaces; `same_as` is the mutant that it
    can't be told from; `equivalent` says why it is right here; `gpu` why only a GPU can show it.
    """

    replaces: str
    same_as: str
    equivalent: str
    gpu: str
    look_at: str
    try_it: str


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A wrong implementation of an exercise.

    Attributes:
        id: Topic and name, "rms_norm.sum"; the topic is the second half of the exercise's id.
        says: Completes "your output equals ...".
        implementation: A function or class, if it is written out.
        edits: Old and new text of the solution, if it is a change to that.
    """

    id: str
    says: str
    implementation: Any = None
    edits: tuple[tuple[str, str], ...] = ()
    replaces: str | None = None
    same_as: str | None = None
    equivalent: str | None = None
    gpu: str | None = None
    advice: Advice = NO_ADVICE

    @property
    def topic(self) -> str:
        """The first half of the id: which exercise of the chapter it belongs to."""
        return self.id.partition(".")[0]

    @property
    def group(self) -> str:
        """The id under which it is named: its own, or that of its equivalence class."""
        return self.same_as or self.id


def _build(mutant_id: str, says: str, options: Options, **how: Any) -> Mutant:
    given = dict(options)
    advice = Advice(look_at=options.get("look_at"), try_it=options.get("try_it"))
    fields: dict[str, Any] = {k: v for k, v in given.items() if k not in ("look_at", "try_it")}
    return Mutant(id=mutant_id, says=says, advice=advice, **fields, **how)


def mutant(mutant_id: str, says: str, **options: Unpack[Options]) -> Callable[[Any], Mutant]:
    """Decorator: the function or class below is a mutant."""
    return lambda implementation: _build(mutant_id, says, options, implementation=implementation)


def edit(mutant_id: str, says: str, *edits: tuple[str, str], **options: Unpack[Options]) -> Mutant:
    """The solution with each old text, which must occur once in it, replaced by the new."""
    return _build(mutant_id, says, options, edits=edits)
