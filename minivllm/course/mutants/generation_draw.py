"""Chapter 04: mistakes in the draw of a token."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_DIVIDED = "logits / torch.where(is_greedy, 1.0, temperatures)[:, None]"
_NOISE = "-(-uniform(seeds, positions, logits.shape[-1]).log()).log()"
_DRAW = "(keep(scaled) + noise).argmax(-1)"
_CHOOSE = "torch.where(is_greedy, logits.argmax(-1), drawn)"

DRAW: list[Mutant] = [
    edit("sample.temp_mul", "logits times the temperature", (" / torch.where", " * torch.where")),
    edit(
        "sample.temp0_div",
        "a division by temperature 0 in place of greedy",
        (_DIVIDED, "logits / temperatures[:, None]"),
        (_CHOOSE, "drawn"),
        look_at="rows with temperature 0: dividing gives infinities and NaN",
    ),
    edit(
        "sample.temp0_one",
        "temperature 0 drawn as temperature 1",
        (_CHOOSE, "drawn"),
        look_at="rows with temperature 0: they are greedy",
    ),
    edit(
        "sample.temp0_tiny",
        "temperature 0 drawn at a tiny temperature",
        ("torch.where(is_greedy, 1.0,", "torch.where(is_greedy, 1e-6,"),
        (_CHOOSE, "drawn"),
        look_at="rows with temperature 0: among equals the lowest id, not a draw",
    ),
    edit("sample.temp_ignored", "temperature 1 for all that draw", (_DIVIDED, "logits")),
    edit(
        "sample.order",
        "the temperature after top-p",
        ("keep(scaled)", "keep(logits) / torch.where(is_greedy, 1.0, temperatures)[:, None]"),
    ),
    edit(
        "sample.one_temp",
        "the temperature of the first row for all",
        ("torch.where(is_greedy, 1.0, temperatures)[:, None]", "(temperatures[0] or 1.0)"),
    ),
    edit(
        "sample.all_greedy",
        "all rows greedy as soon as one is",
        ("temperatures == 0", "(temperatures == 0).any().expand(len(logits))"),
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
    ),
    edit("sample.always_greedy", "the largest logit in every row", (_CHOOSE, "logits.argmax(-1)")),
    edit(
        "sample.shared_seed",
        "the seed and position of the first row for all",
        ("uniform(seeds, positions, log", "uniform(seeds[:1], positions[:1], log"),
    ),
    edit(
        "sample.one_seed",
        "the seed of the first row for all",
        ("uniform(seeds, positions, log", "uniform(seeds[:1].expand_as(seeds), positions, log"),
    ),
    edit(
        "sample.reseeds",
        "the same noise at every position",
        ("uniform(seeds, positions, log", "uniform(seeds, torch.zeros_like(positions), log"),
    ),
    edit(
        "sample.row_number",
        "noise by the number of the row instead of the position",
        ("uniform(seeds, positions, log", "uniform(seeds, torch.arange(len(seeds)), log"),
    ),
    edit(
        "sample.position_plus_one",
        "the noise of the next position",
        ("uniform(seeds, positions, log", "uniform(seeds, positions + 1, log"),
    ),
    edit(
        "sample.swapped",
        "the noise with seed and position swapped",
        ("uniform(seeds, positions, log", "uniform(positions, seeds, log"),
    ),
    edit(
        "sample.torch_rand",
        "numbers of torch's generator, which change with the batch",
        (_NOISE, "-(-torch.rand_like(logits).log()).log()"),
        look_at="where the random numbers come from: uniform(seeds, positions, vocab_size)",
    ),
    edit(
        "sample.low_precision",
        "logits and noise added in the dtype of the logits",
        ("logits = logits.float()", "dtype = logits.dtype"),
        (_DRAW, "(keep(scaled).to(dtype) + noise.to(dtype)).argmax(-1)"),
        look_at="the dtype in which the noise is added: bfloat16 makes equals of near ones",
    ),
    edit(
        "sample.gumbel_one_log",
        "noise with one logarithm: -log(u)",
        (_NOISE, "-uniform(seeds, positions, logits.shape[-1]).log()"),
    ),
    edit(
        "sample.gumbel_log_u",
        "noise with one logarithm: log(u)",
        (_NOISE, "uniform(seeds, positions, logits.shape[-1]).log()"),
    ),
    edit(
        "sample.gumbel_sign",
        "noise with the wrong sign: log(-log(u))",
        (_NOISE, "(-uniform(seeds, positions, logits.shape[-1]).log()).log()"),
    ),
    edit(
        "sample.gumbel_nan",
        "log(log(u)), which is NaN",
        (_NOISE, "-uniform(seeds, positions, logits.shape[-1]).log().log()"),
        look_at="the inner logarithm is negative: it needs a minus before the outer one",
    ),
    edit(
        "sample.uniform",
        "u itself as noise",
        (_NOISE, "uniform(seeds, positions, logits.shape[-1])"),
    ),
    edit(
        "sample.exponential_times",
        "probabilities times -log(u), where they are divided by it",
        (_DRAW, "(keep(scaled).softmax(-1) * noise.neg().exp()).argmax(-1)"),
        same_as="sample.gumbel_sign",
    ),
    edit(
        "sample.noise_on_probs",
        "noise added to probabilities instead of logits",
        (_DRAW, "(keep(scaled).softmax(-1) + noise).argmax(-1)"),
    ),
    edit(
        "sample.noise_divided",
        "the noise divided by the temperature, too",
        (
            _DRAW,
            "(keep(scaled) + noise / temperatures.clamp(min=0.01)[:, None]).argmax(-1)",
        ),
    ),
    edit("sample.ignores_keep", "a draw from all tokens", ("keep(scaled)", "scaled")),
    edit(
        "sample.keep_after_noise",
        "the filter after the noise",
        (_DRAW, "keep(scaled + noise).argmax(-1)"),
        same_as="sample.ignores_keep",
    ),
    edit(
        "sample.multinomial",
        "a draw of torch.multinomial",
        (_DRAW, "torch.multinomial(keep(scaled).softmax(-1), 1)[:, 0]"),
        same_as="sample.torch_rand",
    ),
    edit("sample.keepdim", "a column of token ids", (_CHOOSE, f"{_CHOOSE}[:, None]")),
    edit(
        "sample.where_swapped",
        "greedy where it should draw, and a draw where it should be greedy",
        (_CHOOSE, "torch.where(is_greedy, drawn, logits.argmax(-1))"),
    ),
    edit(
        "sample.argmin", "the least likely token in greedy rows", ("logits.argmax", "logits.argmin")
    ),
]
