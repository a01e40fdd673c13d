"""Chapter 05: mistakes in the online softmax, the tiled forward pass, and in merging halves."""

from __future__ import annotations

from minivllm.course.mutants.flash_add_tile import TILE
from minivllm.course.mutants.flash_masks import MASKS
from minivllm.course.mutants.flash_merge import HALVES
from minivllm.course.mutants.flash_sizes import SIZES
from minivllm.course.mutants.flash_state import STATE
from minivllm.course.mutants.flash_sums import SUMS
from minivllm.course.mutation import Mutant

MUTANTS: list[Mutant] = [*SUMS, *TILE, *MASKS, *SIZES, *STATE, *HALVES]
