"""Chapter 01: RMSNorm, with and without a residual, RoPE, the split of fused qkv, SwiGLU."""

from __future__ import annotations

import torch

from minivllm.course.checks import material_ch01 as given
from minivllm.course.declare import (
    Detective,
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)

_SQUARES_OVERFLOW = "the dtype in which the squares are taken: 300 * 300 is beyond float16"
_TRY_FLOAT16 = "torch.tensor(300., dtype=torch.float16) ** 2"


rms_norm = Exercise(
    id="ch01.rms_norm",
    outputs=Output("y", axes="token dim"),
    oracle=given.norm,
    cases=(
        by_hand(
            "the row 1, 7 has the root mean square 5",
            lambda: {
                "x": torch.tensor([[1.0, 7.0]]),
                "weight": torch.tensor([1.0, 2.0]),
                "eps": 0.0,
            },
            expected=torch.tensor([[0.2, 2.8]]),
        ),
        sampled("random rows", given.rows),
        adversarial(
            "a row of zeros stays a row of zeros",
            given.zero_row,
            look_at="where eps is added: the mean of this row's squares is 0",
            try_it="torch.rsqrt(torch.tensor(0.)), and the same with 1e-6 in place of 0",
        ),
        adversarial(
            "small values show eps",
            given.scaled(given.rows, 3e-4, 1e-5),
            look_at="where eps is added, and which eps: it belongs to the mean, under the root",
            try_it="x = [[1e-3, 7e-3]], eps 1e-5: sqrt(25e-6 + 1e-5) is 5.9e-3, not 5e-3",
        ),
        adversarial(
            "eps is the one that is given",
            given.scaled(given.rows, 3e-3, 1e-3),
            look_at="eps: a model's config may say 1e-5 or 1e-6, so it is an argument",
        ),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.rows, 100.0)),
            look_at=_SQUARES_OVERFLOW,
            try_it=_TRY_FLOAT16,
        ),
        adversarial("bfloat16 in, bfloat16 out", given.in_dtype(torch.bfloat16, given.rows)),
        adversarial("rows that are not contiguous", given.with_gaps(given.rows, "x")),
    ),
    properties=(
        Property("each token by itself", given.alone(given.rows, "x")),
        Property("each head by itself: x may have three axes", given.per_head),
    ),
    rules=Rules(banned=("rms_norm",)),
    package="minivllm.layers.norm.RMSNorm",
    hints=(
        "Which number is a row divided by, and how many of these numbers are there for 5 rows? "
        "In which dtype can they be computed without overflow?",
        "Square, mean over the last axis (kept, so that it broadcasts), eps, then rsqrt. Go back "
        "to the dtype of x before you return.",
        "The row [1, 7]: the squares are 1 and 49, their mean is 25, its root is 5. A row of "
        "zeros must not give NaN.",
    ),
    look_at="the line that takes the mean of the squares",
    try_it="x = [[1, 7]], weight ones, eps 0: the root mean square is 5, so [[0.2, 1.4]]",
)

add_rms_norm = Exercise(
    id="ch01.add_rms_norm",
    outputs=(Output("normed", axes="token dim"), Output("new residual", axes="token dim")),
    oracle=given.add_norm,
    cases=(
        by_hand(
            "1, 3 and 0, 4 add up to 1, 7",
            lambda: {
                "x": torch.tensor([[1.0, 3.0]]),
                "residual": torch.tensor([[0.0, 4.0]]),
                "weight": torch.tensor([1.0, 2.0]),
                "eps": 0.0,
            },
            expected=(torch.tensor([[0.2, 2.8]]), torch.tensor([[1.0, 7.0]])),
        ),
        sampled("random rows", given.summed),
        adversarial("x and residual cancel out in one row", given.cancelled),
        adversarial(
            "small values show eps",
            given.scaled(given.summed, 3e-4, 1e-5, ("x", "residual")),
            look_at="the eps that reaches the norm: it is an argument, and may be 1e-5",
        ),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.summed, 50.0)),
            look_at=_SQUARES_OVERFLOW,
            try_it=_TRY_FLOAT16,
        ),
        adversarial("rows that are not contiguous", given.with_gaps(given.summed, "x", "residual")),
    ),
    properties=(Property("each token by itself", given.alone(given.summed, "x", "residual")),),
    package="minivllm.layers.norm.RMSNorm",
    hints=(
        "Two results come back. Which of them does the next part add to, and which does the next "
        "product read?",
        "Add once, keep the sum under a name, norm the sum; the sum itself goes back untouched.",
        "x = [[1, 3]], residual = [[0, 4]]: the new residual is [[1, 7]], whatever the weight is.",
    ),
    look_at="what is returned: first the normed rows, then the sum that was normed",
    try_it="a weight ten times as large: normed grows tenfold, the new residual stays",
)


