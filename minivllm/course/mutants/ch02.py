"""Chapter 02: what goes wrong in attention, in its mask, and in a step of several requests.

Three files, in reading order: `attention_scores.py`, `attention_masks.py`, `attention_steps.py`.
"""

from __future__ import annotations

from minivllm.course.mutants.attention_masks import CAUSAL_MASK, PACKED_MASK
from minivllm.course.mutants.attention_scores import ATTEND
from minivllm.course.mutants.attention_steps import PACKED_ATTENTION

MUTANTS = [*ATTEND, *CAUSAL_MASK, *PACKED_MASK, *PACKED_ATTENTION]
