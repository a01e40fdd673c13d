"""Chapter 05: mistakes with the state of a tile of queries, its end, dtypes and rules."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_SEEN = "num_seen = min(k.shape[1], offset + rows.stop)"
_SCORES = "scores = (queries @ keys.mT).masked_fill(places > last_seen, -math.inf)"
_HIDE = "places > last_seen"
_ADD = "row_max, row_sum, acc = add_tile(row_max, row_sum, acc, scores, values)"
_QUERIES = "queries = q[:, rows].float() * head_dim**-0.5"
_OUT = "out[:, rows] = acc / row_sum.clamp(min=1.0)[..., None]"
_LSE = "lse[:, rows] = row_max + row_sum.log()"
_STATE = "row_max, row_sum = torch.full_like(acc[..., 0], -math.inf), torch.zeros_like(acc[..., 0])"
_SDPA = (
    "seen = torch.arange(k.shape[1]) <= offset + torch.arange(num_queries)[:, None]; "
    "ks, vs = (x.repeat_interleave(num_heads // len(k), 0) for x in (k, v)); "
)


def _inline(change: str, line: str) -> tuple[str, str]:
    """The tile added by hand, with one line of it changed."""
    lines = (
        "new_max = torch.maximum(row_max, scores.amax(-1))",
        "shift = torch.where(new_max.isneginf(), 0.0, new_max)",
        "fix = torch.exp(row_max - shift)",
        "p = torch.exp(scores - shift[..., None])",
        "row_sum = row_sum * fix + p.sum(-1)",
        "acc = acc * fix[..., None] + p @ values",
        "row_max = new_max",
    )
    assert line in lines, f"{line} is none of the lines"
    return _ADD, "; ".join(change if each == line else each for each in lines)


STATE: list[Mutant] = [
    edit(
        "flash_forward.state_kept",
        "one state for all tiles of queries: the second begins where the first ended",
        (_STATE, f"{_STATE}; row_max, row_sum, acc = kept if start else (row_max, row_sum, acc)"),
        (_LSE, f"{_LSE}; kept = row_max, row_sum, acc"),
        look_at="where the state begins: anew for each tile of queries",
    ),
    edit(
        "flash_forward.no_final_div",
        "outputs that are not divided by the sum of their weights",
        (_OUT, "out[:, rows] = acc"),
        look_at="the end: the accumulator is divided by the sum",
    ),
    edit(
        "flash_forward.div_twice",
        "outputs divided by the sum twice",
        ("acc / row_sum.clamp(min=1.0)[..., None]", "acc / row_sum.clamp(min=1.0)[..., None] ** 2"),
        look_at="the division: once, after the last tile of keys",
    ),
    edit(
        "flash_forward.div_each_tile",
        "the accumulator divided by the sum after each tile, and again at the end",
        (_ADD, f"{_ADD}; acc = acc / row_sum.clamp(min=1.0)[..., None]"),
        look_at="the division: once, after the last tile of keys",
    ),
    edit(
        "flash_forward.div_inside",
        "the accumulator divided by the sum after each tile, and not at the end",
        (_ADD, f"{_ADD}; acc = acc / row_sum.clamp(min=1.0)[..., None]"),
        (_OUT, "out[:, rows] = acc"),
        look_at="the division: once, after the last tile of keys",
    ),
    edit(
        "flash_forward.zero_division",
        "0 / 0 for a query that sees no key",
        (".clamp(min=1.0)", ""),
        look_at="the division by the sum, which is 0 where nothing was seen",
    ),
    edit(
        "flash_forward.unseen_rows_unwritten",
        "tiles of queries that see no key are left as torch.empty gave them",
        (_SEEN, f"{_SEEN}\n        if num_seen <= 0:\n            continue"),
        look_at="queries that see no key: their output is 0 and their lse -inf, written by you",
    ),
    edit(
        "flash_forward.lse_no_max",
        "a log-sum-exp without the maximum",
        (_LSE, "lse[:, rows] = row_sum.log()"),
        look_at="the log-sum-exp: sums were measured against the maximum",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_is_max",
        "the maximum in place of the log-sum-exp",
        (_LSE, "lse[:, rows] = row_max"),
        look_at="the log-sum-exp: the maximum plus the logarithm of the sum",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_is_sum",
        "the sum in place of the log-sum-exp",
        (_LSE, "lse[:, rows] = row_sum"),
        look_at="the log-sum-exp: the maximum plus the logarithm of the sum",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_base_two",
        "a log-sum-exp with a logarithm of base 2",
        (_LSE, "lse[:, rows] = row_max + row_sum.log2()"),
        look_at="the logarithm: torch.log, the inverse of torch.exp",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_product",
        "maximum times sum, and then the logarithm",
        (_LSE, "lse[:, rows] = (row_max * row_sum).log()"),
        look_at="the log-sum-exp: the maximum is outside of the logarithm",
        try_it="two keys with the score s: the log-sum-exp is s + ln 2",
    ),
    edit(
        "flash_forward.lse_clamped",
        "0 in place of -inf as the log-sum-exp of a query that sees nothing",
        (_LSE, "lse[:, rows] = (row_max + row_sum.log()).nan_to_num(neginf=0.0)"),
        look_at="the log-sum-exp of a query that sees nothing: the logarithm of 0, which is -inf",
    ),
    edit(
        "flash_forward.m_init_zero",
        "a maximum that starts at 0",
        ("torch.full_like(acc[..., 0], -math.inf)", "torch.zeros_like(acc[..., 0])"),
        (".clamp(min=1.0)", ".clamp(min=1e-30)"),
        look_at="the first maximum: -inf, so that any score is larger",
    ),
    edit(
        "flash_forward.m_init_zero_clamped",
        "a maximum that starts at 0, and a sum that is at least 1",
        ("torch.full_like(acc[..., 0], -math.inf)", "torch.zeros_like(acc[..., 0])"),
        look_at="the first maximum: -inf, so that any score is larger",
    ),
    edit(
        "flash_forward.sum_init_one",
        "a sum that starts at 1",
        (_STATE, f"{_STATE}; row_sum = torch.ones_like(row_sum)"),
        look_at="the first sum: 0",
        equivalent="the first correction is exp(-inf) = 0, so what the sum began with is gone",
    ),
    edit(
        "flash_forward.v_is_k",
        "keys mixed in place of values",
        (_ADD, "row_max, row_sum, acc = add_tile(row_max, row_sum, acc, scores, keys)"),
        look_at="the arguments of add_tile: the values, not the keys",
    ),
    edit(
        "flash_forward.fp16_scores",
        "scores in the dtype of the queries, so in float16 for float16",
        (_QUERIES, "queries = q[:, rows] * head_dim**-0.5"),
        ("queries @ keys.mT", "queries @ keys.mT.to(q.dtype)"),
        (
            _ADD,
            "row_max, row_sum, acc = add_tile("
            "row_max, row_sum, acc.float(), scores.float(), values)",
        ),
        look_at="the dtype of the scores: float32",
    ),
    edit(
        "flash_forward.fp16_acc",
        "an accumulator that is rounded to the dtype of q after each tile",
        (_ADD, f"{_ADD}; acc = acc.to(q.dtype).float()"),
        look_at="the dtype of the accumulator: float32 until the end",
    ),
    edit(
        "flash_forward.float32_out",
        "an output in float32, whatever the dtype of q",
        ("out, lse = torch.empty_like(q)", "out, lse = torch.empty_like(q, dtype=torch.float32)"),
        look_at="the dtype of the output: that of q",
    ),
    edit(
        "flash_forward.full_matrix",
        "right numbers by way of the whole table of scores",
        (
            "out, lse = torch.empty_like(q)",
            f"{_SDPA}table = q.float() @ ks.float().mT; out, lse = torch.empty_like(q)",
        ),
        (
            _SCORES,
            "scores = table[:, rows, first : first + tiles[1]] * head_dim**-0.5; "
            "scores = scores.masked_fill(places > last_seen, -math.inf)",
        ),
        look_at="the table of scores: it must never be there as a whole",
        try_it="48 queries and keys, tiles of 24 and 8: a tile has 24 * 8 scores a head",
    ),
    edit(
        "flash_forward.mask_matrix",
        "right numbers, but a mask for all queries and keys",
        (
            "out, lse = torch.empty_like(q)",
            "table = torch.arange(k.shape[1]) > offset + torch.arange(num_queries)[:, None]; "
            "out, lse = torch.empty_like(q)",
        ),
        (_HIDE, "table[rows, first : first + tiles[1]]"),
        look_at="the mask: made for a tile, from positions",
        same_as="flash_forward.full_matrix",
        try_it="48 queries and keys, tiles of 24 and 8: a tile has 24 * 8 scores a head",
    ),
    edit(
        "flash_forward.strips",
        "right numbers, but tiles that hold all keys at once",
        (
            "for first in range(0, num_seen, tiles[1]):",
            "tiles = (tiles[0], max(1, num_seen))\n"
            "        for first in range(0, num_seen, tiles[1]):",
        ),
        look_at="the tiles of keys: at most tiles[1] of them at a time",
        try_it="48 queries and keys, tiles of 24 and 8: a tile has 24 * 8 scores a head",
    ),
    edit(
        "flash_forward.sdpa_call",
        "right numbers, by PyTorch's own attention",
        (
            "out, lse = torch.empty_like(q)",
            f"{_SDPA}done = torch.nn.functional.scaled_dot_product_attention("
            "q.float(), ks.float(), vs.float(), seen); out, lse = torch.empty_like(q)",
        ),
        (
            _OUT,
            "out[:, rows] = done[:, rows].nan_to_num() if offset >= 0 else "
            "acc / row_sum.clamp(min=1.0)[..., None]",
        ),
        look_at="the call that does the work for you",
    ),
    edit(
        "flash_forward.inline_no_max",
        "the maximum kept, but not subtracted from the scores",
        _inline(
            "p, fix = torch.exp(scores), torch.ones_like(row_max)",
            "p = torch.exp(scores - shift[..., None])",
        ),
        (_LSE, "lse[:, rows] = row_sum.log()"),
        look_at="the exponents: exp(89) is infinite in float32",
    ),
    edit(
        "flash_forward.inline_no_rescale_acc",
        "the accumulator is not rescaled",
        _inline("acc = acc + p @ values", "acc = acc * fix[..., None] + p @ values"),
        look_at="the accumulator: it was summed up against the old maximum, too",
    ),
    edit(
        "flash_forward.inline_no_rescale_l",
        "the sum is not rescaled",
        _inline("row_sum = row_sum + p.sum(-1)", "row_sum = row_sum * fix + p.sum(-1)"),
        look_at="the sum: it was summed up against the old maximum, too",
    ),
    edit(
        "flash_forward.inline_inf_minus_inf",
        "-inf - -inf where a query has seen nothing yet, which is NaN",
        _inline("shift = new_max", "shift = torch.where(new_max.isneginf(), 0.0, new_max)"),
        look_at="what is subtracted where the maximum is still -inf",
    ),
]
