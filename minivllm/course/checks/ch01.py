"""Chapter 01: RMSNorm, with and without a residual, RoPE; then the parts of the other files.

Next files to read: `fused_ch01.py`, `detective_ch01.py`.
"""

from __future__ import annotations

import torch

from minivllm.course.checks import detective_ch01, fused_ch01
from minivllm.course.checks import material_ch01 as given
from minivllm.course.declare import (
    Exercise,
    Output,
    Property,
    Rules,
    adversarial,
    by_hand,
    sampled,
)

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
            "bfloat16 in, bfloat16 out",
            given.in_dtype(torch.bfloat16, given.rows),
            look_at=given.LAST_LINE,
            try_it="x.bfloat16() in: what is y.dtype?",
        ),
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
            try_it="x = [[1e-3, 7e-3]], eps 1e-3: sqrt(25e-6 + 1e-3) is 3.2e-2, not 5e-3",
        ),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.rows, 100.0)),
            look_at=given.SQUARES_OVERFLOW,
            try_it=given.TRY_FLOAT16,
        ),
        adversarial("rows that are not contiguous", given.with_gaps(given.rows, "x")),
        adversarial(
            "heads that are a view of a fused row",
            given.some_heads,
            look_at="the axis of the mean: -1, the elements of a head, however many axes there are",
            try_it="x of shape [5, 3, 12]: there are 15 means",
        ),
        adversarial(
            "one row alone: x may have one axis",
            given.one_row,
            look_at="x may be [size]: nothing may ask for a second axis",
            try_it="x = [1, 7], weight [1, 2], eps 0: [0.2, 2.8]",
        ),
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
    look_at="the root of the mean of the squares, then where weight is multiplied in",
    try_it="x = [[1, 7]], weight [1, 2], eps 0: the root mean square is 5, so [[0.2, 2.8]]",
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
        adversarial(
            "bfloat16 in, bfloat16 out",
            given.in_dtype(torch.bfloat16, given.summed),
            look_at="the dtype of both results: that of x",
            try_it="x.bfloat16(), residual.bfloat16() in: print both dtypes",
        ),
        adversarial("x and residual cancel out in one row", given.cancelled),
        adversarial(
            "small values show eps",
            given.scaled(given.summed, 3e-4, 1e-5, ("x", "residual")),
            look_at="the eps that reaches the norm: it is an argument, and may be 1e-5",
            try_it=given.TRY_EPS_OF_SUM,
        ),
        adversarial(
            "float16: squares beyond its range",
            given.in_dtype(torch.float16, given.scaled(given.summed, 50.0)),
            look_at=given.SQUARES_OVERFLOW,
            try_it=given.TRY_FLOAT16,
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
    look_at="what is normed, x + residual, and what is returned: the normed rows, then the sum",
    try_it="x [[1, 3]], residual [[0, 4]], weight [1, 2], eps 0: [[0.2, 2.8]] and [[1, 7]]",
)


rope = Exercise(
    id="ch01.rope",
    outputs=Output("y", axes="token head dim"),
    oracle=given.turned,
    cases=(
        by_hand(
            "two pairs at the positions 0 and 1",
            lambda: {
                "x": torch.tensor([[[1.0, 1.0, 1.0, 0.0]]]).repeat(2, 1, 1),
                "positions": torch.tensor([0, 1]),
                "theta": 100.0,
            },
            expected=torch.tensor([[[1.0, 1.0, 1.0, 0.0]], [[-0.3012, 0.9950, 1.3818, 0.0998]]]),
        ),
        sampled(
            "packed positions 7, 3, 100",
            given.heads_at([7, 3, 100]),
            try_it="positions [7, 3, 100]: token 1 must be turned as at position 3",
        ),
        adversarial(
            "float16 in, float16 out",
            given.in_dtype(torch.float16, given.heads_at([7, 3, 100])),
            look_at=given.LAST_LINE,
            try_it="x.half() in: what is y.dtype?",
        ),
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
        adversarial(
            "a long context: position 40,000",
            given.heads_at([40_000, 7, 39_999]),
            look_at="positions: no table of a fixed length, no int16, which ends at 32,767",
            try_it="torch.tensor(40_000).to(torch.int16)",
        ),
        adversarial("a head of six: three pairs", given.heads_at([9, 1, 30, 2], 1e4, 6)),
        adversarial(
            "bfloat16: positions 256 and 257 differ",
            given.in_dtype(torch.bfloat16, given.heads_at([256, 257, 1001, 1003])),
            look_at="the dtype of positions and angles: bfloat16 has no 257",
            try_it="torch.tensor(257).bfloat16()",
        ),
        adversarial(
            "float16: positions 2048 and 2049 differ",
            given.in_dtype(torch.float16, given.heads_at([2048, 2049, 3001, 3003])),
            look_at="the dtype of positions and angles: float16 has no 2049",
            try_it="torch.tensor(2049).half()",
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
        "[1, 1, 1, 0] becomes [cos 1 - sin 1, cos 0.1, cos 1 + sin 1, sin 0.1].",
    ),
    look_at="the angles, from positions, no table of fixed length; then pairs, minus and plus",
    try_it="x = [[[1, 1, 1, 0]]], positions [1], theta 100: [-0.3012, 0.9950, 1.3818, 0.0998]",
)

split_qkv = fused_ch01.split_qkv
swiglu = fused_ch01.swiglu
detective = detective_ch01.detective
