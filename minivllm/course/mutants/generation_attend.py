"""Chapter 04: mistakes in attention over a KV cache: masks, heads, scale, axes."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_READ = "(q[row], k_cache[row, :end], v_cache[row, :end])"
_MASK = "torch.ones(num_new, end, dtype=torch.bool, device=q.device).tril(start)"
_SDPA = "queries, keys, values, visible, enable_gqa=True"
_KEYS = "queries, keys, values = (x.transpose(0, 1) for x in read)"
_REPEATED = "(x.repeat_interleave(q.shape[2] // k.shape[2], 0) for x in (keys, values))"
_MASK_AT = "the diagonal of the mask: new token i sees num_computed + i + 1 slots, itself included"
_TRY_MASK = "start = 2 and 2 new tokens: the rows of the mask are 1110 and 1111"
_HEADS_AT = "the heads: groups of num_heads / num_kv_heads share a KV head; see enable_gqa"
_TRY_HEADS = "4 query and 2 KV heads, values 1 and 2: the outputs of the heads are 1, 1, 2, 2"
_SCALE_AT = "the scale: head_dim ** -0.5, once; scaled_dot_product_attention does it itself"
_TRY_SCALE = "q = 2 and keys 0, 2, all of head_dim 4: the scores are 0 and 8"
_AXES_AT = "the axes: SDPA wants heads before tokens, and the result has tokens before heads"
_TRY_AXES = "print queries.shape: [num_heads, num_new, head_dim]"

ATTEND: list[Mutant] = [
    edit(
        "cached_attention.left_in_float32",
        "the output in float32, whatever the dtype of q",
        ("out = q.shape[1], torch.empty_like(q)", "out = q.shape[1], torch.empty_like(q).float()"),
        look_at="the dtype of what is returned: that of q",
    ),
    edit(
        "cached_attention.scaled_twice",
        "the queries scaled by hand, and once more by SDPA",
        (_SDPA, "queries * queries.shape[-1] ** -0.5, keys, values, visible, enable_gqa=True"),
        look_at=_SCALE_AT,
        try_it=_TRY_SCALE,
    ),
    edit(
        "cached_attention.no_mask",
        "new tokens that see the ones after them",
        (_SDPA, "queries, keys, values, enable_gqa=True"),
        look_at="the mask: a prompt's token must not see the tokens behind it",
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.is_causal",
        "is_causal=True, whose diagonal starts at slot 0",
        (_SDPA, "queries, keys, values, is_causal=True, enable_gqa=True"),
        look_at="the diagonal of the mask: token i sees what was cached, too",
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.no_offset",
        "a mask that hides what was cached",
        (".tril(start)", ".tril()"),
        same_as="cached_attention.is_causal",
        look_at=_MASK_AT,
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.mask_plus_one",
        "a mask that shows each token the next one",
        (".tril(start)", ".tril(start + 1)"),
        look_at=_MASK_AT,
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.not_itself",
        "a mask that hides each token from itself",
        (".tril(start)", ".tril(start - 1)"),
        look_at=_MASK_AT,
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.float_mask",
        "a mask of 1.0 and 0.0, which SDPA adds to the scores",
        ("dtype=torch.bool", "dtype=q.dtype"),
        look_at="the dtype of the mask: bool, True where a slot is seen",
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.inverted_mask",
        "a mask that is True where a slot must not be seen",
        ("values, visible,", "values, ~visible,"),
        look_at="the mask: for SDPA True means that a slot is seen",
        try_it=_TRY_MASK,
    ),
    edit(
        "cached_attention.only_new",
        "attention to the new tokens only",
        (_READ, "(q[row], k[row], v[row])"),
        (_MASK, "torch.ones(num_new, num_new, dtype=torch.bool).tril()"),
        look_at="what is read: cached and new tokens together",
    ),
    edit(
        "cached_attention.only_cached",
        "attention to what was cached before, without the new tokens",
        (_READ, "(q[row], k_cache[row, :start], v_cache[row, :start])"),
        (_MASK, "torch.ones(num_new, start, dtype=torch.bool)"),
        look_at="what is read: cached and new tokens together",
    ),
    edit(
        "cached_attention.tile",
        "KV heads dealt out in turn (0,1,0,1,...) instead of in groups (0,0,0,1,1,1)",
        (
            _SDPA,
            "*(x.repeat(q.shape[2] // len(x), 1, 1) for x in (queries, keys, values)), visible",
        ),
        look_at=_HEADS_AT,
        try_it=_TRY_HEADS,
    ),
    edit(
        "cached_attention.no_gqa",
        "six query heads against two KV heads, without enable_gqa",
        (_SDPA, "queries, keys, values, visible"),
        look_at=_HEADS_AT,
        try_it=_TRY_HEADS,
    ),
    edit(
        "cached_attention.no_transpose",
        "tokens before heads in SDPA",
        ("(x.transpose(0, 1) for x in read)", "read"),
        look_at=_AXES_AT,
        try_it=_TRY_AXES,
    ),
    edit(
        "cached_attention.softmax_axis",
        "a softmax over the queries in place of the keys",
        (_KEYS, f"{_KEYS}; keys, values = {_REPEATED}"),
        (
            "F.scaled_dot_product_attention(queries, keys, values, visible, enable_gqa=True)",
            "(queries @ keys.mT * q.shape[-1] ** -0.5).masked_fill(~visible, -torch.inf)"
            ".softmax(-2) @ values",
        ),
        look_at="the axis of the softmax: the last one, the keys",
        try_it="print weights.sum(-1): it is 1 for each head and query",
    ),
    edit(
        "cached_attention.no_scale",
        "scores without the factor head_dim ** -0.5",
        ("enable_gqa=True", "enable_gqa=True, scale=1.0"),
        look_at=_SCALE_AT,
        try_it=_TRY_SCALE,
    ),
    edit(
        "cached_attention.not_transposed",
        "heads taken for tokens: no transpose back",
        ("out[row] = mixed.transpose(0, 1)", "out[row] = mixed.reshape(out[row].shape)"),
        look_at=_AXES_AT,
        try_it="print mixed.shape: [num_heads, num_new, head_dim]",
    ),
]
