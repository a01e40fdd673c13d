"""Chapter 04: mistakes in top-k and top-p."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_LAST = "torch.where(top_ks > 0, top_ks.clamp(max=vocab_size), vocab_size) - 1"
_DROPPED = "(sums_before >= top_ps[:, None]) & (top_ps[:, None] < 1)"
_BEFORE = "sums_before = probs.cumsum(-1) - probs"
_SCATTER = "torch.empty_like(logits).scatter(-1, token_ids, descending)"
_KTH = 'descending.masked_fill(descending < kth_value, float("-inf"))'

FILTERS: list[Mutant] = [
    edit(
        "filter_logits.topk_ties",
        "exactly k tokens, though others tie with the k-th",
        (_KTH, "descending.masked_fill(torch.arange(vocab_size) > last[:, None], -torch.inf)"),
    ),
    edit(
        "filter_logits.topk_strict",
        "k tokens less all that equal the k-th",
        ("descending < kth_value", "descending <= kth_value"),
    ),
    edit(
        "filter_logits.topp_beyond",
        "one token more where the sum is exactly p",
        ("sums_before >= top_ps", "sums_before > top_ps"),
    ),
    edit(
        "filter_logits.topp_ties",
        "every token that ties with the last one of top-p is kept, too",
        (
            "return torch.empty_like(logits).scatter(-1, token_ids, descending)",
            "least = descending.masked_fill(dropped, float('inf')).amin(-1, keepdim=True)\n"
            "    return logits.masked_fill((logits < least) | (logits < kth_value), float('-inf'))",
        ),
    ),
    edit(
        "filter_logits.k_capped",
        "never more than 64 tokens after top-k",
        ("top_ks.clamp(max=vocab_size)", "top_ks.clamp(max=min(vocab_size, 64))"),
        look_at="a fixed number that stands for the size of the vocabulary",
    ),
    edit("filter_logits.topk_off_by_one", "k + 1 tokens", ("vocab_size) - 1", "vocab_size - 1)")),
    edit(
        "filter_logits.topk_no_clamp",
        "a k above the vocabulary, used as it is",
        ("top_ks.clamp(max=vocab_size)", "top_ks"),
        look_at="the index of the k-th value: a row has only vocab_size places",
    ),
    edit(
        "filter_logits.topk_zero",
        "k = 0 taken as k = 1",
        (_LAST, "top_ks.clamp(min=1, max=vocab_size) - 1"),
        look_at="k = 0: it keeps all tokens",
    ),
    edit(
        "filter_logits.one_k",
        "the k of the first row for all",
        (_LAST, f"({_LAST})[:1].expand_as(top_ks)"),
    ),
    edit("filter_logits.ignores_k", "no top-k at all", (f"descending = {_KTH}", "pass")),
    edit(
        "filter_logits.topp_drop",
        "top-p without the token with which the sum reaches p",
        (_BEFORE, "sums_before = probs.cumsum(-1)"),
        look_at="the sum that is compared with p: the one before a token, not with it",
    ),
    edit(
        "filter_logits.topp_drop_but_one",
        "top-p without the crossing token, but for the first",
        (
            _BEFORE,
            "sums_before = probs.cumsum(-1).masked_fill(torch.arange(vocab_size) == 0, 0.0)",
        ),
        look_at="the sum that is compared with p: the one before a token, not with it",
    ),
    edit(
        "filter_logits.topp_extra",
        "top-p with one token more than reaches p",
        (
            _BEFORE,
            "sums_before = (probs.cumsum(-1) - probs).roll(1, -1)"
            ".masked_fill(torch.arange(vocab_size) == 0, 0.0)",
        ),
    ),
    edit(
        "filter_logits.topp_tail",
        "the tail that top-p should drop",
        (_DROPPED, "(sums_before < top_ps[:, None]) & (top_ps[:, None] < 1)"),
    ),
    edit(
        "filter_logits.topp_unsorted",
        "the kept logits in descending order, not at their own tokens",
        (_SCATTER, "descending"),
        look_at="the last line: each kept logit goes back to its own token id",
    ),
    edit(
        "filter_logits.topp_gather",
        "gather with the sort order, where its inverse is needed",
        (_SCATTER, "descending.gather(-1, token_ids)"),
        look_at="the last line: gather with the sort's ids sorts once more; scatter undoes it",
    ),
    edit(
        "filter_logits.topp_mask_unsorted",
        "the mask of the sorted places put on the unsorted logits",
        (_SCATTER, "logits.masked_fill(descending == -torch.inf, -torch.inf)"),
        look_at="the last line: the mask is in sorted order, the logits are not",
    ),
    edit(
        "filter_logits.topp_logits",
        "sums of logits instead of probabilities",
        ("descending.softmax(-1)", "descending"),
    ),
    edit(
        "filter_logits.topp_cumsum_unsorted",
        "sums over the vocabulary in its own order",
        (_BEFORE, "p = logits.softmax(-1); sums_before = p.cumsum(-1) - p"),
        look_at="the order in which probabilities are summed: the most likely first",
    ),
    edit(
        "filter_logits.ascending",
        "the least likely tokens",
        ("descending=True", "descending=False"),
        ("descending < kth_value", "descending > kth_value"),
    ),
    edit(
        "filter_logits.ignores_p", "no top-p at all", (_DROPPED, "torch.zeros_like(probs).bool()")
    ),
    edit(
        "filter_logits.one_p",
        "the p of the first row for all",
        (_DROPPED, "(sums_before >= top_ps[0]) & (top_ps[0] < 1)"),
    ),
    edit(
        "filter_logits.p_one",
        "p = 1 compared like any other p, so rounding drops the tail",
        (" & (top_ps[:, None] < 1)", ""),
    ),
    edit(
        "filter_logits.not_renormalised",
        "top-p over the probabilities before top-k",
        (f"descending = {_KTH}\n", "probs = descending.softmax(-1)\n"),
        ("probs = descending.softmax(-1)\n    sums", f"descending = {_KTH}\n    sums"),
        look_at="the softmax of top-p: it is over the tokens that top-k has left",
    ),
    edit(
        "filter_logits.no_max",
        "a softmax written out without subtracting the maximum",
        ("descending.softmax(-1)", "descending.exp() / descending.exp().sum(-1, keepdim=True)"),
        look_at="exp: logits above 88 overflow float32",
    ),
    edit(
        "filter_logits.floor",
        "a large negative number for what is ruled out",
        ('dropped, float("-inf")', "dropped | (descending == -torch.inf), -1e9"),
        look_at="the value of a ruled-out token: -inf",
    ),
    edit(
        "filter_logits.zero_fill",
        "0 for what is ruled out, which is a good logit",
        ('dropped, float("-inf")', "dropped | (descending == -torch.inf), 0.0"),
    ),
    edit(
        "filter_logits.probs",
        "probabilities instead of logits",
        (_SCATTER, "torch.empty_like(logits).scatter(-1, token_ids, descending.softmax(-1))"),
    ),
    edit(
        "filter_logits.softmax_dim",
        "a softmax over the rows",
        ("descending.softmax(-1)", "descending.softmax(0)"),
    ),
    edit(
        "filter_logits.inplace",
        "the right logits, written over the argument",
        (_SCATTER, "logits.scatter_(-1, token_ids, descending)"),
        look_at="methods that end in _: they change the caller's tensor",
    ),
    edit(
        "filter_logits.nothing_left_out",
        "the logits as they came",
        (_SCATTER, "logits.clone()"),
    ),
    edit(
        "filter_logits.k_plus_p",
        "every token that top-k or top-p would keep",
        (f"descending = {_KTH}\n", ""),
        ("dropped = (sums", "dropped = (descending < kth_value) & (sums"),
        look_at="how the two filters join: a token must pass both",
    ),
]
