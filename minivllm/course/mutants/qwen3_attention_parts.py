"""Chapter 03, attention: layers of other names and sizes, other dtypes, arguments mixed up."""

from __future__ import annotations

from minivllm.course.declare import edit

_Q_NORM = "self.q_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)"
_K_NORM = "self.k_norm = RMSNorm(arch.head_dim, arch.rms_norm_eps)"
_Q_NORMED = "q = self.q_norm(q.reshape(num_tokens, -1, self.head_dim))"
_TURN = "q, k = apply_rotary(q, *cos_sin), apply_rotary(k, *cos_sin)"
_ATTEND = "mixed = self.attn(q, k, v, kv_cache, attn_metadata)"
_OUT = "self.o_proj(mixed.flatten(1))"
_PARTS = '{"q_proj": self.q_size, "k_proj": self.kv_size, "v_proj": self.kv_size}'
_SHARED = "num_shared = q.shape[1] // k.shape[1]"
_DTYPES = "float(), and where it is taken back: the next product wants the dtype of its weight"

ATTENTION_PARTS = [
    edit(
        "attention.not_fused",
        "no layer called qkv_proj: three products, or one under another name",
        ("self.qkv_proj = FusedLinear", "self.qkv = FusedLinear"),
        ("self.qkv_proj(x)", "self.qkv(x)"),
        look_at="q, k and v: one FusedLinear with three parts, kept as self.qkv_proj",
        try_it="FusedLinear(8, {'q_proj': 6, 'k_proj': 2, 'v_proj': 2}, bias=False, tp=tp).weight",
    ),
    edit(
        "attention.parts_kvq",
        "the fused rows in the order k, v, q",
        (
            _PARTS,
            '{"k_proj": self.kv_size, "v_proj": self.kv_size, "q_proj": self.q_size}',
        ),
        look_at="the order of the parts: rows of q first, then k, then v",
    ),
    edit(
        "attention.part_names",
        "parts called q, k and v, not as in the checkpoint",
        (_PARTS, '{"q": self.q_size, "k": self.kv_size, "v": self.kv_size}'),
        look_at="the keys of the parts: a checkpoint says q_proj, k_proj, v_proj",
    ),
    edit(
        "attention.norm_of_all_heads",
        "q_norm as large as all heads together",
        (_Q_NORM, "self.q_norm = RMSNorm(self.q_size, arch.rms_norm_eps)"),
        (_Q_NORMED, "q = self.q_norm(q).reshape(num_tokens, -1, self.head_dim)"),
        look_at="the size of q_norm: one head, for all heads share its weight",
    ),
    edit(
        "attention.o_proj_size",
        "an o_proj that reads hidden_size columns, not those of all heads",
        ("RowParallelLinear(self.q_size,", "RowParallelLinear(arch.hidden_size,"),
        look_at="what o_proj reads: num_heads * head_dim numbers, more than hidden_size here",
    ),
    edit(
        "attention.bias_swapped",
        "qkv_bias for o_proj, and o_bias for q, k and v",
        ("bias=arch.qkv_bias", "bias=arch.o_bias"),
        ("arch.hidden_size, bias=arch.o_bias", "arch.hidden_size, bias=arch.qkv_bias"),
    ),
    edit(
        "attention.one_bias",
        "qkv_bias for o_proj, too",
        ("bias=arch.o_bias", "bias=arch.qkv_bias"),
    ),
    edit(
        "attention.o_bias_for_both",
        "o_bias for q, k and v, too",
        ("bias=arch.qkv_bias", "bias=arch.o_bias"),
    ),
    edit(
        "attention.never_o_bias",
        "no bias in o_proj, whatever the config says",
        ("arch.o_bias", "False"),
    ),
    edit(
        "attention.no_bias_at_all",
        "no bias anywhere, whatever the config says",
        ("arch.qkv_bias", "False"),
        ("arch.o_bias", "False"),
    ),
    edit(
        "attention.eps_of_q",
        "the eps of the config for k, 1e-6 for q",
        (_Q_NORM, "self.q_norm = RMSNorm(arch.head_dim, 1e-6)"),
    ),
    edit(
        "attention.eps_of_k",
        "the eps of the config for q, 1e-6 for k",
        (_K_NORM, "self.k_norm = RMSNorm(arch.head_dim, 1e-6)"),
    ),
    edit(
        "attention.scaled_twice",
        "q scaled by head_dim ** -0.5, and once more inside self.attn",
        (_ATTEND, _ATTEND.replace("(q,", "(q * self.head_dim**-0.5,")),
        look_at="the scale: self.attn applies it, so q comes as it is",
    ),
    edit(
        "attention.cos_sin_swapped",
        "the sine taken for the cosine, and the cosine for the sine",
        (_TURN, _TURN.replace("*cos_sin", "*reversed(cos_sin)")),
        look_at="the order of the two: apply_rotary(heads, cos, sin)",
    ),
    edit(
        "attention.k_and_v_handed_over_swapped",
        "v handed to self.attn as the key, and k as the value",
        (_ATTEND, _ATTEND.replace("k, v", "v, k")),
        look_at="the order of what self.attn is handed: q, k, v",
    ),
    edit(
        "attention.cache_and_metadata_swapped",
        "kv_cache and attn_metadata in the wrong order",
        (_ATTEND, _ATTEND.replace("kv_cache, attn_metadata", "attn_metadata, kv_cache")),
        look_at="the order of what self.attn is handed: ..., kv_cache, attn_metadata",
    ),
    edit(
        "attention.heads_repeated",
        "k and v repeated for each query head, though self.attn shares them out itself",
        (
            _ATTEND,
            f"{_SHARED}\n"
            "        k, v = (t.repeat_interleave(num_shared, 1) for t in (k, v))\n"
            f"        {_ATTEND}",
        ),
        look_at="k and v: the cache has room for num_kv_heads, and self.attn shares them out",
    ),
    edit(
        "attention.q_in_float32",
        "float32 on the way through a bfloat16 model",
        (_Q_NORMED, _Q_NORMED.replace("q.reshape", "q.float().reshape")),
        look_at=_DTYPES,
    ),
    edit(
        "attention.k_in_float32",
        "k in float32 on its way into a bfloat16 cache",
        (_TURN, "q, k = apply_rotary(q, *cos_sin), apply_rotary(k.float(), *cos_sin)"),
        look_at=_DTYPES,
    ),
    edit(
        "attention.result_in_float32",
        "the right result, but in float32",
        (_OUT, f"{_OUT}.float()"),
        look_at="the dtype of what you return: that of x",
    ),
]
