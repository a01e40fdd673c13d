"""Chapter 01: what goes wrong in norms, rotations, splits and gates.

Three files, in reading order: `norms_ch01.py`, `rope_ch01.py`, `fused_ch01.py`.
"""

from __future__ import annotations

from minivllm.course.mutants.fused_ch01 import SPLIT_QKV, SWIGLU
from minivllm.course.mutants.norms_ch01 import ADD_RMS_NORM, RMS_NORM
from minivllm.course.mutants.rope_ch01 import ROPE

MUTANTS = [*RMS_NORM, *ADD_RMS_NORM, *ROPE, *SPLIT_QKV, *SWIGLU]
