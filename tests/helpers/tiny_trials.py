"""Checks every kind of trial at a tiny size, in Triton's interpreter; a process of its own.

What is right here is the wiring: the kernels have tests of their own.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import minivllm.kernels  # noqa: F401  # before anything imports triton
from minivllm.bench.attention_trials import Decode, Heads, Prefill, decode_trial, prefill_trial
from minivllm.bench.read_kernel import read_all
from minivllm.bench.small_trials import (
    add_norm_trial,
    heads_trial,
    norm_trial,
    product_trial,
    sample_trial,
    silu_trial,
)
from minivllm.bench.trial import Trial, WrongResultError, check

HEADS = Heads(num_heads=4, num_kv_heads=2, head_dim=16, device="cpu", dtype=torch.float32)


def trials() -> list[Trial]:
    """One of each kind, in float32."""
    return [
        decode_trial(Decode(heads=HEADS, num_reqs=2, num_tokens=35), num_sets=2),
        decode_trial(Decode(heads=HEADS, num_reqs=1, num_tokens=9, block_size=256), num_sets=1),
        prefill_trial(Prefill(heads=HEADS, num_tokens=35), num_sets=2),
        product_trial(HEADS, "o", 2, (64, 24), num_sets=2),
        norm_trial(HEADS, 3, 32),
        add_norm_trial(HEADS, 3, 32),
        heads_trial(HEADS, 3),
        silu_trial(HEADS, 3, 32),
        sample_trial(HEADS, 2, 300),
    ]


def main() -> None:
    """Check them all, and each of them once more with a wrong result."""
    torch.manual_seed(0)
    for trial in trials():
        check(trial)
        for way, calls in trial.ways.items():
            outs = [call() for call in calls]
            assert all(out.shape == outs[0].shape for out in outs), way
            wrong = outs[0].clone()
            wrong[-1] = wrong[0] if len(wrong) > 1 else 0
            broken = {**trial.ways, way: [lambda wrong=wrong: wrong]}
            with pytest.raises(WrongResultError, match=f"{way} is wrong"):
                check(replace(trial, ways=broken))
        print(*trial.labels.values(), "|", *trial.ways, sep="; ")
    source = torch.arange(3 * 8192, dtype=torch.float32)
    assert torch.equal(read_all(source), source.view(3, 8192).sum(1))


if __name__ == "__main__":
    main()
