"""Chapter 04: mistakes in choosing tokens, in the two loops, and with a dense KV cache."""

from __future__ import annotations

from minivllm.course.mutants.generation_attend import ATTEND
from minivllm.course.mutants.generation_cache import CACHE
from minivllm.course.mutants.generation_decode import DECODE
from minivllm.course.mutants.generation_draw import DRAW
from minivllm.course.mutants.generation_filters import FILTERS
from minivllm.course.mutants.generation_loops import LOOPS
from minivllm.course.mutants.generation_noise import NOISE
from minivllm.course.mutation import Mutant

MUTANTS: list[Mutant] = [*FILTERS, *DRAW, *NOISE, *LOOPS, *CACHE, *ATTEND, *DECODE]
