"""Chapter 01: the parts with a fused product: the split of qkv, SwiGLU."""

from __future__ import annotations

import torch

from minivllm.course.checks import material_ch01 as given
from minivllm.course.declare import Exercise, Output, Property, adversarial, by_hand, sampled

split_qkv = Exercise(
    id="ch01.split_qkv",
    outputs=tuple(Output(name, axes="token head dim") for name in "qkv"),
    oracle=given.split,
    cases=(
        by_hand(
            "two query heads, one key head",
            lambda: {
                "qkv": torch.tensor([[1.0, 7.0, 7.0, 1.0, 3.0, 3.0, 5.0, 6.0]]),
                "num_heads": 2,
                "num_kv_heads": 1,
                "q_weight": torch.tensor([1.0, 2.0]),
                "k_weight": torch.tensor([2.0, 1.0]),
                "eps": 0.0,
            },
            expected=(
                torch.tensor([[[0.2, 2.8], [1.4, 0.4]]]),
                torch.tensor([[[2.0, 1.0]]]),
                torch.tensor([[[5.0, 6.0]]]),
            ),
        ),
        sampled("six query heads, two key heads", given.fused()),
        adversarial(
            "bfloat16 in, bfloat16 out",
            given.in_dtype(torch.bfloat16, given.fused()),
            look_at="the dtype of q, k and v: that of qkv",
            try_it="qkv.bfloat16() in: print the three dtypes",
        ),
        adversarial("as many key heads as query heads", given.fused(3, 3)),
        adversarial("one key head for eight query heads", given.fused(8, 1)),
        adversarial(
            "small values show eps",
            given.scaled(given.fused(), 1e-4, 1e-5, ("qkv",)),
            look_at="the eps that reaches both norms: it is an argument, and may be 1e-5",
            try_it="qkv a thousand times smaller: with eps 1e-5, q and k get smaller, too",
        ),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.fused(), 100.0, 1e-6, ("qkv",))),
            look_at=given.SQUARES_OVERFLOW,
            try_it=given.TRY_FLOAT16,
        ),
        adversarial("a row that is a transposed product", given.transposed(given.fused(), "qkv")),
    ),
    properties=(Property("each token by itself", given.alone(given.fused(), "qkv")),),
    package="minivllm.models.qwen3.Qwen3Attention",
    hints=(
        "How long is a row, in heads? How many of these heads belong to q, how many to k and v?",
        "Give the row an axis of heads first, then split along that axis by three sizes. Norm "
        "after that: the mean is taken within one head.",
        "2 query heads and 1 key head of 2: of the 8 numbers in a row, q has 0-3, k has 4-5, v "
        "has 6-7.",
    ),
    look_at="the sizes of the three parts, and over which axis the norm takes its mean",
    try_it="qkv = arange(8) as one row, 2 query heads, 1 key head: v must be [[[6, 7]]]",
)

swiglu = Exercise(
    id="ch01.swiglu",
    outputs=Output("y", axes="token dim"),
    oracle=given.gated,
    cases=(
        by_hand(
            "two units: gates 2 and -1, ups 1 and 3",
            lambda: {
                "x": torch.tensor([[2.0, -1.0, 1.0, 3.0]]),
                "gate_up_weight": torch.eye(4),
                "down_weight": torch.eye(4)[:, :2],
            },
            expected=torch.tensor([[1.7616, -0.8068, 0.0, 0.0]]),
        ),
        sampled("random weights", given.mlp),
        adversarial(
            "float16 in, float16 out",
            given.in_dtype(torch.float16, given.mlp),
            look_at=given.LAST_LINE,
            try_it="x.half() and half weights in: what is y.dtype?",
        ),
        adversarial(
            "float16: gates from -16 to -12",
            given.in_dtype(torch.float16, given.valves(-16.0, -14.5, -12.0, value=2000.0)),
            look_at="how silu is computed: exp(12) is beyond float16, and x / inf is 0",
            try_it="torch.tensor(12., dtype=torch.float16).exp()",
        ),
        adversarial(
            "float16: gates from 12 to 16",
            given.in_dtype(torch.float16, given.valves(12.0, 14.5, 16.0, value=2.0)),
            look_at="how silu is computed: exp(12) is beyond float16, and inf / inf is NaN",
            try_it="e = torch.tensor(12., dtype=torch.float16).exp(): what is e / (1 + e)?",
        ),
        adversarial(
            "float32: gates of 100 and -100",
            given.valves(100.0, -100.0, 30.0, value=2.0),
            look_at="how silu is computed: exp(100) is beyond float32, too",
            try_it="e = torch.tensor(100.).exp(): what is e / (1 + e)?",
        ),
        adversarial(
            "weights that are not contiguous",
            given.with_gaps(given.mlp, "x", "gate_up_weight", "down_weight"),
        ),
    ),
    properties=(Property("each token by itself", given.alone(given.mlp, "x")),),
    package="minivllm.layers.mlp.SwiGLU",
    hints=(
        "What are the shapes before and after each product? Which half is the valve, which the "
        "value?",
        "One product of x with the transposed fused weight, cut into two halves along the last "
        "axis; silu on the first half only; multiply; the second product.",
        "One unit, gate 2, up 1: sigmoid(2) is 0.8808, silu(2) is 1.7616. With up = 0 the output "
        "is 0, with gate = 0 too.",
    ),
    look_at="the cut: half of the 2 * intermediate columns, last axis; silu on the first half",
    try_it="x = [[2, -1, 1, 3]], gate_up eye(4), down eye(4)[:, :2]: [[1.7616, -0.8068, 0, 0]]",
)
