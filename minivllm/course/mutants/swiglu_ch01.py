"""Chapter 01: what goes wrong in the MLP.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.declare import edit, mutant

_GATED = "F.silu(gate) * up"
_VALVE = "silu on the first half, the gate, once; the second half, up, multiplies it"
_CUT = "the cut: half of the 2 * intermediate columns, on the last axis"
_LINEAR = "F.linear(x, gate_up_weight).chunk(2, dim=-1)"


@mutant(
    "swiglu.exp_overflow",
    "silu as x / (1 + exp(-x)), where exp overflows float16",
    look_at="how silu is computed: exp(12) is beyond float16, and x / inf is 0",
)
def _exp_overflow(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(gate / (1 + torch.exp(-gate)) * up, down_weight)


@mutant(
    "swiglu.exp_ratio",
    "silu as x * exp(x) / (1 + exp(x)), where exp overflows: inf / inf is NaN",
    look_at="how silu is computed: exp(12) is beyond float16, exp(100) beyond float32",
    try_it="e = torch.tensor(12., dtype=torch.float16).exp(): what is e / (1 + e)?",
)
def _exp_ratio(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    e = torch.exp(gate)
    return F.linear(gate * e / (1 + e) * up, down_weight)


SWIGLU = [
    _exp_ratio,
    edit(
        "swiglu.silu_times_gate",
        "gate * silu(gate): silu multiplies by gate already",
        (_GATED, "gate * F.silu(gate) * up"),
        look_at=_VALVE,
    ),
    edit(
        "swiglu.library_glu",
        "F.glu, which is gate * sigmoid(up)",
        (f"gate, up = {_LINEAR}", "glu = F.glu(F.linear(x, gate_up_weight), dim=-1)"),
        (_GATED, "glu"),
        look_at="F.glu: it puts a sigmoid on the second half; here silu goes on the first",
    ),
    edit(
        "swiglu.reshape",
        "the fused weight reshaped where it has to be transposed",
        (_LINEAR, "(x @ gate_up_weight.reshape(x.shape[1], -1)).chunk(2, dim=-1)"),
        look_at="gate_up_weight.T: reshape to the same shape lays the numbers out otherwise",
        try_it="torch.arange(6).reshape(2, 3).T, and .reshape(3, 2)",
    ),
    edit(
        "swiglu.down_reshape",
        "the down weight reshaped where it has to be transposed",
        (f"F.linear({_GATED}, down_weight)", f"({_GATED}) @ down_weight.reshape(-1, x.shape[1])"),
        look_at="down_weight.T: reshape to the same shape lays the numbers out otherwise",
        try_it="torch.arange(6).reshape(2, 3).T, and .reshape(3, 2)",
    ),
    edit(
        "swiglu.split_hidden",
        "the cut at hidden_size, not in the middle",
        (
            f"gate, up = {_LINEAR}",
            "both = F.linear(x, gate_up_weight)\n"
            "    gate, up = both[:, : x.shape[1]], both[:, x.shape[1] :]",
        ),
        look_at=_CUT,
    ),
    edit(
        "swiglu.chunk_tokens",
        "the tokens cut into halves by chunk(2), whose axis is 0",
        (_LINEAR, "F.linear(x, gate_up_weight).chunk(2)"),
        look_at=_CUT,
    ),
    _exp_overflow,
    edit(
        "swiglu.swap",
        "silu(up) * gate instead of silu(gate) * up",
        (_GATED, "F.silu(up) * gate"),
        look_at=_VALVE,
    ),
    edit("swiglu.gelu", "GELU instead of SiLU", (_GATED, "F.gelu(gate) * up"), look_at=_VALVE),
    edit(
        "swiglu.sigmoid",
        "a sigmoid instead of SiLU: GLU",
        (_GATED, "gate.sigmoid() * up"),
        look_at=_VALVE,
    ),
    edit("swiglu.relu", "ReLU instead of SiLU", (_GATED, "F.relu(gate) * up"), look_at=_VALVE),
    edit("swiglu.tanh", "tanh instead of SiLU", (_GATED, "gate.tanh() * up"), look_at=_VALVE),
    edit("swiglu.no_act", "gate * up, without SiLU", (_GATED, "gate * up"), look_at=_VALVE),
    edit("swiglu.act_after", "silu(gate * up)", (_GATED, "F.silu(gate * up)"), look_at=_VALVE),
    edit(
        "swiglu.act_both",
        "silu on both halves",
        (_GATED, "F.silu(gate) * F.silu(up)"),
        look_at=_VALVE,
    ),
    edit(
        "swiglu.inplace_buffer",
        "silu in place on the whole row, before it is cut: both halves have gone through it",
        (_LINEAR, "F.silu(F.linear(x, gate_up_weight), inplace=True).chunk(2, dim=-1)"),
        (_GATED, "gate * up"),
        same_as="swiglu.act_both",
    ),
    edit("swiglu.add", "silu(gate) + up", (_GATED, "F.silu(gate) + up"), look_at=_VALVE),
    edit("swiglu.no_up", "silu(gate), without up", (_GATED, "F.silu(gate)"), look_at=_VALVE),
    edit("swiglu.no_gate", "up alone", (_GATED, "up"), look_at=_VALVE),
    edit(
        "swiglu.softmax",
        "a softmax over the units instead of a sigmoid for each",
        (_GATED, "gate * gate.softmax(-1) * up"),
        look_at=_VALVE,
    ),
    edit(
        "swiglu.interleaved",
        "every other row taken for gate and up, not the first and the second half",
        (
            f"gate, up = {_LINEAR}",
            "both = F.linear(x, gate_up_weight)\n    gate, up = both[:, ::2], both[:, 1::2]",
        ),
        look_at="the layout of the fused weight: all gate rows, then all up rows",
    ),
    edit(
        "swiglu.token_halves",
        "the tokens cut into halves instead of the units",
        (_LINEAR, "F.linear(x, gate_up_weight).repeat(2, 1)[:, : down_weight.shape[1]].chunk(2)"),
        look_at=_CUT,
    ),
    edit(
        "swiglu.transposed",
        "the fused weight, not transposed",
        (_LINEAR, "(x @ gate_up_weight).chunk(2, dim=-1)"),
        look_at="the shapes of the product: [tokens, hidden] by [2 * units, hidden] transposed",
    ),
    edit(
        "swiglu.down_transposed",
        "the down weight, not transposed",
        (f"F.linear({_GATED}, down_weight)", f"({_GATED}) @ down_weight"),
        look_at="the layout of down_weight: [hidden, units], so it is units @ down_weight.T",
    ),
    edit(
        "swiglu.no_down",
        "the units, without the second product",
        (f"F.linear({_GATED}, down_weight)", _GATED),
        look_at="the last line: down_weight brings the units back to hidden_size",
    ),
    edit(
        "swiglu.residual",
        "x added: the layer does that, not the MLP",
        (f"F.linear({_GATED}, down_weight)", f"x + F.linear({_GATED}, down_weight)"),
        look_at="what is added at the end: nothing; the layer adds x",
    ),
    edit(
        "swiglu.float32",
        "float32, whatever x is",
        (f"F.linear({_GATED}, down_weight)", f"F.linear({_GATED}, down_weight).float()"),
        look_at="the last line: the result goes back to x.dtype",
    ),
]
