"""Chapter 03: the mistakes of its five exercises, each bank in a file of its own."""

from __future__ import annotations

from minivllm.course.mutants import (
    qwen3_attention,
    qwen3_destinations,
    qwen3_layer,
    qwen3_loading,
    qwen3_model,
)

MUTANTS = [
    *qwen3_attention.ATTENTION,
    *qwen3_layer.LAYER,
    *qwen3_model.MODEL,
    *qwen3_destinations.DESTINATIONS,
    *qwen3_loading.LOADING,
]
