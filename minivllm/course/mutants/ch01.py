"""Chapter 01: what goes wrong in norms, rotations, splits and gates.

In reading order: `norms_ch01.py`, `residuals_ch01.py`, `rope_ch01.py`, `positions_ch01.py`,
`qkv_ch01.py`, `swiglu_ch01.py`.
"""

from __future__ import annotations

from minivllm.course.mutants.norms_ch01 import RMS_NORM
from minivllm.course.mutants.positions_ch01 import POSITIONS
from minivllm.course.mutants.qkv_ch01 import SPLIT_QKV
from minivllm.course.mutants.residuals_ch01 import ADD_RMS_NORM
from minivllm.course.mutants.rope_ch01 import ROPE
from minivllm.course.mutants.swiglu_ch01 import SWIGLU

MUTANTS = [*RMS_NORM, *ADD_RMS_NORM, *ROPE, *POSITIONS, *SPLIT_QKV, *SWIGLU]
