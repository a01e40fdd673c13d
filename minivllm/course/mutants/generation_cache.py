"""Chapter 04: mistakes with the slots of a KV cache; see `generation_attend.py`, too."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_K, _V = "k_cache[row, start:end] = k[row]", "v_cache[row, start:end] = v[row]"
_READ = "(q[row], k_cache[row, :end], v_cache[row, :end])"
_MASK = "torch.ones(num_new, end, dtype=torch.bool, device=q.device).tril(start)"
_ROWS = "enumerate(num_computed.tolist())"
_END = "end = start + num_new"
_WRITE_AT = "the write: keys and values, each in its own cache, at the slots start to end"
_TRY_WRITE = "print k_cache[0, :, 0, 0] and v_cache[0, :, 0, 0] before and after the call"
_SLOT_AT = "the slots that are written: token i of a row goes to num_computed[row] + i"
_TRY_SLOT = "num_computed = 2 and 2 new tokens: the slots 2 and 3 change, no others"
_READ_AT = "the slots that are read: only the first num_computed + num_new of the row"
_STARTS_AT = "num_computed: each row has its own"
_TRY_STARTS = "num_computed = [1, 3] and one new token: slot 1 of row 0, slot 3 of row 1"

CACHE: list[Mutant] = [
    edit(
        "cached_attention.slot_plus_one",
        "new tokens one slot too far, so that the cache has a hole",
        (_ROWS, "enumerate((num_computed + 1).tolist())"),
        look_at=_SLOT_AT,
        try_it=_TRY_SLOT,
    ),
    edit(
        "cached_attention.slot_minus_one",
        "new tokens one slot too early, over the last cached token",
        (_ROWS, "enumerate((num_computed - 1).clamp(min=0).tolist())"),
        look_at=_SLOT_AT,
        try_it=_TRY_SLOT,
    ),
    edit(
        "cached_attention.overwrites",
        "new tokens written from slot 0 on, over what was cached",
        (_K, "k_cache[row, :num_new] = k[row]"),
        (_V, "v_cache[row, :num_new] = v[row]"),
        look_at=_SLOT_AT,
        try_it=_TRY_SLOT,
    ),
    edit(
        "cached_attention.starts_over",
        "num_computed ignored: every call begins an empty cache",
        (_ROWS, "enumerate([0] * len(q))"),
        look_at=_SLOT_AT,
        try_it=_TRY_SLOT,
    ),
    edit(
        "cached_attention.whole_cache",
        "the whole cache read as real, slots never written included",
        (_READ, "(q[row], k_cache[row], v_cache[row])"),
        (_MASK, "torch.ones(num_new, k_cache.shape[1], dtype=torch.bool)"),
        look_at=_READ_AT,
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
        look_at=_READ_AT,
    ),
    edit(
        "cached_attention.never_written",
        "the right output, but the cache is left as it was",
        (_K, "k_cache = k_cache.clone(); k_cache[row, start:end] = k[row]"),
        (_V, "v_cache = v_cache.clone(); v_cache[row, start:end] = v[row]"),
        look_at="the write: in place, into the caches given; a slot of a new token still holds NaN",
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.no_v",
        "the right output for keys, but the values are not stored",
        (_V, "pass"),
        look_at=_WRITE_AT,
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.only_v",
        "the right output, but only the values are stored",
        (_K, "k_cache = k_cache.clone(); k_cache[row, start:end] = k[row]"),
        look_at=_WRITE_AT,
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.swap_kv",
        "keys in the cache of the values, and values in that of the keys",
        (_K, "k_cache[row, start:end] = v[row]"),
        (_V, "v_cache[row, start:end] = k[row]"),
        look_at=_WRITE_AT,
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.v_is_k",
        "the keys in both caches",
        (_V, "v_cache[row, start:end] = k[row]"),
        look_at=_WRITE_AT,
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.v_is_k_cache",
        "the keys mixed in place of the values",
        (_READ, "(q[row], k_cache[row, :end], k_cache[row, :end])"),
        look_at="what is mixed: the values, weighted by how well the keys fit",
    ),
    edit(
        "cached_attention.batch_start",
        "the num_computed of the first row for all",
        (_ROWS, "enumerate([int(num_computed[0])] * len(q))"),
        look_at=_STARTS_AT,
        try_it=_TRY_STARTS,
    ),
    edit(
        "cached_attention.longest_start",
        "the num_computed of the longest row for all",
        (_ROWS, "enumerate([int(num_computed.max())] * len(q))"),
        look_at=_STARTS_AT,
        try_it=_TRY_STARTS,
    ),
    edit(
        "cached_attention.first_row_written",
        "the new tokens of the first row in every row",
        ("= k[row]", "= k[0]"),
        ("= v[row]", "= v[0]"),
        look_at="the write: each row stores its own keys and values",
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.wrap",
        "slots that wrap around one place before the cache is full",
        (_END, "end = min(start + num_new, k_cache.shape[1] - 1); start = end - num_new"),
        look_at="the end: the last slot of the cache may be used",
    ),
    edit(
        "cached_attention.only_k",
        "the right output, but only the keys are stored",
        (_V, "v_cache = v_cache.clone(); v_cache[row, start:end] = v[row]"),
        look_at=_WRITE_AT,
        try_it=_TRY_WRITE,
    ),
    edit(
        "cached_attention.adds",
        "new keys and values added to what the slots hold",
        (_K, "k_cache[row, start:end] += k[row]"),
        (_V, "v_cache[row, start:end] += v[row]"),
        look_at="the write: a slot is set, whatever it held",
        try_it=_TRY_WRITE,
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
        try_it=_TRY_SLOT,
    ),
]
