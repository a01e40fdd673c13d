"""Chapter 03, attention: wrong sizes, norms left out or in the wrong place, rows mixed up."""

from __future__ import annotations

from minivllm.course.declare import edit

_Q_NORMED = "q = self.q_norm(q.reshape(num_tokens, -1, self.head_dim))"
_K_NORMED = "k = self.k_norm(k.reshape(num_tokens, -1, self.head_dim))"
_V_HEADS = "v = v.reshape(num_tokens, -1, self.head_dim)"
_TURN = "q, k = apply_rotary(q, *cos_sin), apply_rotary(k, *cos_sin)"
_SIZES = ".split([self.q_size, self.kv_size, self.kv_size], dim=-1)"
_ATTEND = "self.attn(q, k, v, kv_cache, attn_metadata)"
_WHOLE_ROW = " * torch.rsqrt({0}.square().mean((1, 2), keepdim=True) + 1e-6) * self.{0}_norm.weight"

ATTENTION = [
    edit(
        "attention.head_dim",
        "head_dim = hidden_size / num_heads",
        ("self.head_dim = arch.head_dim", "self.head_dim = arch.hidden_size // arch.num_heads"),
        ("arch.num_heads * arch.head_dim", "arch.num_heads * self.head_dim"),
        ("arch.num_kv_heads * arch.head_dim", "arch.num_kv_heads * self.head_dim"),
        ("self.q_norm = RMSNorm(arch.head_dim,", "self.q_norm = RMSNorm(self.head_dim,"),
        ("self.k_norm = RMSNorm(arch.head_dim,", "self.k_norm = RMSNorm(self.head_dim,"),
        look_at="where head_dim comes from: the config names it, and hidden_size has no part in it",
        try_it="print(arch.head_dim, arch.hidden_size // arch.num_heads)",
    ),
    edit(
        "attention.bias",
        "q, k and v with a bias, as in Qwen2",
        ("bias=arch.qkv_bias", "bias=True"),
        look_at="bias= of qkv_proj: the config says whether there is one",
    ),
    edit(
        "attention.o_bias",
        "an output projection with a bias",
        ("bias=arch.o_bias", "bias=True"),
        look_at="bias= of o_proj: the config says whether there is one",
    ),
    edit("attention.never_bias", "no bias, whatever the config says", ("arch.qkv_bias", "False")),
    edit(
        "attention.eps",
        "eps written out as 1e-6 and not taken from the config",
        (
            "self.q_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)",
            "self.q_norm = RMSNorm(arch.head_dim, 1e-6)",
        ),
        (
            "self.k_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)",
            "self.k_norm = RMSNorm(arch.head_dim, 1e-6)",
        ),
    ),
    edit(
        "attention.qk_norm_missing",
        "q and k not normalised",
        (_Q_NORMED, "q = q.reshape(num_tokens, -1, self.head_dim)"),
        (_K_NORMED, "k = k.reshape(num_tokens, -1, self.head_dim)"),
        look_at="the way of q and k between the split and apply_rotary: each passes its own norm",
    ),
    edit(
        "attention.k_norm_missing",
        "q normalised, k not",
        (_K_NORMED, "k = k.reshape(num_tokens, -1, self.head_dim)"),
    ),
    edit(
        "attention.q_norm_missing",
        "k normalised, q not",
        (_Q_NORMED, "q = q.reshape(num_tokens, -1, self.head_dim)"),
    ),
    edit(
        "attention.no_norm_layers",
        "no layers q_norm and k_norm, and so no norm",
        ("self.q_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)", ""),
        ("self.k_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)", ""),
        (_Q_NORMED, "q = q.reshape(num_tokens, -1, self.head_dim)"),
        (_K_NORMED, "k = k.reshape(num_tokens, -1, self.head_dim)"),
        look_at="the checkpoint has q_norm.weight and k_norm.weight: who holds them?",
    ),
    edit(
        "attention.norm_before_reshape",
        "one mean square for all heads of a token, not one for each head",
        (
            _Q_NORMED,
            f"q = q.reshape(num_tokens, -1, self.head_dim)\n        q = q{_WHOLE_ROW.format('q')}",
        ),
        (
            _K_NORMED,
            f"k = k.reshape(num_tokens, -1, self.head_dim)\n        k = k{_WHOLE_ROW.format('k')}",
        ),
        look_at="the shape when the norm is taken: the last axis must be one head",
    ),
    edit(
        "attention.norms_swapped",
        "q with the norm of k, and k with that of q",
        ("q = self.q_norm(q", "q = self.k_norm(q"),
        ("k = self.k_norm(k", "k = self.q_norm(k"),
    ),
    edit(
        "attention.one_norm",
        "k with the norm of q, too",
        ("k = self.k_norm(k", "k = self.q_norm(k"),
    ),
    edit(
        "attention.rope_first",
        "q and k turned first, then normalised",
        (_Q_NORMED, "q = q.reshape(num_tokens, -1, self.head_dim)"),
        (_K_NORMED, "k = k.reshape(num_tokens, -1, self.head_dim)"),
        (
            _TURN,
            "q = self.q_norm(apply_rotary(q, *cos_sin))\n"
            "        k = self.k_norm(apply_rotary(k, *cos_sin))",
        ),
        look_at="the order of norm and apply_rotary: the norm's weight belongs to unturned planes",
    ),
    edit(
        "attention.v_normed",
        "v normalised like k",
        (_V_HEADS, _V_HEADS + "\n        v = self.k_norm(v)"),
    ),
    edit(
        "attention.v_rotated",
        "v turned like q and k",
        (_TURN, _TURN + "\n        v = apply_rotary(v, *cos_sin)"),
    ),
    edit("attention.no_rope", "neither q nor k turned", (_TURN, "")),
    edit(
        "attention.q_only_turned",
        "q turned, k not",
        (_TURN, "q = apply_rotary(q, *cos_sin)"),
    ),
    edit(
        "attention.rotated_twice",
        "q and k turned twice as far",
        (_TURN, f"{_TURN}\n        {_TURN}"),
    ),
    edit(
        "attention.equal_thirds",
        "q, k and v split into equal thirds",
        (_SIZES, ".chunk(3, dim=-1)"),
        look_at="the sizes of the split: q has more heads than k and v",
    ),
    edit(
        "attention.order_kqv",
        "the first rows taken for k, the next for q",
        (
            "q, k, v = self.qkv_proj(x)" + _SIZES,
            "k, q, v = self.qkv_proj(x).split([self.kv_size, self.q_size, self.kv_size], dim=-1)",
        ),
    ),
    edit(
        "attention.kv_swapped",
        "the rows of k taken for v, and those of v for k",
        ("q, k, v = self.qkv_proj", "q, v, k = self.qkv_proj"),
    ),
    edit(
        "attention.stack_interleaved",
        "heads laid out as q q q k v, group by group",
        (
            "q, k, v = self.qkv_proj(x)" + _SIZES,
            "num_groups = self.kv_size // self.head_dim\n"
            "        rows = self.qkv_proj(x).reshape(num_tokens, num_groups, -1, self.head_dim)\n"
            "        q, k, v = rows[:, :, :-2], rows[:, :, -2], rows[:, :, -1]",
        ),
    ),
    edit(
        "attention.dims_first",
        "the heads of q interleaved: element by element, not head by head",
        (_Q_NORMED, "q = self.q_norm(q.reshape(num_tokens, self.head_dim, -1).transpose(1, 2))"),
    ),
    edit(
        "attention.o_proj_missing",
        "the heads side by side, without o_proj",
        ("self.o_proj(mixed.flatten(1))", "mixed.flatten(1)"),
        look_at="the last step: o_proj brings the heads back to hidden_size",
    ),
    edit(
        "attention.heads_mixed",
        "the result transposed before its heads are put side by side",
        ("mixed.flatten(1)", "mixed.transpose(1, 2).flatten(1)"),
    ),
    edit(
        "attention.scale",
        "scores scaled by (hidden_size / num_heads) ** -0.5",
        (
            "PagedAttention(attention, arch.head_dim",
            "PagedAttention(attention, arch.hidden_size // arch.num_heads",
        ),
        look_at="the head_dim that PagedAttention is given: it sets the scale of the scores",
    ),
    edit(
        "attention.adds_x",
        "x added inside attention",
        (
            "out: Tensor = self.o_proj(mixed.flatten(1))",
            "out: Tensor = x + self.o_proj(mixed.flatten(1))",
        ),
    ),
    edit(
        "attention.window",
        "a window of 4 tokens, although every layer sees them all",
        ("arch.head_dim, None)", "arch.head_dim, 4)"),
    ),
    edit(
        "attention.no_cache",
        "this step's rows alone, as one request: the cache is not read",
        (
            f"mixed = {_ATTEND}",
            "from torch.nn.functional import scaled_dot_product_attention as attend\n"
            "        wide = [t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v)]\n"
            "        rows = [t.transpose(0, 1) for t in (q, *wide)]\n"
            "        mixed = attend(*rows, is_causal=True).transpose(0, 1)",
        ),
        look_at="self.attn: it knows whose token each row is, and what is in the cache",
    ),
]
