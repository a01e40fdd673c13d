"""Chapter 03: the mistakes of its five exercises, by exercise."""

from __future__ import annotations

from minivllm.course.mutants import (
    qwen3_attention,
    qwen3_attention_parts,
    qwen3_destinations,
    qwen3_layer,
    qwen3_loading,
    qwen3_model,
)

MUTANTS = [
    *qwen3_attention.ATTENTION,
    *qwen3_attention_parts.ATTENTION_PARTS,
    *qwen3_layer.LAYER,
    *qwen3_model.MODEL,
    *qwen3_destinations.DESTINATIONS,
    *qwen3_loading.LOADING,
]