rope = Exercise(
    id="ch01.rope",
    outputs=Output("y", axes="token head dim"),
    oracle=given.turned,
    cases=(
        by_hand(
            "two pairs at the positions 0 and 1",
            lambda: {
                "x": torch.tensor([[[1.0, 1.0, 0.0, 0.0]]]).repeat(2, 1, 1),
                "positions": torch.tensor([0, 1]),
                "theta": 100.0,
            },
            expected=torch.tensor([[[1.0, 1.0, 0.0, 0.0]], [[0.5403, 0.9950, 0.8415, 0.0998]]]),
        ),
        sampled("packed positions 7, 3, 100", given.heads_at([7, 3, 100])),
        adversarial(
            "a decode step: one token at position 41",
            given.heads_at([41]),
            look_at="where the positions come from: row 0 of x may stand at position 41",
        ),
        adversarial(
            "theta is the one that is given",
            given.heads_at([2, 900, 31, 4000], 1e6),
            look_at="theta: Qwen3's is 1,000,000, so it is an argument",
        ),
        adversarial("a chunk that starts at 64", given.heads_at(range(64, 72))),
        adversarial("a head of six: three pairs", given.heads_at([9, 1, 30, 2], 1e4, 6)),
        adversarial(
            "bfloat16: positions 256 and 257 differ",
            given.in_dtype(torch.bfloat16, given.heads_at([256, 257, 1001, 1003])),
            look_at="the dtype of positions and angles: bfloat16 has no 257",
            try_it="torch.tensor(257).bfloat16()",
        ),
        adversarial(
            "float16 in, float16 out", given.in_dtype(torch.float16, given.heads_at([7, 3, 100]))
        ),
        adversarial("heads that are a view of a fused row", given.key_heads),
    ),
    properties=(
        Property(
            "each token by itself", given.alone(given.heads_at([7, 3, 100]), "x", "positions")
        ),
    ),
    package="minivllm.layers.rotary.apply_rotary",
    hints=(
        "How many angles does one token need? All heads of a token share them. Which two elements "
        "of a head are turned together?",
        "The outer product of positions and speeds gives the angles; None in an index adds the "
        "axis of the heads. Cut x into its two halves and put two new halves together.",
        "head_dim 4, theta 100, position 1: pair 0 turns by 1 radian, pair 1 by 0.1. The head "
        "[1, 1, 0, 0] becomes [cos 1, cos 0.1, sin 1, sin 0.1].",
    ),
    look_at="the angles: one for each token and pair; then which two elements make a pair",
    try_it="x = [[[1, 1, 0, 0]]], positions [1], theta 100: [0.5403, 0.9950, 0.8415, 0.0998]",
)

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
        adversarial("as many key heads as query heads", given.fused(3, 3)),
        adversarial("one key head for eight query heads", given.fused(8, 1)),
        adversarial("small values show eps", given.scaled(given.fused(), 1e-4, 1e-5, ("qkv",))),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.fused(), 100.0, 1e-6, ("qkv",))),
            look_at=_SQUARES_OVERFLOW,
            try_it=_TRY_FLOAT16,
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
            "one unit: gate 1, up 2",
            lambda: {
                "x": torch.tensor([[1.0, 2.0]]),
                "gate_up_weight": torch.eye(2),
                "down_weight": torch.tensor([[1.0], [3.0]]),
            },
            expected=torch.tensor([[1.4621, 4.3864]]),
        ),
        sampled("random weights", given.mlp),
        adversarial("float16 in, float16 out", given.in_dtype(torch.float16, given.mlp)),
        adversarial(
            "float16: gates from -16 to -12",
            given.in_dtype(torch.float16, given.nearly_closed),
            look_at="how silu is computed: exp(12) is beyond float16, and x / inf is 0",
            try_it="torch.tensor(12., dtype=torch.float16).exp()",
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
        "One unit, gate 1, up 2: silu(1) is 0.7311, times 2 is 1.4621. With up = 0 the output is "
        "0, with gate = 0 too.",
    ),
    look_at="which half goes through silu, and what it is multiplied by",
    try_it="x = [[1, 2]], gate_up = eye(2), down = [[1], [3]]: [[1.4621, 4.3864]]",
)

detective = Detective(
    id="ch01.detective",
    listing=given.run_layers,
    culprit="add_norm(attention(x)",
    fix="        x, residual = add_norm(attention(x), residual, mlp_weight, eps)",
    shows_bug=given.attention_is_lost,
    reasons={
        "a": "the residual begins with zeros, so the embeddings are lost",
        "b": "the norms stand before the parts; they belong behind them",
        "c": "the new residual is dropped, so what attention adds reaches the MLP and no further",
        "d": "the residual is added twice at the end",
    },
    right="c",
    explain={
        "a": "the first add_norm adds x, the embeddings, to those zeros and keeps the sum",
        "b": "Qwen3 norms what each part reads; the sum itself is never normed on its way up",
        "d": "x is the last MLP's output there: the residual is added once",
    },
    lines={
        "zeros_like": "the first add_norm adds the embeddings to these zeros",
        "attention_weight, eps": "both results are kept: the normed rows and the new sum",
        "mlp(x)": "the MLP reads normed rows; its output is added by the next add_norm",
        "last_weight, eps)": "after the last norm nobody needs the residual any more",
        "for attention": "each layer has two parts and two weights",
    },
    hints=(
        "Follow the residual from line to line. Every part's output must get into it.",
        "Each add_norm gives two results. Where is the second one kept, and where is it not?",
        "Take MLPs that give zeros: the result then has to be the norm of x plus the attention.",
    ),
)
