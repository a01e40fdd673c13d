"""Chapter 04: mistakes with the noise that draws a token."""

from __future__ import annotations

from minivllm.course.declare import edit
from minivllm.course.mutation import Mutant

_NOISE = "-(-uniform(seeds, positions, logits.shape[-1]).log()).log()"
_DRAW = "(keep(scaled) + noise).argmax(-1)"
_UNIFORM = "what uniform gets: seeds and positions of all rows, in this order and as they are"
_TRY_UNIFORM = "print uniform(seeds, positions, 4) for one seed and two positions: two rows"
_NOISE_AT = "the noise: -log(-log(u)), two logarithms and two signs"
_TRY_HALF = "print noise.dtype and scaled.dtype: float32, also for bfloat16 logits"

NOISE: list[Mutant] = [
    edit(
        "sample.noise_eps",
        "1e-5 added in both logarithms",
        (_NOISE, "-(-(uniform(seeds, positions, logits.shape[-1]) + 1e-5).log() + 1e-5).log()"),
    ),
    edit(
        "sample.noise_capped",
        "noise that can't be above 11.5: u kept 1e-5 away from 0 and 1",
        (
            _NOISE,
            "-(-uniform(seeds, positions, logits.shape[-1]).clamp(1e-5, 1 - 1e-5).log()).log()",
        ),
    ),
    edit(
        "sample.noise_rounded",
        "noise rounded to float16",
        (_NOISE, "(-(-uniform(seeds, positions, logits.shape[-1]).log()).log()).half().float()"),
        try_it=_TRY_HALF,
    ),
    edit(
        "sample.noise_in_half",
        "noise computed in float16",
        (_NOISE, "-(-uniform(seeds, positions, logits.shape[-1]).half().log()).log()"),
        try_it=_TRY_HALF,
        look_at="the noise: float32 from u to the sum",
    ),
    edit(
        "sample.shared_seed",
        "the seed and position of the first row for all",
        ("uniform(seeds, positions, log", "uniform(seeds[:1], positions[:1], log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.one_seed",
        "the seed of the first row for all",
        ("uniform(seeds, positions, log", "uniform(seeds[:1].expand_as(seeds), positions, log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.reseeds",
        "the same noise at every position",
        ("uniform(seeds, positions, log", "uniform(seeds, torch.zeros_like(positions), log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.row_number",
        "noise by the number of the row instead of the position",
        ("uniform(seeds, positions, log", "uniform(seeds, torch.arange(len(seeds)), log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.position_plus_one",
        "the noise of the next position",
        ("uniform(seeds, positions, log", "uniform(seeds, positions + 1, log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.swapped",
        "the noise with seed and position swapped",
        ("uniform(seeds, positions, log", "uniform(positions, seeds, log"),
        look_at=_UNIFORM,
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.torch_rand",
        "numbers of torch's generator, which change with the batch",
        (_NOISE, "-(-torch.rand_like(logits).log()).log()"),
        look_at="where the random numbers come from: uniform(seeds, positions, vocab_size)",
        try_it=_TRY_UNIFORM,
    ),
    edit(
        "sample.low_precision",
        "logits and noise added in the dtype of the logits",
        ("logits = logits.float()", "dtype = logits.dtype"),
        (_DRAW, "(keep(scaled).to(dtype) + noise.to(dtype)).argmax(-1)"),
        look_at="the dtype in which the noise is added: bfloat16 makes equals of near ones",
        try_it=_TRY_HALF,
    ),
    edit(
        "sample.gumbel_one_log",
        "noise with one logarithm: -log(u)",
        (_NOISE, "-uniform(seeds, positions, logits.shape[-1]).log()"),
        look_at=_NOISE_AT,
    ),
    edit(
        "sample.gumbel_log_u",
        "noise with one logarithm: log(u)",
        (_NOISE, "uniform(seeds, positions, logits.shape[-1]).log()"),
        look_at=_NOISE_AT,
    ),
    edit(
        "sample.gumbel_sign",
        "noise with the wrong sign: log(-log(u))",
        (_NOISE, "(-uniform(seeds, positions, logits.shape[-1]).log()).log()"),
        look_at=_NOISE_AT,
    ),
    edit(
        "sample.gumbel_nan",
        "log(log(u)), which is NaN",
        (_NOISE, "-uniform(seeds, positions, logits.shape[-1]).log().log()"),
        look_at="the inner logarithm is negative: it needs a minus before the outer one",
        try_it="u = 0.5: log gives -0.69; log(-0.69) is NaN, and log(0.69) is -0.37",
    ),
    edit(
        "sample.uniform",
        "u itself as noise",
        (_NOISE, "uniform(seeds, positions, logits.shape[-1])"),
        look_at=_NOISE_AT,
    ),
    edit(
        "sample.exponential_times",
        "probabilities times -log(u), where they are divided by it",
        (_DRAW, "(keep(scaled).softmax(-1) * noise.neg().exp()).argmax(-1)"),
        same_as="sample.gumbel_sign",
        look_at=_NOISE_AT,
    ),
    edit(
        "sample.multinomial",
        "a draw of torch.multinomial",
        (_DRAW, "torch.multinomial(keep(scaled).softmax(-1), 1)[:, 0]"),
        same_as="sample.torch_rand",
        look_at="where the random numbers come from: uniform(seeds, positions, vocab_size)",
        try_it=_TRY_UNIFORM,
    ),
]
