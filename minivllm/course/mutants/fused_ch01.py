"""Chapter 01: what goes wrong in the two fused products, qkv and gate_up.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.declare import edit, mutant

_HEADS = "qkv.unflatten(-1, (-1, len(q_weight)))"
_SIZES = "[num_heads, num_kv_heads, num_kv_heads]"
_PARTS = f"q, k, v = heads.split({_SIZES}, dim=1)"
_NORMED = "rms_norm(q, q_weight, eps), rms_norm(k, k_weight, eps), v"

SPLIT_QKV = [
    edit(
        "split_qkv.equal_thirds",
        "three parts of equal size",
        (_PARTS, "q, k, v = heads.tensor_split(3, dim=1)"),
        look_at="the sizes: k and v have num_kv_heads heads, q has num_heads",
    ),
    edit(
        "split_qkv.order_kqv",
        "the row read as [k | q | v]",
        (_PARTS, "k, q, v = heads.split([num_kv_heads, num_heads, num_kv_heads], dim=1)"),
    ),
    edit("split_qkv.order_qvk", "keys and values confused", ("q, k, v = heads", "q, v, k = heads")),
    edit(
        "split_qkv.offset_rows",
        "keys cut out from one key size on, not after all query heads",
        (_PARTS, _PARTS + "\n    k = heads[:, num_kv_heads : 2 * num_kv_heads]"),
        look_at="where the keys begin: after num_heads heads",
    ),
    edit(
        "split_qkv.values_are_keys",
        "the keys given back as values",
        (_NORMED, "rms_norm(q, q_weight, eps), rms_norm(k, k_weight, eps), k"),
    ),
    edit(
        "split_qkv.stack_interleaved",
        "the row read as one [q | k | v] for each key head",
        (
            _PARTS,
            "groups = heads.unflatten(1, (num_kv_heads, -1))\n"
            "    q, k, v = groups[:, :, :-2].flatten(1, 2), groups[:, :, -2], groups[:, :, -1]",
        ),
        look_at="the layout: all query heads first, then all key heads, then all value heads",
    ),
    edit("split_qkv.qk_norm_missing", "heads that are not normed", (_NORMED, "q, k, v")),
    edit(
        "split_qkv.k_norm_missing",
        "keys that are not normed",
        ("rms_norm(k, k_weight, eps), v", "k, v"),
    ),
    edit(
        "split_qkv.q_norm_missing",
        "queries that are not normed",
        ("rms_norm(q, q_weight, eps), rms", "q, rms"),
    ),
    edit(
        "split_qkv.v_normed", "values normed, too", ("eps), v", "eps), rms_norm(v, k_weight, eps)")
    ),
    edit(
        "split_qkv.one_weight",
        "the queries' weight used for the keys",
        ("rms_norm(k, k_weight", "rms_norm(k, q_weight"),
    ),
    edit(
        "split_qkv.swapped_weights",
        "the two weights confused",
        (_NORMED, "rms_norm(q, k_weight, eps), rms_norm(k, q_weight, eps), v"),
    ),
    edit(
        "split_qkv.norm_before_reshape",
        "one norm over all heads of a token together",
        (
            _NORMED,
            "rms_norm(q.flatten(1), q_weight.repeat(num_heads), eps).view_as(q), "
            "rms_norm(k.flatten(1), k_weight.repeat(num_kv_heads), eps).view_as(k), v",
        ),
        look_at="over how many elements the mean is taken: one head, head_dim of them",
        try_it="one head ten times as large as the others: the other heads must not change",
    ),
    edit(
        "split_qkv.dim_major",
        "the row read as [head_dim, heads]: the heads' elements interleaved",
        (_HEADS, "qkv.unflatten(-1, (len(q_weight), -1)).transpose(1, 2)"),
        look_at="the axes of the view: heads first, then the elements of a head",
    ),
    edit(
        "split_qkv.heads_first",
        "the heads before the tokens",
        (
            _NORMED,
            f"tuple(part.transpose(0, 1) for part in ({_NORMED}))",
        ),
    ),
    edit(
        "split_qkv.flat",
        "rows that are not cut into heads",
        (
            _NORMED,
            f"tuple(part.flatten(1) for part in ({_NORMED}))",
        ),
    ),
    edit(
        "split_qkv.repeated",
        "keys and values repeated for each query head: attention does that, when it reads them",
        (
            _NORMED,
            "rms_norm(q, q_weight, eps), *(part.repeat_interleave(num_heads // num_kv_heads, 1)"
            " for part in (rms_norm(k, k_weight, eps), v))",
        ),
        look_at="the number of key and value heads: it stays num_kv_heads",
    ),
    edit(
        "split_qkv.no_eps",
        "norms without eps",
        (_NORMED, "rms_norm(q, q_weight, 0.0), rms_norm(k, k_weight, 0.0), v"),
    ),
    edit(
        "split_qkv.wrong_eps",
        "eps always 1e-6",
        (_NORMED, "rms_norm(q, q_weight, 1e-6), rms_norm(k, k_weight, 1e-6), v"),
    ),
]

_GATED = "F.silu(gate) * up"
_LINEAR = "F.linear(x, gate_up_weight).chunk(2, dim=-1)"


@mutant(
    "swiglu.exp_overflow",
    "silu as x / (1 + exp(-x)), where exp overflows float16",
    look_at="how silu is computed: exp(12) is beyond float16, and x / inf is 0",
)
def _exp_overflow(x: Tensor, gate_up_weight: Tensor, down_weight: Tensor) -> Tensor:
    gate, up = F.linear(x, gate_up_weight).chunk(2, dim=-1)
    return F.linear(gate / (1 + torch.exp(-gate)) * up, down_weight)


SWIGLU = [
    _exp_overflow,
    edit(
        "swiglu.swap", "silu(up) * gate instead of silu(gate) * up", (_GATED, "F.silu(up) * gate")
    ),
    edit("swiglu.gelu", "GELU instead of SiLU", (_GATED, "F.gelu(gate) * up")),
    edit("swiglu.sigmoid", "a sigmoid instead of SiLU: GLU", (_GATED, "gate.sigmoid() * up")),
    edit("swiglu.relu", "ReLU instead of SiLU", (_GATED, "F.relu(gate) * up")),
    edit("swiglu.tanh", "tanh instead of SiLU", (_GATED, "gate.tanh() * up")),
    edit("swiglu.no_act", "gate * up, without SiLU", (_GATED, "gate * up")),
    edit("swiglu.act_after", "silu(gate * up)", (_GATED, "F.silu(gate * up)")),
    edit("swiglu.act_both", "silu on both halves", (_GATED, "F.silu(gate) * F.silu(up)")),
    edit(
        "swiglu.inplace_buffer",
        "silu in place on the whole row, before it is cut: both halves have gone through it",
        (_LINEAR, "F.silu(F.linear(x, gate_up_weight), inplace=True).chunk(2, dim=-1)"),
        (_GATED, "gate * up"),
        same_as="swiglu.act_both",
    ),
    edit("swiglu.add", "silu(gate) + up", (_GATED, "F.silu(gate) + up")),
    edit("swiglu.no_up", "silu(gate), without up", (_GATED, "F.silu(gate)")),
    edit("swiglu.no_gate", "up alone", (_GATED, "up")),
    edit(
        "swiglu.softmax",
        "a softmax over the units instead of a sigmoid for each",
        (_GATED, "gate * gate.softmax(-1) * up"),
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
        look_at="the axis of the cut",
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
    ),
    edit(
        "swiglu.no_down",
        "the units, without the second product",
        (f"F.linear({_GATED}, down_weight)", _GATED),
    ),
    edit(
        "swiglu.residual",
        "x added: the layer does that, not the MLP",
        (f"F.linear({_GATED}, down_weight)", f"x + F.linear({_GATED}, down_weight)"),
    ),
    edit(
        "swiglu.float32",
        "float32, whatever x is",
        (f"F.linear({_GATED}, down_weight)", f"F.linear({_GATED}, down_weight).float()"),
    ),
]
