"""Chapter 02: what goes wrong when the requests of a step are laid end to end."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from minivllm.course.checks.attention_batches import block_mask, spans
from minivllm.course.checks.attention_material import seen_keys
from minivllm.course.declare import edit, mutant

_ZEROS = "out = torch.zeros_like(q)"
_SPANS = "rows, keys = slice(first_row, end), slice(first_key, first_key + seq_len)"
_MASK = "visible = causal_mask(end - first_row, seq_len, window)"
_WRITE = "out[rows] = attend(q[rows], k[keys], v[keys], visible)"
_NEXT = "first_key += seq_len"
_OWN_KEYS = "which rows of k and v a request gets: they end at the running sum of seq_lens"


def _with_mask(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    q, k, v = (x.transpose(0, 1) for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=visible, enable_gqa=True)
    return out.transpose(0, 1)


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
    num_keys = max(keys.stop - keys.start for _, keys in pairs)
    num_rows = max(rows.stop - rows.start for rows, _ in pairs)
    padded = [torch.zeros(len(pairs), n, *x.shape[1:]) for n, x in ((num_rows, q), (num_keys, k))]
    padded.append(torch.zeros_like(padded[1]))
    visible = torch.zeros(len(pairs), num_rows, num_keys, dtype=torch.bool)
    for i, (rows, keys) in enumerate(pairs):
        shape = (rows.stop - rows.start, keys.stop - keys.start)
        visible[i, : shape[0], : shape[1]] = seen_keys(*shape, window)
        for target, x in zip(padded, (q[rows], k[keys], v[keys]), strict=True):
            target[i, : len(x)] = x
    padded_q, *padded_kv = (x.transpose(1, 2) for x in padded)
    padded_kv = [x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in padded_kv]
    scores = padded_q @ padded_kv[0].mT / math.sqrt(q.shape[-1])
    weights = scores.masked_fill(~visible[:, None], -math.inf).softmax(-1).nan_to_num(0.0)
    mixed = (weights @ padded_kv[1]).transpose(1, 2)
    out = torch.zeros_like(q)
    for i, (rows, _) in enumerate(pairs):
        out[rows] = mixed[i, : rows.stop - rows.start]
    return out


PACKED_ATTENTION = [
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
    ),
    edit(
        "packed_attention.window_minus1",
        "a window of one token too few",
        (_MASK, _MASK.replace("window)", "window and window - 1)")),
    ),
    edit(
        "packed_attention.padding_unwritten",
        "padding rows that are never written",
        (_ZEROS, "out = torch.empty_like(q)"),
        look_at="what the output holds before the loop: torch.empty is not zero",
    ),
    edit(
        "packed_attention.padding_copied",
        "padding rows of q given back",
        (_ZEROS, "out = q.clone()"),
        look_at="what the output holds before the loop: padding rows give 0",
    ),
    edit(
        "packed_attention.padding_cut_off",
        "padding rows left out",
        ("return out", "return out[: int(query_start_loc[-1])]"),
        look_at="the shape: a row for every row of q",
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
    ),
    edit(
        "packed_attention.values_are_keys",
        "the keys read as values",
        (_WRITE, _WRITE.replace("v[keys]", "k[keys]")),
    ),
    edit(
        "packed_attention.tile",
        "KV heads tiled (0, 1, 0, 1, ...) instead of repeated (0, 0, ..., 1, 1)",
        (
            _WRITE,
            "k_all, v_all = (x.repeat(1, q.shape[1] // x.shape[1], 1) for x in (k, v))\n"
            "        out[rows] = attend(q[rows], k_all[keys], v_all[keys], visible)",
        ),
    ),
]
