"""Sampler: logits in, token ids out.

The order is vLLM's, because it changes what is drawn:

    float32 -> bias, bans, penalties -> temperature -> min-p -> top-k -> top-p -> draw

Greedy rows take the largest logit after the penalties. What one row gets depends on that row alone,
bit for bit: its settings, its logits, and random numbers that are a function of its seed and
position.
Next file to read: `adjust.py` for the changes to single logits, then `logits.py` for min-p, top-k
and top-p, `minivllm/counter_random.py` for the draw.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.counter_random import gumbel
from minivllm.device import uses_kernels
from minivllm.sample.logits import apply_min_p, apply_top_k_top_p
from minivllm.sample.metadata import SamplingMetadata
from minivllm.sampling_params import MIN_TEMPERATURE

# A draw takes two dozen passes. On a CPU they run over a few rows at a time, which stay in its
# cache; on a GPU over as many rows as memory allows.
_LOGITS_AT_ONCE = {"cpu": 200_000, "cuda": 100_000_000}


class Sampler:
    """Chooses the next token of each row; holds no state."""

    def __call__(
        self, logits: Float[Tensor, "num_rows vocab_size"], metadata: SamplingMetadata
    ) -> Int64[Tensor, " num_rows"]:
        """A token id per row; `logits` are not changed.

        Of equally likely tokens a greedy row takes the lowest id. A logit of -inf is never
        chosen unless a row has no other. A row with NaN logits gets some token of the vocabulary.
        """
        changes = metadata.changes
        logits = logits.float() if changes is None else changes.apply(logits)
        at_once = max(1, _LOGITS_AT_ONCE[logits.device.type] // logits.shape[-1])
        token_ids = draw_unfiltered(logits, metadata, at_once)
        for rows in torch.split(metadata.filtered_rows, at_once):
            scaled = scaled_logits(logits, metadata, rows)
            allowed = apply_top_k_top_p(scaled, metadata.top_ks[rows], metadata.top_ps[rows])
            token_ids[rows] = draw(allowed, metadata, rows)
        return token_ids


def draw_unfiltered(
    logits: Float[Tensor, "num_rows vocab_size"], metadata: SamplingMetadata, at_once: int
) -> Int64[Tensor, " num_rows"]:
    """A token of each row without regard to top-k and top-p; undefined where these apply."""
    if len(metadata.greedy_rows) == len(logits):
        return logits.argmax(-1)
    if uses_kernels(logits) and metadata.min_ps is None:
        from minivllm.kernels.sample import sample

        return sample(logits, metadata.temperatures, metadata.seeds, metadata.positions)
    token_ids = torch.empty(len(logits), dtype=torch.int64, device=logits.device)
    rows = metadata.greedy_rows
    token_ids[rows] = logits[rows].argmax(-1)
    for rows in torch.split(metadata.random_rows, at_once):
        token_ids[rows] = draw(scaled_logits(logits, metadata, rows), metadata, rows)
    return token_ids


def scaled_logits(
    logits: Float[Tensor, "num_rows vocab_size"],
    metadata: SamplingMetadata,
    rows: Int64[Tensor, " num_chosen"],
) -> Float[Tensor, "num_chosen vocab_size"]:
    """The logits of `rows`, divided by their temperatures; -inf where min-p rules a token out."""
    temperatures = metadata.temperatures[rows].clamp(min=MIN_TEMPERATURE)
    scaled = logits[rows] / temperatures[:, None]
    return scaled if metadata.min_ps is None else apply_min_p(scaled, metadata.min_ps[rows])


def draw(
    logits: Float[Tensor, "num_chosen vocab_size"],
    metadata: SamplingMetadata,
    rows: Int64[Tensor, " num_chosen"],
) -> Int64[Tensor, " num_chosen"]:
    """One token of each row, with the probabilities `softmax(logits)` (the Gumbel-max trick).

    Paper: A* Sampling, arXiv:1411.0030, section 2.
    """
    noise = gumbel(metadata.seeds[rows], metadata.positions[rows], logits.shape[-1])
    return (logits + noise).argmax(-1)
