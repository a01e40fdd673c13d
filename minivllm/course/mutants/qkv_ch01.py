"""Chapter 01: what goes wrong where a fused qkv row is cut into heads.

Each is a change to the solution's text.
"""

from __future__ import annotations

from minivllm.course.declare import edit

_HEADS = "qkv.unflatten(-1, (-1, len(q_weight)))"
_SIZES = "[num_heads, num_kv_heads, num_kv_heads]"
_PARTS = f"q, k, v = heads.split({_SIZES}, dim=1)"
_NORMED = "rms_norm(q, q_weight, eps), rms_norm(k, k_weight, eps), v"
_WHICH = "which weight and which eps each norm gets: q_weight, k_weight, eps; values get none"
_TRY_NORMS = "q_weight [1, 2], k_weight [2, 1], eps 0: q [1, 7] gives [0.2, 2.8], k [3, 3] [2, 1]"
_TRY_EPS = "qkv a thousand times smaller: with eps 1e-5, q and k get smaller, too"
_LAYOUT = "the layout: all query heads first, then all key heads, then all value heads"
_UNEQUAL = "the sizes: chunk cuts equal parts, but k and v have num_kv_heads heads, q num_heads"
_HEAD_DIM = "head_dim: it is len(q_weight)"
_VIEWS = (
    ("view", ".reshape(n, num_heads, d)", ".reshape(n, num_kv_heads, d)"),
    ("view_any", ".reshape(n, -1, d)", ".reshape(n, -1, d)"),
    ("unflatten", ".unflatten(-1, (-1, d))", ".unflatten(-1, (-1, d))"),
)

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
    edit(
        "split_qkv.qk_norm_missing",
        "heads that are not normed",
        (_NORMED, "q, k, v"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
    ),
    edit(
        "split_qkv.k_norm_missing",
        "keys that are not normed",
        ("rms_norm(k, k_weight, eps), v", "k, v"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
    ),
    edit(
        "split_qkv.q_norm_missing",
        "queries that are not normed",
        ("rms_norm(q, q_weight, eps), rms", "q, rms"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
    ),
    edit(
        "split_qkv.v_normed",
        "values normed, too",
        ("eps), v", "eps), rms_norm(v, k_weight, eps)"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
    ),
    edit(
        "split_qkv.one_weight",
        "the queries' weight used for the keys",
        ("rms_norm(k, k_weight", "rms_norm(k, q_weight"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
    ),
    edit(
        "split_qkv.swapped_weights",
        "the two weights confused",
        (_NORMED, "rms_norm(q, k_weight, eps), rms_norm(k, q_weight, eps), v"),
        look_at=_WHICH,
        try_it=_TRY_NORMS,
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
        look_at=_WHICH,
        try_it=_TRY_EPS,
    ),
    edit(
        "split_qkv.wrong_eps",
        "eps always 1e-6",
        (_NORMED, "rms_norm(q, q_weight, 1e-6), rms_norm(k, k_weight, 1e-6), v"),
        look_at=_WHICH,
        try_it=_TRY_EPS,
    ),
    edit(
        "split_qkv.wrong_k_eps",
        "eps given to the queries only, the keys' always 1e-6",
        (_NORMED, "rms_norm(q, q_weight, eps), rms_norm(k, k_weight, 1e-6), v"),
        look_at=_WHICH,
        try_it=_TRY_EPS,
    ),
    edit(
        "split_qkv.no_k_eps",
        "eps given to the queries only, the keys' left out",
        (_NORMED, "rms_norm(q, q_weight, eps), rms_norm(k, k_weight, 0.0), v"),
        look_at=_WHICH,
        try_it=_TRY_EPS,
    ),
    edit(
        "split_qkv.float32",
        "the right numbers, left in float32",
        (_NORMED, "rms_norm(q.float(), q_weight, eps), rms_norm(k.float(), k_weight, eps), v"),
        (_HEADS, _HEADS + "; q_weight, k_weight = q_weight.float(), k_weight.float()"),
        look_at="the last line: q and k go back to the dtype of qkv",
    ),
    edit(
        "split_qkv.inplace",
        "the right numbers, the normed heads written over qkv",
        (
            _NORMED,
            "q.copy_(rms_norm(q, q_weight, eps)), k.copy_(rms_norm(k, k_weight, eps)), v",
        ),
        look_at="q[:] = and operations ending in _: q is a view, so they write into qkv",
        try_it="q = qkv[:, :2]; q[:] = 0; print(qkv)",
    ),
    edit(
        "split_qkv.order_kvq",
        "the row read as [k | v | q]",
        (_PARTS, "k, v, q = heads.split([num_kv_heads, num_kv_heads, num_heads], dim=1)"),
        look_at=_LAYOUT,
    ),
    edit(
        "split_qkv.kv_alternate",
        "keys and values taken alternately: k, v, k, v behind the queries",
        (
            _PARTS,
            "q, kv = heads[:, :num_heads], heads[:, num_heads:]; k, v = kv[:, ::2], kv[:, 1::2]",
        ),
        look_at=_LAYOUT,
    ),
    edit(
        "split_qkv.heads_axis",
        "the mean over the heads instead of the elements of a head",
        (
            _NORMED,
            "*(p * w * (p.float().square().mean(1, keepdim=True) + eps).rsqrt().to(p.dtype)"
            " for p, w in ((q, q_weight), (k, k_weight))), v",
        ),
        look_at="the axis of the mean: -1, the head_dim numbers of one head",
    ),
    edit(
        "split_qkv.norm_whole_row",
        "one norm over the whole row, before it is cut",
        (
            _PARTS,
            "root = (qkv.float().square().mean(-1)[:, None, None] + eps).rsqrt()\n"
            "    normed = (heads.float() * root).to(heads.dtype)\n"
            "    q, k, v = normed.split([num_heads, num_kv_heads, num_kv_heads], dim=1)",
        ),
        (_NORMED, "q * q_weight, k * k_weight, heads[:, -num_kv_heads:]"),
        look_at="over how many elements the mean is taken: one head, head_dim of them",
        try_it="one head ten times as large as the others: the other heads must not change",
    ),
    edit(
        "split_qkv.tokens_second",
        "a view of [heads, tokens, head_dim]: tokens and heads mixed up",
        (_HEADS, "qkv.reshape(-1, len(qkv), len(q_weight)).transpose(0, 1)"),
        look_at="the axes of the view: a token's numbers lie together, so tokens come first",
        try_it="two tokens: token 1 of q must hold nothing of token 0",
    ),
    edit(
        "split_qkv.chunk_heads",
        "the heads cut into three equal parts by chunk",
        (_PARTS, "q, k, v = heads.chunk(3, dim=1)"),
        look_at=_UNEQUAL,
    ),
    *(
        edit(
            f"split_qkv.chunk_{name}",
            "the row cut into three equal parts by chunk, then viewed as heads",
            (
                _PARTS,
                "q, k, v = qkv.chunk(3, dim=-1)\n    n, d = len(qkv), len(q_weight)\n"
                f"    q, k, v = q{of_q}, k{of_kv}, v{of_kv}",
            ),
            look_at=_UNEQUAL,
        )
        for name, of_q, of_kv in _VIEWS
    ),
    edit(
        "split_qkv.sizes_in_heads",
        "the row cut by numbers of heads, not of columns",
        (_HEADS, "qkv"),
        (_PARTS, f"q, k, v = heads.split({_SIZES}, dim=-1)"),
        look_at="the sizes: heads * head_dim columns, or give the row an axis of heads first",
        try_it="2 query heads and 1 key head of 2: q has 4 of the 8 columns",
    ),
    *(
        edit(
            f"split_qkv.{name}",
            f"head_dim taken to be {says}",
            (_HEADS, f"qkv; head_dim = {dim}"),
            (
                _PARTS,
                "q, k, v = heads.split([n * head_dim for n in"
                " (num_heads, num_kv_heads, num_kv_heads)], dim=-1)",
            ),
            look_at=_HEAD_DIM,
        )
        for name, says, dim in (
            ("dim_of_queries", "the row divided by num_heads", "qkv.shape[-1] // num_heads"),
            ("dim_8", "8", "8"),
            ("dim_64", "64", "64"),
            ("dim_128", "128", "128"),
        )
    ),
]
