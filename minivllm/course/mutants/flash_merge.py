"""Chapter 05: mistakes in merging two halves."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_WEIGHTS = "weight_a, weight_b = torch.exp(lse_a - shift), torch.exp(lse_b - shift)"
_LOGADD = "lse = torch.logaddexp(lse_a, lse_b)"
_GUARD = "shift = torch.where(lse.isneginf(), 0.0, lse)"
_MIX = "out = weight_a[..., None] * out_a.float() + weight_b[..., None] * out_b.float()"
_BACK = "return out.to(out_a.dtype), lse"

HALVES: list[Mutant] = [
    edit(
        "merge.average",
        "the plain mean of the two outputs",
        (_WEIGHTS, "weight_a = weight_b = torch.full_like(lse, 0.5)"),
        look_at="the weights: a half with larger scores counts more",
    ),
    edit(
        "merge.sum",
        "the plain sum of the two outputs",
        (_WEIGHTS, "weight_a = weight_b = torch.ones_like(lse)"),
    ),
    edit(
        "merge.swapped",
        "each half with the other half's weight",
        ("weight_a, weight_b = torch", "weight_b, weight_a = torch"),
    ),
    edit(
        "merge.no_exp",
        "weights in proportion to the log-sum-exps, without exp",
        (_WEIGHTS, "weight_a, weight_b = lse_a / (lse_a + lse_b), lse_b / (lse_a + lse_b)"),
        look_at="the weights: the sums are exp of the log-sum-exps",
    ),
    edit(
        "merge.split",
        "the outputs added without exp(lse - maximum) as weights, and divided by the sum",
        (
            _MIX,
            "top = torch.maximum(lse_a, lse_b); "
            "out = (out_a.float() + out_b.float()) / (lse - top).nan_to_num().exp()[..., None]",
        ),
        look_at="the weights: exp of each half's log-sum-exp minus the whole",
    ),
    edit(
        "merge.split_lse_max",
        "weights against the larger log-sum-exp, not divided by their sum",
        (
            _GUARD,
            "top = torch.maximum(lse_a, lse_b); shift = torch.where(top.isneginf(), 0.0, top)",
        ),
        look_at="the weights: their sum must be 1",
    ),
    edit(
        "merge.overflow",
        "plain exp of the log-sum-exps, which overflows",
        (
            _WEIGHTS,
            "total = (lse_a.exp() + lse_b.exp()).clamp(min=1e-38); "
            "weight_a, weight_b = lse_a.exp() / total, lse_b.exp() / total",
        ),
        look_at="the exponents: exp(89) is infinite in float32",
    ),
    edit(
        "merge.lse_overflow",
        "the log-sum-exp by plain exp and log, which overflows",
        (_LOGADD, "lse = (lse_a.exp() + lse_b.exp()).log()"),
        look_at="the log-sum-exp: torch.logaddexp, or subtract the larger one first",
    ),
    edit(
        "merge.lse_max",
        "the larger of the two log-sum-exps as that of the whole",
        (_BACK, "return out.to(out_a.dtype), torch.maximum(lse_a, lse_b)"),
        look_at="the log-sum-exp: the logarithm of both sums together",
    ),
    edit(
        "merge.lse_sum",
        "the sum of the two log-sum-exps as that of the whole",
        (_BACK, "return out.to(out_a.dtype), lse_a + lse_b"),
        look_at="the log-sum-exp: sums are added, their logarithms are not",
    ),
    edit(
        "merge.lse_mean",
        "the mean of the exponentials in the log-sum-exp",
        (_BACK, "return out.to(out_a.dtype), lse - math.log(2)"),
        look_at="the log-sum-exp: the logarithm of both sums together",
    ),
    edit(
        "merge.lse_a",
        "the first half's log-sum-exp as that of the whole",
        (_BACK, "return out.to(out_a.dtype), lse_a"),
        look_at="the log-sum-exp: the logarithm of both sums together",
    ),
    edit(
        "merge.sum_not_log",
        "the sum in place of its logarithm",
        (_BACK, "return out.to(out_a.dtype), lse.exp()"),
        look_at="the log-sum-exp: the logarithm of both sums together",
    ),
    edit(
        "merge.inf_minus_inf",
        "-inf - -inf where both halves are empty, which is NaN",
        (_GUARD, "shift = lse"),
        look_at="what is subtracted where both log-sum-exps are -inf",
    ),
    edit(
        "merge.empty_half",
        "half the weight for each of two empty halves",
        (_WEIGHTS, f"{_WEIGHTS}; out_a = torch.where(lse.isneginf()[..., None], 0.5, out_a)"),
        ("weight_a[..., None] *", "torch.where(lse.isneginf(), 1.0, weight_a)[..., None] *"),
        look_at="two empty halves: their outputs are 0, and so is the merged one",
    ),
    edit(
        "merge.exp2",
        "powers of 2 instead of powers of e",
        (_LOGADD, "lse = torch.logaddexp2(lse_a, lse_b)"),
        (_WEIGHTS, "weight_a, weight_b = torch.exp2(lse_a - shift), torch.exp2(lse_b - shift)"),
        look_at="the base: a log-sum-exp is a natural logarithm",
    ),
    edit(
        "merge.softmax_over_queries",
        "weights that add up to 1 over the queries instead of over the halves",
        (_WEIGHTS, "weight_a, weight_b = lse_a.softmax(-1), lse_b.softmax(-1)"),
        look_at="the weights: of each query, over the two halves",
    ),
    edit(
        "merge.low_precision",
        "weights rounded to the dtype of the outputs",
        (
            _MIX,
            "out = weight_a[..., None].to(out_a.dtype) * out_a "
            "+ weight_b[..., None].to(out_b.dtype) * out_b",
        ),
        look_at="the dtypes: turn the outputs into float32 first",
        try_it="print the dtypes of the weights and of what they are multiplied with",
    ),
    edit(
        "merge.float32_out",
        "an output in float32, whatever the dtype of the halves",
        (_BACK, "return out, lse"),
        look_at="the dtype of the output: that of out_a",
    ),
    edit(
        "merge.one_lse",
        "one weight for all queries of a head",
        (
            _WEIGHTS,
            f"{_WEIGHTS}; "
            "weight_a, weight_b = (w.mean(-1, keepdim=True) for w in (weight_a, weight_b))",
        ),
        look_at="the weights: each query has its own",
    ),
    edit(
        "merge.winner",
        "the output of the half with the larger log-sum-exp alone",
        (_WEIGHTS, "weight_a = (lse_a > lse_b).float(); weight_b = 1 - weight_a"),
        look_at="the weights: the lighter half counts, too",
    ),
    edit(
        "merge.inplace",
        "right numbers, but the first half's output is written over",
        (_MIX, "out = out_a.mul_(weight_a[..., None]).add_(weight_b[..., None] * out_b)"),
        look_at="operations that end in _: give back new tensors",
    ),
    edit(
        "merge.logaddexp2",
        "torch.logaddexp2 for the log-sum-exp, which adds powers of 2",
        (_LOGADD, "lse = torch.logaddexp2(lse_a, lse_b)"),
        look_at="the base: a log-sum-exp is a natural logarithm",
    ),
    edit(
        "merge.empty_lse_nan",
        "NaN as the log-sum-exp of two empty halves",
        (_BACK, "return out.to(out_a.dtype), torch.where(lse.isneginf(), math.nan, lse)"),
        look_at="the log-sum-exp of two empty halves: -inf, not -inf - -inf",
    ),
    edit(
        "merge.empty_lse_zero",
        "0 as the log-sum-exp of two empty halves",
        (_BACK, "return out.to(out_a.dtype), torch.where(lse.isneginf(), 0.0, lse)"),
        look_at="the log-sum-exp of two empty halves: the logarithm of 0, which is -inf",
    ),
    edit(
        "merge.one_shift",
        "plain exp, after the largest log-sum-exp of all queries was subtracted",
        (
            _LOGADD,
            "top = torch.maximum(lse_a, lse_b).max(); total = (lse_a - top).exp() + "
            "(lse_b - top).exp(); lse = top + total.log()",
        ),
        (
            _WEIGHTS,
            "weight_a, weight_b = "
            "((x - top).exp().div(total).nan_to_num(0.0) for x in (lse_a, lse_b))",
        ),
        look_at="what is subtracted: each query has its own",
    ),
    edit(
        "merge.difference",
        "exp of the difference of the two, which is infinite where the first half is empty",
        (_LOGADD, "ratio = torch.exp(lse_b - lse_a); lse = lse_a + torch.log(1 + ratio)"),
        (_WEIGHTS, "weight_a = 1 / (1 + ratio); weight_b = 1 - weight_a"),
        look_at="a half that is empty: its log-sum-exp is -inf, and -inf - -inf is NaN",
    ),
]
