"""What others reached on the same work, measured once; a benchmark shows it where they can't run.

One NVIDIA H200, torch 2.11.0, triton 3.6.0, bfloat16, 2026-11-30. On another machine these figures
say nothing. Attention was timed launch by launch.
"""

from __future__ import annotations

RECORDED = "recorded, H200, torch 2.11"

# Attention, 16 query heads, 8 KV heads. Decode: GB/s of cache read, blocks of 16, by requests and
# tokens of each. Prefill: TFLOP/s of a causal pass over one prompt, contiguous, by its tokens.
DECODE_SPEEDS: dict[str, dict[tuple[int, int], float]] = {
    "FlashAttention 3": {
        (1, 1024): 97,
        (1, 32_768): 2475,
        (8, 4096): 2518,
        (64, 1024): 3076,
        (256, 1024): 3781,
        (256, 4096): 4278,
    },
    "FlashAttention 2": {
        (1, 1024): 94,
        (1, 32_768): 2190,
        (8, 4096): 1705,
        (64, 1024): 2788,
        (256, 1024): 3488,
        (256, 4096): 3772,
    },
}
PREFILL_SPEEDS: dict[str, dict[int, float]] = {
    "FlashAttention 3": {1024: 138, 4096: 561, 16_384: 635},
    "FlashAttention 2": {1024: 113, 4096: 239, 16_384: 353},
}

# Seconds of W1, and milliseconds per step of W2 by batch size.
THROUGHPUT_SECONDS: dict[str, float] = {
    "vLLM 0.20.2, FlashAttention 3, in process": 6.20,
    "vLLM 0.20.2, default processes": 7.17,
    "nano-vllm bb823b3, FlashAttention 3": 7.83,
}
LATENCY_MS: dict[str, dict[int, float]] = {
    "vLLM 0.20.2, FlashAttention 3, in process": {1: 1.76, 8: 2.12, 32: 2.80, 128: 4.58},
    "nano-vllm bb823b3, FlashAttention 3": {1: 2.39, 8: 2.40, 32: 2.88, 128: 4.77},
}
