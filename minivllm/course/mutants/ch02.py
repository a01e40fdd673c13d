"""Chapter 02: what goes wrong in attention, in its mask, and in a step of several requests.

In reading order: `attention_scores.py`, `attention_hidden.py`, `attention_masks.py`,
`attention_step_masks.py`, `attention_steps.py`, `attention_padding.py`.
"""

from __future__ import annotations

from minivllm.course.mutants.attention_hidden import HIDDEN
from minivllm.course.mutants.attention_masks import CAUSAL_MASK
from minivllm.course.mutants.attention_padding import PADDING
from minivllm.course.mutants.attention_scores import SCORES
from minivllm.course.mutants.attention_step_masks import PACKED_MASK
from minivllm.course.mutants.attention_steps import STEPS

MUTANTS = [*SCORES, *HIDDEN, *CAUSAL_MASK, *PACKED_MASK, *STEPS, *PADDING]
