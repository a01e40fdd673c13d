"""Chapter 05: mistakes with the running maximum and sum."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_MAX = "old_max, row_max = row_max, torch.maximum(row_max, scores.amax(-1))"
_SHIFT = "shift = torch.where(row_max.isneginf(), 0.0, row_max)"
_RESCALE = "row_sum = row_sum * torch.exp(old_max - shift)"
_ADD = "row_sum = row_sum + torch.exp(scores - shift[:, None]).sum(-1)"

SUMS: list[Mutant] = [
    edit(
        "max_and_sum.no_max",
        "plain exp: no maximum is subtracted",
        (_SHIFT, "shift = torch.zeros_like(row_max)"),
        (_RESCALE, "pass"),
        look_at="the exponents: exp(89) is infinite in float32",
    ),
    edit(
        "max_and_sum.m_init_zero",
        "a maximum that starts at 0 instead of -inf",
        ("torch.tensor(-math.inf)", "torch.tensor(0.0)"),
        look_at="the first maximum: a row may hold nothing but negative scores",
    ),
    edit(
        "max_and_sum.no_rescale",
        "the old sum is not rescaled",
        (_RESCALE, "pass"),
    ),
    edit(
        "max_and_sum.rescale_with_new",
        "the old sum times exp(new maximum - old maximum), which is upside down",
        ("torch.exp(old_max - shift)", "torch.exp(shift - old_max).nan_to_num(1.0, 1.0)"),
        try_it="the new maximum is larger: the old sum must shrink, so the factor is below 1",
    ),
    edit(
        "max_and_sum.rescale_after_add",
        "the tile is added before the sum is rescaled",
        (_RESCALE, "pass"),
        (
            _ADD,
            "row_sum = row_sum + torch.exp(scores - shift[:, None]).sum(-1); "
            "row_sum = row_sum * torch.exp(old_max - shift)",
        ),
        look_at="the order: the correction is for what was there before",
    ),
    edit(
        "max_and_sum.tile_max",
        "the maximum of the last tile instead of all tiles so far",
        ("torch.maximum(row_max, scores.amax(-1))", "scores.amax(-1)"),
        look_at="the new maximum: the larger of the old one and the tile's",
    ),
    edit(
        "max_and_sum.overwritten",
        "a correction of 1: the old maximum was overwritten before it was used",
        ("torch.exp(old_max - shift)", "torch.exp(row_max - shift)"),
        look_at="the order: keep the old maximum until the correction is computed",
        same_as="max_and_sum.no_rescale",
    ),
    edit(
        "max_and_sum.inf_minus_inf",
        "-inf - -inf where a row has seen nothing yet, which is NaN",
        ("torch.where(row_max.isneginf(), 0.0, row_max)", "row_max"),
        look_at="what is subtracted where the maximum is still -inf",
    ),
    edit(
        "max_and_sum.only_weights_guarded",
        "hidden tiles guarded in the weights, but not in the correction",
        ("torch.exp(old_max - shift)", "torch.exp(old_max - row_max)"),
        same_as="max_and_sum.inf_minus_inf",
    ),
    edit(
        "max_and_sum.hidden_row_one",
        "a weight of 1 for each score of a tile that is hidden",
        (
            "torch.exp(scores - shift[:, None])",
            "torch.exp((scores - row_max[:, None]).nan_to_num(0.0, neginf=-math.inf))",
        ),
        look_at="hidden scores: their weight is 0, in a row that has seen nothing, too",
    ),
    edit(
        "max_and_sum.one_max",
        "one maximum for all rows",
        ("scores.amax(-1)", "scores.amax().expand(len(scores))"),
        look_at="the maximum: each row has its own",
    ),
    edit(
        "max_and_sum.max_of_magnitude",
        "the largest magnitude instead of the largest score",
        ("scores.amax(-1)", "scores.masked_fill(scores.isneginf(), 0.0).abs().amax(-1)"),
        look_at="the new maximum: amax of the scores as they are, with their sign",
    ),
    edit(
        "max_and_sum.first_max",
        "the maximum of the first tile for the whole row",
        (
            "torch.maximum(row_max, scores.amax(-1))",
            "torch.where(row_max.isneginf(), scores.amax(-1), row_max)",
        ),
        look_at="the new maximum: a later tile may have a larger one",
    ),
    edit(
        "max_and_sum.mean",
        "the mean of the exponentials of a tile instead of their sum",
        (".sum(-1)", ".mean(-1)"),
        look_at="what a tile adds: all its exponentials",
    ),
    edit(
        "max_and_sum.logarithm",
        "the logarithm of the sum instead of the sum",
        ("return row_max, row_sum", "return row_max, row_sum.log()"),
        look_at="what is returned: the sum itself",
    ),
    edit(
        "max_and_sum.plain_sum",
        "the sum of exp(score), with the maximum multiplied back in",
        ("return row_max, row_sum", "return row_max, row_sum * row_max.exp()"),
        look_at="what is returned: the sum of exp(score - maximum), as it was kept",
        same_as="max_and_sum.no_max",
    ),
    edit(
        "max_and_sum.exp2",
        "powers of 2 instead of powers of e",
        ("torch.exp(old_max - shift)", "torch.exp2(old_max - shift)"),
        ("torch.exp(scores - shift[:, None])", "torch.exp2(scores - shift[:, None])"),
        look_at="the base of the powers: torch.exp, not torch.exp2 or 2 **",
        try_it="tiles [ln 2] and [0]: the sum is 1 + exp(-ln 2) = 1 + 1/2",
    ),
    edit(
        "max_and_sum.half",
        "a sum kept in float16",
        (_ADD, f"{_ADD}; row_sum = row_sum.half()"),
        ("return row_max, row_sum", "return row_max, row_sum.float()"),
        look_at="the dtype of the running sum: float32",
    ),
    edit(
        "max_and_sum.large_negative",
        "-100 in place of -inf as the first maximum",
        ("torch.tensor(-math.inf)", "torch.tensor(-100.0)"),
        look_at="the first maximum: rows of scores below -100 exist",
    ),
    edit(
        "max_and_sum.full_matrix",
        "right numbers, but all tiles are put together first",
        (
            "for scores in tiles:",
            "for scores in [torch.cat([tile.clone() for tile in tiles], -1)]:",
        ),
        look_at="what is kept: two numbers of each row, not its tiles",
        try_it="a row of 96 scores in tiles of 8: no tensor of 96 numbers a row",
    ),
    edit(
        "max_and_sum.kept_tiles",
        "tiles read again after their memory was used for the next one",
        ("for scores in tiles:", "for scores in list(tiles):"),
        look_at="the loop: work with a tile while it is there, there is no second look",
        try_it="keep a tile in a list and print it after the next one came: it holds NaN",
    ),
    edit(
        "max_and_sum.skips_first",
        "the first tile is left out",
        ("for scores in tiles:", "for scores in list(t.clone() for t in tiles)[1:]:"),
        look_at="the first tile: its scores belong to the sum, too",
        try_it="one tile [0, 0]: the maximum is 0, the sum 2",
    ),
    edit(
        "max_and_sum.skips_last",
        "the last tile is left out",
        ("for scores in tiles:", "for scores in list(t.clone() for t in tiles)[:-1]:"),
        look_at="the end of the loop: the last tile belongs to the sum, too",
        try_it="one tile [0, 0]: the maximum is 0, the sum 2",
    ),
    edit(
        "max_and_sum.taken_out_at_the_end",
        "plain exp, with the maximum taken out of the sum at the end",
        (_SHIFT, "shift = torch.zeros_like(row_max)"),
        (_RESCALE, "pass"),
        (
            "return row_max, row_sum",
            "return row_max, row_sum * torch.exp(-row_max).nan_to_num(0.0)",
        ),
        look_at="the exponents: exp(89) is infinite in float32",
    ),
    edit(
        "max_and_sum.skipped_for_all",
        "a tile skipped in all rows because it is hidden in one",
        (
            "for scores in tiles:",
            "for scores in tiles:\n"
            "        row_max, row_sum = row_max.expand(len(scores)), row_sum.expand(len(scores))\n"
            "        if scores.amax(-1).isneginf().any(): continue",
        ),
        look_at="a tile that is hidden in one row: the other rows see it",
    ),
    edit(
        "max_and_sum.upside_down",
        "the old sum times exp(new maximum - old maximum), NaN at the first tile",
        ("torch.exp(old_max - shift)", "torch.exp(shift - old_max)"),
        look_at="the factor of the old sum: exp(old - new), which is 0 where the old one is -inf",
        try_it="the new maximum is larger: the old sum must shrink, so the factor is below 1",
    ),
    edit(
        "max_and_sum.ties_in_a_tile",
        "equal scores of a tile counted once",
        (
            _ADD,
            "parts = [row.unique() - top for row, top in zip(scores, shift, strict=True)]; "
            "row_sum = row_sum + torch.stack([part.exp().sum() for part in parts])",
        ),
        look_at="what a tile adds: exp(0) = 1 for each score that equals the maximum",
        try_it="one tile [0, 0]: the maximum is 0, the sum 2",
    ),
    edit(
        "max_and_sum.maximum_once",
        "the maximum of a tile counted once, even if two scores are equal to it",
        (
            _ADD,
            "p = torch.exp(scores - shift[:, None]); top = scores == scores.amax(-1)[:, None]; "
            "p = p.masked_fill(top & (top.cumsum(-1) > 1), 0.0); row_sum = row_sum + p.sum(-1)",
        ),
        look_at="what a tile adds: exp(0) = 1 for each score that equals the maximum",
        try_it="one tile [0, 0]: the maximum is 0, the sum 2",
    ),
    edit(
        "max_and_sum.old_maximum_again",
        "a score equal to the old maximum taken as one that is in the sum already",
        (
            _ADD,
            "p = torch.exp(scores - shift[:, None]); "
            "row_sum = row_sum + p.masked_fill(scores == old_max.view(-1, 1), 0.0).sum(-1)",
        ),
        look_at="what a tile adds: all its scores, those equal to the old maximum, too",
        try_it="tiles [0] and [0]: the maximum is 0, the sum 2",
    ),
    edit(
        "max_and_sum.stops",
        "the end at the first tile that is hidden in every row",
        (
            "for scores in tiles:",
            "for scores in tiles:\n        if scores.max() == -math.inf: break",
        ),
        look_at="a hidden tile: it adds 0, and the tiles after it count",
    ),
    edit(
        "max_and_sum.full_tiles_only",
        "tiles left out that are narrower than the first",
        (
            "for scores in tiles:",
            "width = 0\n    for scores in tiles:\n"
            "        width = max(width, scores.shape[1])\n"
            "        if scores.shape[1] < width: continue",
        ),
        look_at="the last tile: narrower than the others, and as important",
    ),
    edit(
        "max_and_sum.finite_start",
        "-10,000 as the first maximum, and -inf returned where nothing was added",
        ("torch.tensor(-math.inf)", "torch.tensor(-1e4)"),
        ("return row_max, row_sum", "return row_max.where(row_sum > 0, -math.inf), row_sum"),
        look_at="the first maximum: rows of scores below -10,000 exist",
    ),
    edit(
        "max_and_sum.finite_maximum",
        "a large negative number in place of -inf as the maximum of a row with nothing else",
        ("torch.tensor(-math.inf)", "torch.tensor(-1e9)"),
        look_at="the maximum that is returned for a row with nothing but -inf: -inf",
        try_it="one tile [-inf, -inf]: the maximum is -inf, the sum 0",
    ),
    edit(
        "max_and_sum.late_nan_to_num",
        "NaN turned into 0 at the end, which forgets what came after the hidden tile",
        (_SHIFT, "shift = row_max"),
        ("return row_max, row_sum", "return row_max, row_sum.nan_to_num(0.0)"),
        look_at="where NaN is made: -inf - -inf, in the first tile of a row that is hidden",
    ),
    edit(
        "max_and_sum.log_sum_exp",
        "the log-sum-exp instead of the sum",
        ("return row_max, row_sum", "return row_max, row_max + row_sum.log()"),
        look_at="what is returned: the maximum and the sum, not yet put together",
    ),
    edit(
        "max_and_sum.swapped",
        "sum and maximum in the wrong order",
        ("return row_max, row_sum", "return row_sum, row_max"),
        look_at="the order of what is returned: the maximum first",
    ),
    edit(
        "max_and_sum.tile_sums",
        "the sums of the tiles added, each against the maximum of its own tile",
        (_RESCALE, "own = scores.amax(-1); shift = torch.where(own.isneginf(), 0.0, own)"),
    ),
]
