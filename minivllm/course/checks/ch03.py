"""Chapter 03: attention, the decoder layer, the whole model, and where its weights go.

The order here is the order in which they are shown.
"""

from __future__ import annotations

from minivllm.course.checks import (
    qwen3_attention,
    qwen3_destinations,
    qwen3_detective,
    qwen3_layer,
    qwen3_loading,
    qwen3_model,
)

attention = qwen3_attention.attention
decoder_layer = qwen3_layer.decoder_layer
model = qwen3_model.model
destinations = qwen3_destinations.destinations
load_weights = qwen3_loading.load_weights
detective = qwen3_detective.detective
