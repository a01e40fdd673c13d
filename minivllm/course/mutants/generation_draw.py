"""Chapter 04: mistakes in the draw of a token; those of its noise are in `generation_noise.py`."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_DIVIDED = "logits / torch.where(is_greedy, 1.0, temperatures)[:, None]"
_SAFE = "torch.where(is_greedy, 1.0, temperatures)[:, None]"
_DRAW = "(keep(scaled) + noise).argmax(-1)"
_CHOOSE = "torch.where(is_greedy, logits.argmax(-1), drawn)"
_ORDER = "the order: divide by the temperature, keep, add noise, take the largest"
_TRY_ORDER = "T = 2, logits 4 and 2, noise 0 and 1.5: 2 + 0 against 1 + 1.5, so token 1"
_ZERO = "rows with temperature 0: torch.where puts 1 in place of 0 before the division"
_TRY_ZERO = "logits 1, 3 at T = 0 beside a row at T = 1: nothing is infinite, and token 1"
_OWN = "what each row uses: its own temperature, in a column"
_TRY_OWN = "one row of logits twice, with T = 0.1 and T = 10: the scaled rows differ"
_PICK = "which answer counts: the largest logit where the temperature is 0, else the draw"
_TRY_PICK = "logits 1, 3 at T = 0: token 1, whatever the noise"
_TRY_KEEP = "a keep that leaves one token: that token is drawn, whatever the noise"
_TRY_HALF = "print noise.dtype and scaled.dtype: float32, also for bfloat16 logits"

DRAW: list[Mutant] = [
    edit(
        "sample.temp_mul",
        "logits times the temperature",
        (" / torch.where", " * torch.where"),
        look_at=_ORDER,
        try_it="T = 0.5: logits 1 and 2 become 2 and 4",
    ),
    edit(
        "sample.temp0_div",
        "a division by temperature 0 in place of greedy",
        (_DIVIDED, "logits / temperatures[:, None]"),
        (_CHOOSE, "drawn"),
        look_at=_ZERO,
        try_it=_TRY_ZERO,
    ),
    edit(
        "sample.temp0_one",
        "temperature 0 drawn as temperature 1",
        (_CHOOSE, "drawn"),
        look_at="rows with temperature 0: they are greedy",
        try_it=_TRY_PICK,
    ),
    edit(
        "sample.temp0_tiny",
        "temperature 0 drawn at a tiny temperature",
        ("torch.where(is_greedy, 1.0,", "torch.where(is_greedy, 1e-6,"),
        (_CHOOSE, "drawn"),
        look_at="rows with temperature 0: among equals the lowest id, not a draw",
        try_it="logits 3, 3 at T = 0: token 0",
    ),
    edit(
        "sample.temp_ignored",
        "temperature 1 for all that draw",
        (_DIVIDED, "logits"),
        look_at=_ORDER,
        try_it=_TRY_OWN,
    ),
    edit(
        "sample.order",
        "the temperature after top-p",
        ("keep(scaled)", "keep(logits) / torch.where(is_greedy, 1.0, temperatures)[:, None]"),
        look_at=_ORDER,
        try_it="T = 2, logits 2 and 0, p = 0.8: token 0 has 0.88, and 0.73 after the division",
    ),
    edit(
        "sample.noise_first",
        "the noise before temperature and filter",
        (_DRAW, f"keep((logits + noise) / {_SAFE}).argmax(-1)"),
        look_at=_ORDER,
        try_it=_TRY_ORDER,
    ),
    edit(
        "sample.no_column",
        "temperatures divided along the vocabulary",
        (_DIVIDED, "logits / torch.where(is_greedy, 1.0, temperatures)"),
        look_at="the shape of the temperatures: [:, None] makes a column, one T for each row",
        try_it="print temperatures[:, None].shape: [num_rows, 1]",
    ),
    edit(
        "sample.unguarded",
        "the right tokens, but infinities in the rows with temperature 0",
        (_DIVIDED, "logits / temperatures[:, None]"),
        look_at=_ZERO,
        try_it=_TRY_ZERO,
    ),
    edit(
        "sample.one_temp",
        "the temperature of the first row for all",
        ("torch.where(is_greedy, 1.0, temperatures)[:, None]", "(temperatures[0] or 1.0)"),
        look_at=_OWN,
        try_it=_TRY_OWN,
    ),
    edit(
        "sample.all_greedy",
        "all rows greedy as soon as one is",
        ("temperatures == 0", "(temperatures == 0).any().expand(len(logits))"),
        look_at=_PICK,
        try_it=_TRY_PICK,
    ),
    edit(
        "sample.greedy_kept",
        "greedy rows take the largest of what keep has left",
        (_CHOOSE, "torch.where(is_greedy, keep(scaled).argmax(-1), drawn)"),
    ),
    edit(
        "sample.keep_in_half",
        "keep is given the logits in float16",
        ("keep(scaled)", "keep(scaled.half())"),
        look_at="the dtype from the division on: float32",
        try_it=_TRY_HALF,
    ),
    edit(
        "sample.always_greedy",
        "the largest logit in every row",
        (_CHOOSE, "logits.argmax(-1)"),
        look_at=_PICK,
        try_it="the same row at two positions, T = 1: two different draws are likely",
    ),
    edit(
        "sample.noise_on_probs",
        "noise added to probabilities instead of logits",
        (_DRAW, "(keep(scaled).softmax(-1) + noise).argmax(-1)"),
        look_at="what the noise is added to: logits, not their softmax",
        try_it="logits 0 and 90: no noise makes token 0 the largest sum",
    ),
    edit(
        "sample.noise_divided",
        "the noise divided by the temperature, too",
        (
            _DRAW,
            "(keep(scaled) + noise / temperatures.clamp(min=0.01)[:, None]).argmax(-1)",
        ),
        look_at=_ORDER,
        try_it=_TRY_ORDER,
    ),
    edit(
        "sample.ignores_keep",
        "a draw from all tokens",
        ("keep(scaled)", "scaled"),
        look_at="what is drawn from: the result of keep",
        try_it=_TRY_KEEP,
    ),
    edit(
        "sample.keep_after_noise",
        "the filter after the noise",
        (_DRAW, "keep(scaled + noise).argmax(-1)"),
        same_as="sample.ignores_keep",
        look_at=_ORDER,
        try_it=_TRY_KEEP,
    ),
    edit(
        "sample.keepdim",
        "a column of token ids",
        (_CHOOSE, f"{_CHOOSE}[:, None]"),
        look_at="the shape: one token id for each row, [num_rows]",
        try_it="print drawn.shape and logits.argmax(-1).shape",
    ),
    edit(
        "sample.where_swapped",
        "greedy where it should draw, and a draw where it should be greedy",
        (_CHOOSE, "torch.where(is_greedy, drawn, logits.argmax(-1))"),
        look_at=_PICK,
        try_it=_TRY_PICK,
    ),
    edit(
        "sample.argmin",
        "the least likely token in greedy rows",
        ("logits.argmax", "logits.argmin"),
        look_at=_PICK,
        try_it=_TRY_PICK,
    ),
]
