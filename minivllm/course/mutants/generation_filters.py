"""Chapter 04: mistakes in top-k and top-p."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_LAST = "torch.where(top_ks > 0, top_ks.clamp(max=vocab_size), vocab_size) - 1"
_DROPPED = "(sums_before >= top_ps[:, None]) & (top_ps[:, None] < 1)"
_BEFORE = "sums_before = probs.cumsum(-1) - probs"
_SCATTER = "torch.empty_like(logits).scatter(-1, token_ids, descending)"
_KTH = 'descending.masked_fill(descending < kth_value, float("-inf"))'
_KTH_AT = "the k-th value: at place k - 1 of a row in descending order, one k for each row"
_KTH_TRY = "probs 0.1, 0.5, 0.3, 0.1 as logs, k = 2, p = 1: the tokens 1 and 2 are kept"
_ZERO_TRY = "four logits, k = 0 and p = 1: all four are kept"
_PROBS_AT = "what top-p sums: softmax(-1) of each row's logits, the most likely first"
_FIRST_TRY = "the same row twice, with p = 0.4 and p = 0.85: one token is kept, and three"
_BEFORE_TRY = "probs 0.5, 0.3, 0.1, 0.1: the sums before are 0, 0.5, 0.8, 0.9"
_VALUE_AT = "what is returned: logits as they came, and -inf for each ruled-out token"
_VALUE_TRY = "logits 3, 1, k = 1: the result is 3, -inf"

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
        look_at="the comparison with the k-th value: a token equal to it stays",
        try_it=_KTH_TRY,
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
    edit(
        "filter_logits.topk_off_by_one",
        "k + 1 tokens",
        ("vocab_size) - 1", "vocab_size - 1)"),
        look_at=_KTH_AT,
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topk_no_clamp",
        "a k above the vocabulary, used as it is",
        ("top_ks.clamp(max=vocab_size)", "top_ks"),
        look_at="the index of the k-th value: a row has only vocab_size places",
        try_it="four logits and k = 9: all four are kept",
    ),
    edit(
        "filter_logits.topk_zero",
        "k = 0 taken as k = 1",
        (_LAST, "top_ks.clamp(min=1, max=vocab_size) - 1"),
        look_at="k = 0: it keeps all tokens",
        try_it=_ZERO_TRY,
    ),
    edit(
        "filter_logits.topk_zero_last",
        "k = 0 taken as an index of -1, which gather refuses",
        (_LAST, "top_ks.clamp(max=vocab_size) - 1"),
        look_at="k = 0: it means all tokens, so it needs a place of its own",
        try_it=_ZERO_TRY,
    ),
    edit(
        "filter_logits.one_k",
        "the k of the first row for all",
        (_LAST, f"({_LAST})[:1].expand_as(top_ks)"),
        look_at=_KTH_AT,
        try_it="the same row twice, with k = 1 and k = 3: one token is kept, and three",
    ),
    edit(
        "filter_logits.ignores_k",
        "no top-k at all",
        (f"descending = {_KTH}", "pass"),
        look_at=_KTH_AT,
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topp_drop",
        "top-p without the token with which the sum reaches p",
        (_BEFORE, "sums_before = probs.cumsum(-1)"),
        look_at="the sum that is compared with p: the one before a token, not with it",
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.topp_drop_but_one",
        "top-p without the crossing token, but for the first",
        (
            _BEFORE,
            "sums_before = probs.cumsum(-1).masked_fill(torch.arange(vocab_size) == 0, 0.0)",
        ),
        look_at="the sum that is compared with p: the one before a token, not with it",
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.topp_extra",
        "top-p with one token more than reaches p",
        (
            _BEFORE,
            "sums_before = (probs.cumsum(-1) - probs).roll(1, -1)"
            ".masked_fill(torch.arange(vocab_size) == 0, 0.0)",
        ),
        look_at="the sum that is compared with p: all before a token, not all but one",
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.topp_tail",
        "the tail that top-p should drop",
        (_DROPPED, "(sums_before < top_ps[:, None]) & (top_ps[:, None] < 1)"),
        look_at="the comparison with p: what is dropped begins where the sum before reaches p",
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.topp_unsorted",
        "the kept logits in descending order, not at their own tokens",
        (_SCATTER, "descending"),
        look_at="the last line: each kept logit goes back to its own token id",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topp_gather",
        "gather with the sort order, where its inverse is needed",
        (_SCATTER, "descending.gather(-1, token_ids)"),
        look_at="the last line: gather with the sort's ids sorts once more; scatter undoes it",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topp_mask_unsorted",
        "the mask of the sorted places put on the unsorted logits",
        (_SCATTER, "logits.masked_fill(descending == -torch.inf, -torch.inf)"),
        look_at="the last line: the mask is in sorted order, the logits are not",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topp_logits",
        "sums of logits instead of probabilities",
        ("descending.softmax(-1)", "descending"),
        look_at=_PROBS_AT,
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.topp_cumsum_unsorted",
        "sums over the vocabulary in its own order",
        (_BEFORE, "p = logits.softmax(-1); sums_before = p.cumsum(-1) - p"),
        look_at="the order in which probabilities are summed: the most likely first",
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.ascending",
        "the least likely tokens",
        ("descending=True", "descending=False"),
        ("descending < kth_value", "descending > kth_value"),
        look_at="the order: the most likely first, so descending=True, and < the k-th is dropped",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.sorted_up",
        "an ascending sort, read as if it were descending",
        ("descending=True", "descending=False"),
        look_at="the order: sort puts the least likely first unless it is told descending=True",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.topp_sums_up",
        "sums that begin with the least likely token",
        (_BEFORE, "sums_before = probs.flip(-1).cumsum(-1).flip(-1) - probs"),
        look_at=_PROBS_AT,
        try_it=_BEFORE_TRY,
    ),
    edit(
        "filter_logits.ignores_p",
        "no top-p at all",
        (_DROPPED, "torch.zeros_like(probs).bool()"),
        look_at="top-p: is it there, and is its result in what is returned?",
    ),
    edit(
        "filter_logits.one_p",
        "the p of the first row for all",
        (_DROPPED, "(sums_before >= top_ps[0]) & (top_ps[0] < 1)"),
        look_at="the p that is compared: a column, top_ps[:, None], one p for each row",
        try_it=_FIRST_TRY,
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
        try_it="probs 0.4, 0.3, 0.3, k = 1, p = 0.5: one token has all of the mass",
    ),
    edit(
        "filter_logits.no_max",
        "a softmax written out without subtracting the maximum",
        ("descending.softmax(-1)", "descending.exp() / descending.exp().sum(-1, keepdim=True)"),
        look_at="exp: logits above 88 overflow float32",
        try_it="logits 0 and 100: softmax gives 0 and 1",
    ),
    edit(
        "filter_logits.floor",
        "a large negative number for what is ruled out",
        ('dropped, float("-inf")', "dropped | (descending == -torch.inf), -1e9"),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.lowest_float",
        "the lowest float32 number for what is ruled out",
        (
            'dropped, float("-inf")',
            "dropped | (descending == -torch.inf), torch.finfo(torch.float32).min",
        ),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.log_probs",
        "log-probabilities instead of logits",
        (_SCATTER, "torch.empty_like(logits).scatter(-1, token_ids, descending.log_softmax(-1))"),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.all_probs",
        "probabilities of all tokens, 0 for what is ruled out",
        (
            _SCATTER,
            "logits.softmax(-1).where(torch.empty_like(logits).scatter(-1, token_ids, "
            "descending).isfinite(), 0.0)",
        ),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.zero_fill",
        "0 for what is ruled out, which is a good logit",
        ('dropped, float("-inf")', "dropped | (descending == -torch.inf), 0.0"),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.probs",
        "probabilities instead of logits",
        (_SCATTER, "torch.empty_like(logits).scatter(-1, token_ids, descending.softmax(-1))"),
        look_at=_VALUE_AT,
        try_it=_VALUE_TRY,
    ),
    edit(
        "filter_logits.softmax_dim",
        "a softmax over the rows",
        ("descending.softmax(-1)", "descending.softmax(0)"),
        look_at=_PROBS_AT,
        try_it="print probs.sum(-1): it is 1 for each row",
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
        look_at="what is returned: it must be what the filters made",
        try_it=_KTH_TRY,
    ),
    edit(
        "filter_logits.k_plus_p",
        "every token that top-k or top-p would keep",
        (f"descending = {_KTH}\n", ""),
        ("dropped = (sums", "dropped = (descending < kth_value) & (sums"),
        look_at="how the two filters join: a token must pass both",
        try_it="probs 0.4, 0.3, 0.3, k = 1, p = 0.9: one token passes both",
    ),
]
