"""Chapter 02: what goes wrong when the requests of a step are laid end to end."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from minivllm.course.checks.attention_batches import block_mask, spans
from minivllm.course.checks.attention_material import seen_keys
from minivllm.course.declare import edit, mutant

_ZEROS = "out = torch.zeros_like(q)"
_SPANS = "rows, keys = slice(first_row, end), slice(first_key, first_key + seq_len)"
_MASK = "visible = causal_mask(end - first_row, seq_len, window)"
_WRITE = "out[rows] = attend(q[rows], k[keys], v[keys], visible)"
_NEXT = "first_key += seq_len"
_COUNT_WINDOW = "the window: `window` tokens, the row's own included"
_OWN_MASK = "the mask: is_causal puts row 0 at position 0; causal_mask knows what is cached"
_OWN_KEYS = "which rows of k and v a request gets: they end at the running sum of seq_lens"


def _with_mask(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    q, k, v = (x.transpose(-3, -2) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)
    return out.transpose(-3, -2)


@mutant(
    "packed_attention.one_mask",
    "the right numbers, from scores of every row with every request's keys",
    look_at="what is computed and then hidden: other requests' keys need no scores at all",
    try_it="count the scores of your largest tensor, and those that some row sees",
)
def _one_mask(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    window: int | None = None,
) -> Tensor:
    visible = block_mask(query_start_loc, seq_lens)
    num_rows, num_keys = visible.shape
    if window is not None:
        for rows, keys in spans(query_start_loc, seq_lens):
            shape = (rows.stop - rows.start, keys.stop - keys.start)
            visible[rows, keys] = seen_keys(*shape, window)
    out = torch.zeros_like(q)
    out[:num_rows] = _with_mask(q[:num_rows], k[:num_keys], v[:num_keys], visible)
    return out


@mutant(
    "packed_attention.rectangle",
    "the right numbers, from requests padded to the longest",
    look_at="the padded scores: none of them is needed",
    try_it="count the scores of your largest tensor, and those that some row sees",
)
def _rectangle(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    query_start_loc: Tensor,
    seq_lens: Tensor,
    window: int | None = None,
) -> Tensor:
    pairs = spans(query_start_loc, seq_lens)
    padded_q = pad_sequence([q[rows] for rows, _ in pairs], batch_first=True)
    padded_k = pad_sequence([k[keys] for _, keys in pairs], batch_first=True)
    padded_v = pad_sequence([v[keys] for _, keys in pairs], batch_first=True)
    visible = torch.zeros(len(pairs), padded_q.shape[1], padded_k.shape[1], dtype=torch.bool)
    for i, (rows, keys) in enumerate(pairs):
        shape = (rows.stop - rows.start, keys.stop - keys.start)
        visible[i, : shape[0], : shape[1]] = seen_keys(*shape, window)
    mixed = _with_mask(padded_q, padded_k, padded_v, visible[:, None])
    out = torch.zeros_like(q)
    for i, (rows, _) in enumerate(pairs):
        out[rows] = mixed[i, : rows.stop - rows.start]
    return out


STEPS = [
    _one_mask,
    _rectangle,
    edit(
        "packed_attention.cross_seq",
        "each request sees the keys of those before it, too",
        (_SPANS, "rows, keys = slice(first_row, end), slice(0, first_key + seq_len)"),
        (_MASK, "visible = causal_mask(end - first_row, first_key + seq_len, window)"),
        look_at=_OWN_KEYS,
    ),
    edit(
        "packed_attention.one_sequence",
        "the step taken for one long request",
        (
            _ZEROS,
            "num_rows, num_keys = int(query_start_loc[-1]), int(seq_lens.sum())\n"
            f"    {_ZEROS}\n"
            "    out[:num_rows] = attend(q[:num_rows], k[:num_keys], v[:num_keys], "
            "causal_mask(num_rows, num_keys, window))\n"
            "    return out",
        ),
        look_at="where requests end: no row may see another request's keys",
    ),
    edit(
        "packed_attention.keys_at_rows",
        "keys cut out where the request's rows are: by query_start_loc",
        (_SPANS, "rows, keys = slice(first_row, end), slice(first_row, first_row + seq_len)"),
        look_at=_OWN_KEYS,
    ),
    edit(
        "packed_attention.new_keys_only",
        "only the keys of this step's tokens: k and v cut like q",
        (_SPANS, "rows = keys = slice(first_row, end)"),
        (_MASK, "visible = causal_mask(end - first_row, end - first_row, window)"),
        look_at=_OWN_KEYS,
    ),
    edit(
        "packed_attention.always_first_keys",
        "every request reads the first request's place in k and v",
        (_NEXT, "first_key += 0"),
        look_at=_OWN_KEYS,
    ),
    edit(
        "packed_attention.advance_by_rows",
        "the next request's keys taken to begin after as many keys as this one has rows",
        (_NEXT, "first_key += end - first_row"),
        same_as="packed_attention.keys_at_rows",
    ),
    edit(
        "packed_attention.no_offset",
        "a request's rows masked as if nothing was cached",
        (_MASK, "visible = causal_mask(seq_len, seq_len, window)[: end - first_row]"),
        look_at="the mask of a chunk: its rows are the request's last tokens",
    ),
    edit(
        "packed_attention.no_mask",
        "each row sees its whole request",
        (_MASK, "visible = torch.ones(end - first_row, seq_len, dtype=torch.bool)"),
        look_at="the mask: a prompt's first tokens must not see its last",
    ),
    edit(
        "packed_attention.only_if_prefill",
        "causal for whole prompts only",
        (
            _MASK,
            "visible = causal_mask(end - first_row, seq_len, window) "
            "if end - first_row == seq_len else "
            "torch.ones(end - first_row, seq_len, dtype=torch.bool)",
        ),
        look_at="the mask of a chunk after cached tokens: its first rows must not see its last",
    ),
    edit(
        "packed_attention.no_window",
        "no window",
        (_MASK, "visible = causal_mask(end - first_row, seq_len)"),
        look_at="the argument window: it must reach the mask",
    ),
    edit(
        "packed_attention.window_plus1",
        "a window of one token too many",
        (_MASK, _MASK.replace("window)", "window and window + 1)")),
        look_at=_COUNT_WINDOW,
    ),
    edit(
        "packed_attention.window_minus1",
        "a window of one token too few",
        (_MASK, _MASK.replace("window)", "window and window - 1)")),
        look_at=_COUNT_WINDOW,
    ),
    edit(
        "packed_attention.last_left_out",
        "the last request left out",
        (
            "pairwise(query_start_loc.tolist()), seq_lens",
            "pairwise(query_start_loc.tolist()[:-1]), seq_lens",
        ),
        ("seq_lens.tolist(), strict", "seq_lens.tolist()[:-1], strict"),
        look_at="the loop: query_start_loc has one more number than there are requests",
    ),
    edit(
        "packed_attention.written_over_q",
        "the right numbers, written over q",
        (_ZEROS, "out = q"),
        ("return out", "out[int(query_start_loc[-1]) :] = 0\n    return out"),
        look_at="what the results are written to: not an argument",
    ),
    edit(
        "packed_attention.reversed_values",
        "values of other tokens: in reverse order",
        (_WRITE, _WRITE.replace("v[keys]", "v[keys].flip(0)")),
        look_at="the order of v: as that of k",
    ),
    edit(
        "packed_attention.values_are_keys",
        "the keys read as values",
        (_WRITE, _WRITE.replace("v[keys]", "k[keys]")),
        look_at="the third argument of attend: the values",
    ),
    edit(
        "packed_attention.tile",
        "KV heads tiled (0, 1, 0, 1, ...) instead of repeated (0, 0, ..., 1, 1)",
        (
            _WRITE,
            "k_all, v_all = (x.repeat(1, q.shape[1] // x.shape[1], 1) for x in (k, v))\n"
            "        out[rows] = attend(q[rows], k_all[keys], v_all[keys], visible)",
        ),
        look_at="which KV head a query head reads: neighbours share one",
        try_it="torch.tensor([0, 1]).repeat(3), and the same with repeat_interleave",
    ),
    edit(
        "packed_attention.is_causal",
        "a request's rows masked as if nothing was cached, and no window: is_causal=True",
        (_MASK, "visible = causal_mask(seq_len, seq_len)[: end - first_row]"),
        look_at=_OWN_MASK,
    ),
    edit(
        "packed_attention.is_causal_but_decode",
        "is_causal=True for all but decode steps",
        (
            _MASK,
            "visible = causal_mask(seq_len, seq_len)[-1:] if end - first_row == 1 else "
            "causal_mask(seq_len, seq_len)[: end - first_row]",
        ),
        look_at=_OWN_MASK,
    ),
    edit(
        "packed_attention.values_not_cut",
        "the first request's values for all",
        (_WRITE, _WRITE.replace("v[keys]", "v[:seq_len]")),
        look_at="the rows of v: the same as those of k",
    ),
    edit(
        "packed_attention.no_window_for_decode",
        "no window in decode steps",
        (_MASK, _MASK.replace("window)", "window if end - first_row > 1 else None)")),
        look_at="the special case for one row: there is none",
    ),
    edit(
        "packed_attention.no_window_for_chunks",
        "a window for whole prompts only",
        (_MASK, _MASK.replace("window)", "window if end - first_row == seq_len else None)")),
        look_at="the special case for cached tokens: a chunk has the window, too",
    ),
    edit(
        "packed_attention.window_cuts_keys",
        "only the last `window` keys of a request, for all its rows",
        (_MASK, f"{_MASK}\n        visible[:, : -window if window else 0] = False"),
        look_at="the window's edge: it moves with the row",
    ),
    edit(
        "packed_attention.scale_of_64",
        "scores divided by 8, which is right for a head_dim of 64",
        (_WRITE, _WRITE.replace("q[rows],", "q[rows] * (q.shape[-1] / 64) ** 0.5,")),
        look_at="the scale: the root of the last axis of q; PyTorch's own default is right",
        try_it="print(q.shape): head_dim is the last of the three",
    ),
    edit(
        "packed_attention.view_no_transpose",
        "heads and rows mixed up: a reshape where a transpose is due",
        (
            _WRITE,
            "mixed = attend(q[rows], k[keys], v[keys], visible)\n"
            "        out[rows] = mixed.transpose(0, 1).reshape(mixed.shape)",
        ),
        look_at="the last step: [heads, rows, dim] needs a transpose, not a reshape",
        try_it="torch.arange(6).view(2, 3).T, and torch.arange(6).view(2, 3).reshape(3, 2)",
    ),
    edit(
        "packed_attention.all_rows",
        "the right numbers, from scores of every row with each request's keys",
        (
            _WRITE,
            "wide = torch.zeros(len(q), seq_len, dtype=torch.bool)\n"
            "        wide[rows] = visible\n"
            "        out[rows] = attend(q, k[keys], v[keys], wide)[rows]",
        ),
        look_at="which rows of q a request gets: its own, from query_start_loc[i] on",
        try_it="count the scores of your largest tensor, and those that some row sees",
    ),
    edit(
        "packed_attention.eight_requests",
        "requests after the eighth left out",
        (
            "pairwise(query_start_loc.tolist()), seq_lens",
            "pairwise(query_start_loc.tolist()[:9]), seq_lens",
        ),
        ("seq_lens.tolist(), strict", "seq_lens.tolist()[:8], strict"),
        look_at="the loop: over all requests, however many there are",
    ),
]
