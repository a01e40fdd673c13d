"""What a chapter's checks and mutants are written with; see docs/writing_a_chapter.md."""

from __future__ import annotations

from minivllm.course.detective import Detective
from minivllm.course.exercise import (
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)
from minivllm.course.machine import Event, Invariant, Machine, Scaling, Trace
from minivllm.course.mutation import edit, mutant

__all__ = [
    "Detective",
    "Event",
    "Exercise",
    "Invariant",
    "Machine",
    "Output",
    "Property",
    "Rules",
    "Scaling",
    "Trace",
    "adversarial",
    "by_hand",
    "edit",
    "mutant",
    "sampled",
]
