"""Chapter 05: mistakes with one tile more."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_CORRECTION = "correction = torch.exp(row_max - shift)"
_WEIGHTS = "weights = torch.exp(scores - shift[..., None])"
_NEW_SUM = "new_sum = row_sum * correction + weights.sum(-1)"
_NEW_ACC = "new_acc = acc * correction[..., None] + weights @ values.float()"

TILE: list[Mutant] = [
    edit(
        "add_tile.no_max",
        "plain exp: no maximum is subtracted",
        (_CORRECTION, "correction = torch.ones_like(row_max)"),
        (_WEIGHTS, "weights = torch.exp(scores)"),
        look_at="the exponents: exp(89) is infinite in float32",
    ),
    edit(
        "add_tile.no_rescale_acc",
        "the accumulator is not rescaled",
        ("acc * correction[..., None]", "acc"),
        look_at="the accumulator: it was summed up against the old maximum, too",
    ),
    edit(
        "add_tile.no_rescale_l",
        "the sum is not rescaled",
        ("row_sum * correction", "row_sum"),
        look_at="the sum: it was summed up against the old maximum, too",
    ),
    edit(
        "add_tile.no_rescale",
        "neither the sum nor the accumulator is rescaled",
        (_CORRECTION, "correction = torch.ones_like(row_max)"),
    ),
    edit(
        "add_tile.rescale_with_new",
        "exp(new maximum - old maximum), which is upside down",
        (
            _CORRECTION,
            "correction = torch.exp(new_max - row_max).nan_to_num(0.0, posinf=0.0)",
        ),
        try_it="the new maximum is larger: what is old must shrink, so the factor is below 1",
    ),
    edit(
        "add_tile.rescale_after_add",
        "sum and accumulator rescaled after the tile was added",
        (_NEW_SUM, "new_sum = (row_sum + weights.sum(-1)) * correction"),
        (_NEW_ACC, "new_acc = (acc + weights @ values.float()) * correction[..., None]"),
        look_at="the order: the correction is for what was there before",
    ),
    edit(
        "add_tile.acc_after_add",
        "the accumulator rescaled after the tile was added",
        (_NEW_ACC, "new_acc = (acc + weights @ values.float()) * correction[..., None]"),
        look_at="the order: the correction is for what was there before",
    ),
    edit(
        "add_tile.sum_after_add",
        "the sum rescaled after the tile was added",
        (_NEW_SUM, "new_sum = (row_sum + weights.sum(-1)) * correction"),
        look_at="the order: the correction is for what was there before",
    ),
    edit(
        "add_tile.rescale_twice",
        "the accumulator rescaled twice",
        ("acc * correction[..., None]", "acc * correction[..., None] ** 2"),
    ),
    edit(
        "add_tile.rescale_tile",
        "the tile is rescaled instead of what was there before",
        (_NEW_SUM, "new_sum = row_sum + weights.sum(-1) * correction"),
        (_NEW_ACC, "new_acc = acc + weights @ values.float() * correction[..., None]"),
        look_at="the correction: it belongs to what was there before",
    ),
    edit(
        "add_tile.tile_max",
        "the maximum of this tile alone",
        ("torch.maximum(row_max, scores.amax(-1))", "scores.amax(-1)"),
        look_at="the new maximum: the larger of the old one and the tile's",
    ),
    edit(
        "add_tile.old_max",
        "weights against the old maximum, while the new one is returned",
        (
            "shift = torch.where(new_max.isneginf(), 0.0, new_max)",
            "shift = torch.where(row_max.isneginf(), 0.0, row_max)",
        ),
        look_at="the exponent of the weights: it needs the new maximum",
    ),
    edit(
        "add_tile.keeps_old_max",
        "the old maximum is returned",
        ("return new_max,", "return row_max,"),
        look_at="what is returned: the maximum of old state and tile",
    ),
    edit(
        "add_tile.sum_v",
        "the old sum returned: the tile's weights are not in it",
        (_NEW_SUM, "new_sum = row_sum * correction"),
        look_at="the sum: the weights of this tile belong to it",
    ),
    edit(
        "add_tile.sum_of_scores",
        "the sum of exp(score), without the maximum",
        ("weights.sum(-1)", "torch.exp(scores).sum(-1)"),
        look_at="the sum: the tile adds exp(score - new maximum)",
    ),
    edit(
        "add_tile.divided",
        "an accumulator that is divided by the sum after each tile",
        (
            "return new_max, new_sum, new_acc",
            "return new_max, new_sum, new_acc / new_sum[..., None]",
        ),
        look_at="the accumulator: it is divided once, after the last tile",
    ),
    edit(
        "add_tile.divided_guarded",
        "an accumulator that is divided by the sum after each tile, but not by 0",
        (
            "return new_max, new_sum, new_acc",
            "return new_max, new_sum, new_acc / new_sum.clamp(min=1e-30)[..., None]",
        ),
        look_at="the accumulator: it is divided once, after the last tile",
    ),
    edit(
        "add_tile.softmax_tile",
        "weights that are divided by their own sum",
        (
            _WEIGHTS,
            f"{_WEIGHTS}; weights = weights / weights.sum(-1, keepdim=True).clamp(min=1e-30)",
        ),
        look_at="the weights: they are not divided, the end result is",
    ),
    edit(
        "add_tile.inf_minus_inf",
        "-inf - -inf where a query has seen nothing yet, which is NaN",
        ("torch.where(new_max.isneginf(), 0.0, new_max)", "new_max"),
        look_at="what is subtracted where the maximum is still -inf",
    ),
    edit(
        "add_tile.hidden_weight_one",
        "a weight of 1 for each hidden key of a query that has seen nothing",
        (
            _WEIGHTS,
            "weights = torch.exp((scores - new_max[..., None]).nan_to_num(0.0, neginf=-math.inf))",
        ),
        look_at="hidden scores: their weight is 0 in a row that has seen nothing, too",
    ),
    edit(
        "add_tile.correction_one",
        "a correction of 1 in place of 0 for a query's first tile, which adds nothing",
        (_CORRECTION, "correction = (row_max - new_max).nan_to_num(0.0, neginf=0.0).exp()"),
        equivalent="sum and accumulator are 0 where nothing has been seen, whatever they are "
        "multiplied by",
    ),
    edit(
        "add_tile.fp16_acc",
        "an accumulator kept in float16",
        ("return new_max, new_sum, new_acc", "return new_max, new_sum, new_acc.half().float()"),
        look_at="the dtype of the accumulator: float32",
    ),
    edit(
        "add_tile.fp16_returned",
        "an accumulator in the dtype of the values",
        ("return new_max, new_sum, new_acc", "return new_max, new_sum, new_acc.to(values.dtype)"),
        look_at="the dtype of the accumulator: float32, whatever the values are",
    ),
    edit(
        "add_tile.p_cast",
        "weights rounded to the dtype of the values before they are summed",
        (_WEIGHTS, "weights = torch.exp(scores - shift[..., None]).to(values.dtype)"),
        ("weights.sum(-1)", "weights.float().sum(-1)"),
        ("weights @ values.float()", "weights.float() @ values.float()"),
        look_at="the dtypes: turn the values into float32, not the weights into float16",
        try_it="print the dtypes of weights, values and acc",
    ),
    edit(
        "add_tile.p_cast_product",
        "weights rounded to the dtype of the values before the product",
        ("weights @ values.float()", "(weights.to(values.dtype) @ values).float()"),
        look_at="the dtypes: turn the values into float32, not the weights into float16",
    ),
    edit(
        "add_tile.inplace",
        "right numbers, but the accumulator that was given is changed",
        (
            _NEW_ACC,
            "new_acc = acc.mul_(correction[..., None]).add_(weights @ values.float())",
        ),
        look_at="operations that end in _: give back new tensors",
    ),
    edit(
        "add_tile.exp2",
        "powers of 2 instead of powers of e",
        (_CORRECTION, "correction = torch.exp2(row_max - shift)"),
        (_WEIGHTS, "weights = torch.exp2(scores - shift[..., None])"),
        look_at="the base of the powers: torch.exp, not torch.exp2 or 2 **",
    ),
    edit(
        "add_tile.one_max",
        "one maximum for all queries",
        (
            "torch.maximum(row_max, scores.amax(-1))",
            "torch.maximum(row_max, scores.amax(-1)).amax().expand_as(row_max)",
        ),
        look_at="the maximum: each query has its own",
    ),
    edit(
        "add_tile.clamped_max",
        "a maximum that is never below 0",
        (
            "torch.maximum(row_max, scores.amax(-1))",
            "torch.maximum(row_max, scores.amax(-1)).clamp(min=0.0)",
        ),
        look_at="the maximum: a row may hold nothing but negative scores",
    ),
    edit(
        "add_tile.wrong_order",
        "sum and accumulator computed with the scores, without exp",
        (_WEIGHTS, "weights = (scores - shift[..., None]).nan_to_num(neginf=0.0)"),
        look_at="the weights: exp of what is left of the scores",
    ),
    edit(
        "add_tile.maximum_once",
        "the maximum of a tile counted once, even if two scores are equal to it",
        (
            _WEIGHTS,
            f"{_WEIGHTS}; top = scores == scores.amax(-1, keepdim=True); "
            "weights = weights.masked_fill(top & (top.cumsum(-1) > 1), 0.0)",
        ),
        look_at="the weights: exp(0) = 1 for each score that equals the maximum",
    ),
    edit(
        "add_tile.old_maximum_again",
        "a score equal to the old maximum taken as one that is in the sum already",
        (_WEIGHTS, f"{_WEIGHTS}.masked_fill(scores == row_max[..., None], 0.0)"),
        look_at="the weights: a score equal to the old maximum is another key's, and counts",
    ),
    edit(
        "add_tile.shift_returned",
        "0 in place of -inf as the maximum of a query that has seen nothing",
        ("return new_max,", "return shift,"),
        look_at="the maximum that is returned: still -inf where nothing has been seen",
    ),
    edit(
        "add_tile.finite_maximum",
        "a large negative number in place of -inf where nothing has been seen",
        (
            "torch.maximum(row_max, scores.amax(-1))",
            "torch.maximum(row_max, scores.amax(-1)).clamp(min=-1e30)",
        ),
        look_at="the maximum that is returned: still -inf where nothing has been seen",
    ),
    edit(
        "add_tile.scaled",
        "scores multiplied by head_dim ** -0.5 once more",
        (_WEIGHTS, "weights = torch.exp(scores * acc.shape[-1] ** -0.5 - shift[..., None])"),
        look_at="the scores: they are scaled before they come here",
    ),
    edit(
        "add_tile.tile_shift",
        "weights against the tile's own maximum, while the new one is returned",
        (
            _WEIGHTS,
            "own = scores.amax(-1, keepdim=True); "
            "weights = torch.exp(scores - torch.where(own.isneginf(), 0.0, own))",
        ),
        look_at="the exponent of the weights: it needs the new maximum, the larger one",
    ),
    edit(
        "add_tile.head_max",
        "one maximum for all queries of a head",
        (
            "torch.maximum(row_max, scores.amax(-1))",
            "torch.maximum(row_max, scores.amax((-1, -2))[..., None])",
        ),
        look_at="the maximum: each query has its own",
    ),
    edit(
        "add_tile.max_zero",
        "no maximum is subtracted, and 0 is returned as the maximum",
        ("torch.maximum(row_max, scores.amax(-1))", "torch.zeros_like(row_max)"),
        look_at="the new maximum: the larger of the old one and the tile's",
    ),
]
