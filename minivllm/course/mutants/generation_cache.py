"""Chapter 04: mistakes with a dense KV cache."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_K, _V = "k_cache[row, start:end] = k[row]", "v_cache[row, start:end] = v[row]"
_READ = "(q[row], k_cache[row, :end], v_cache[row, :end])"
_MASK = "torch.ones(num_new, end, dtype=torch.bool, device=q.device).tril(start)"
_SDPA = "queries, keys, values, visible, enable_gqa=True"
_ROWS = "enumerate(num_computed.tolist())"
_END = "end = start + num_new"

CACHE: list[Mutant] = [
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
        look_at="the scale: scaled_dot_product_attention divides by the root of head_dim already",
        try_it="one query and two keys: the scores of SDPA alone, and of your call",
    ),
    edit(
        "cached_attention.slot_plus_one",
        "new tokens one slot too far, so that the cache has a hole",
        (_ROWS, "enumerate((num_computed + 1).tolist())"),
    ),
    edit(
        "cached_attention.slot_minus_one",
        "new tokens one slot too early, over the last cached token",
        (_ROWS, "enumerate((num_computed - 1).clamp(min=0).tolist())"),
    ),
    edit(
        "cached_attention.overwrites",
        "new tokens written from slot 0 on, over what was cached",
        (_K, "k_cache[row, :num_new] = k[row]"),
        (_V, "v_cache[row, :num_new] = v[row]"),
    ),
    edit(
        "cached_attention.starts_over",
        "num_computed ignored: every call begins an empty cache",
        (_ROWS, "enumerate([0] * len(q))"),
    ),
    edit(
        "cached_attention.whole_cache",
        "the whole cache read as real, slots never written included",
        (_READ, "(q[row], k_cache[row], v_cache[row])"),
        (_MASK, "torch.ones(num_new, k_cache.shape[1], dtype=torch.bool)"),
        look_at="the slots that are read: only the first num_computed + num_new",
    ),
    edit(
        "cached_attention.masked_whole_cache",
        "unwritten slots masked, but their values still multiplied by 0",
        (_READ, "(q[row], k_cache[row], v_cache[row])"),
        (_MASK, "torch.ones(num_new, k_cache.shape[1], dtype=torch.bool).tril(start)"),
        look_at="the slots that are read: 0 times NaN is NaN, so leave them out",
    ),
    edit(
        "cached_attention.one_slot_more",
        "one slot more than was written",
        (_READ, "(q[row], k_cache[row, : end + 1], v_cache[row, : end + 1])"),
        (
            _MASK,
            "torch.ones(num_new, len(k_cache[row, : end + 1]), dtype=torch.bool).tril(start + 1)",
        ),
    ),
    edit(
        "cached_attention.no_mask",
        "new tokens that see the ones after them",
        (_SDPA, "queries, keys, values, enable_gqa=True"),
        look_at="the mask: a prompt's token must not see the tokens behind it",
    ),
    edit(
        "cached_attention.is_causal",
        "is_causal=True, whose diagonal starts at slot 0",
        (_SDPA, "queries, keys, values, is_causal=True, enable_gqa=True"),
        look_at="the diagonal of the mask: token i sees what was cached, too",
    ),
    edit(
        "cached_attention.no_offset",
        "a mask that hides what was cached",
        (".tril(start)", ".tril()"),
        same_as="cached_attention.is_causal",
    ),
    edit(
        "cached_attention.mask_plus_one",
        "a mask that shows each token the next one",
        (".tril(start)", ".tril(start + 1)"),
    ),
    edit(
        "cached_attention.not_itself",
        "a mask that hides each token from itself",
        (".tril(start)", ".tril(start - 1)"),
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
        "cached_attention.never_written",
        "the right output, but the cache is left as it was",
        (_K, "k_cache = k_cache.clone(); k_cache[row, start:end] = k[row]"),
        (_V, "v_cache = v_cache.clone(); v_cache[row, start:end] = v[row]"),
        look_at="the cache: the tensors that are given must be written in place",
    ),
    edit(
        "cached_attention.no_v",
        "the right output for keys, but the values are not stored",
        (_V, "pass"),
    ),
    edit(
        "cached_attention.swap_kv",
        "keys in the cache of the values, and values in that of the keys",
        (_K, "k_cache[row, start:end] = v[row]"),
        (_V, "v_cache[row, start:end] = k[row]"),
    ),
    edit(
        "cached_attention.v_is_k",
        "the keys in both caches",
        (_V, "v_cache[row, start:end] = k[row]"),
    ),
    edit(
        "cached_attention.v_is_k_cache",
        "the keys mixed in place of the values",
        (_READ, "(q[row], k_cache[row, :end], k_cache[row, :end])"),
    ),
    edit(
        "cached_attention.batch_start",
        "the num_computed of the first row for all",
        (_ROWS, "enumerate([int(num_computed[0])] * len(q))"),
        look_at="num_computed: each row has its own",
    ),
    edit(
        "cached_attention.longest_start",
        "the num_computed of the longest row for all",
        (_ROWS, "enumerate([int(num_computed.max())] * len(q))"),
        look_at="num_computed: each row has its own",
    ),
    edit(
        "cached_attention.first_row_written",
        "the new tokens of the first row in every row",
        ("= k[row]", "= k[0]"),
        ("= v[row]", "= v[0]"),
    ),
    edit(
        "cached_attention.wrap",
        "slots that wrap around one place before the cache is full",
        (_END, "end = min(start + num_new, k_cache.shape[1] - 1); start = end - num_new"),
        look_at="the end: the last slot of the cache may be used",
    ),
    edit(
        "cached_attention.tile",
        "KV heads dealt out in turn (0,1,0,1,...) instead of in groups (0,0,0,1,1,1)",
        (
            _SDPA,
            "*(x.repeat(q.shape[2] // len(x), 1, 1) for x in (queries, keys, values)), visible",
        ),
    ),
    edit(
        "cached_attention.no_scale",
        "scores without the factor head_dim ** -0.5",
        ("enable_gqa=True", "enable_gqa=True, scale=1.0"),
    ),
    edit(
        "cached_attention.not_transposed",
        "heads taken for tokens: no transpose back",
        ("out[row] = mixed.transpose(0, 1)", "out[row] = mixed.reshape(out[row].shape)"),
    ),
    edit(
        "cached_attention.adds",
        "new keys and values added to what the slots hold",
        (_K, "k_cache[row, start:end] += k[row]"),
        (_V, "v_cache[row, start:end] += v[row]"),
        look_at="the write: a slot is set, whatever it held",
    ),
    edit(
        "cached_attention.written_after",
        "new keys and values stored after they were read",
        (_K, "pass"),
        (_V, "pass"),
        ("out[row] = mixed.transpose(0, 1)", f"out[row] = mixed.transpose(0, 1); {_K}; {_V}"),
        look_at="the order: write first, then read",
    ),
    edit(
        "cached_attention.clears",
        "the slots behind the new tokens set to 0",
        (_K, "k_cache[row, start:] = 0.0; " + _K),
        (_V, "v_cache[row, start:] = 0.0; " + _V),
        look_at="the write: only the slots of the new tokens",
    ),
]
