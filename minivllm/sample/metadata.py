"""SamplingMetadata: how each row of logits is turned into a token, as tensors on the device.

A row is a request that is due a token in this step. It knows no request, only numbers.
Next file to read: `sampler.py`, which uses it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float, Int, Int64
from torch import Tensor

from minivllm.device import to_device
from minivllm.sample.adjust import LogitChanges

HostInts = np.ndarray[tuple[int], np.dtype[np.integer]]

SETTINGS = np.dtype(  # of a row, on the host
    [
        ("temperature", np.float32),  # 0: the most likely token
        ("min_p", np.float32),  # 0: keep all
        ("top_k", np.int64),  # 0 or less: keep all
        ("top_p", np.float32),  # 1: keep all
        ("seed", np.int64),
    ]
)


@dataclass(frozen=True, kw_only=True)
class SamplingMetadata:
    """What the sampler is asked for, one entry per row of logits.

    The three lists of rows deal all rows into kinds that cost differently. Their lengths are known
    to the host, as is what is `None`, so the sampler never asks the device which work there is.

    Attributes:
        changes: Changes to single logits; `None` if no row has any.
        temperatures: 0 takes the most likely token.
        min_ps: Share of the largest probability that a token must reach; `None` if no row asks.
        top_ks: How many of the most likely tokens are kept; 0 or less keeps all.
        top_ps: Probability that the kept tokens reach together; 1 keeps all.
        seeds: Of each row's random numbers.
        positions: The position that the new token will have in its request. With the seed it
            fixes the random numbers: the same request draws the same tokens in any batch.
        greedy_rows: Rows with temperature 0.
        random_rows: Rows that draw without top-k and top-p.
        filtered_rows: Rows that draw from the tokens that top-k and top-p leave.
    """

    changes: LogitChanges | None
    temperatures: Float[Tensor, " num_rows"]
    min_ps: Float[Tensor, " num_rows"] | None
    top_ks: Int[Tensor, " num_rows"]
    top_ps: Float[Tensor, " num_rows"]
    seeds: Int64[Tensor, " num_rows"]
    positions: Int64[Tensor, " num_rows"]
    greedy_rows: Int64[Tensor, " num_greedy_rows"]
    random_rows: Int64[Tensor, " num_random_rows"]
    filtered_rows: Int64[Tensor, " num_filtered_rows"]

    @classmethod
    def from_numpy(
        cls,
        settings: np.ndarray,
        positions: HostInts,
        changes: LogitChanges | None,
        device: torch.device,
    ) -> SamplingMetadata:
        """The metadata of rows whose settings stand on the host, one `SETTINGS` record each."""
        is_greedy = settings["temperature"] == 0
        is_filtered = ~is_greedy & ((settings["top_k"] > 0) | (settings["top_p"] < 1))
        has_min_p = bool((settings["min_p"] > 0).any())
        return cls(
            changes=changes,
            temperatures=to_device(settings["temperature"], device),
            min_ps=to_device(settings["min_p"], device) if has_min_p else None,
            top_ks=to_device(settings["top_k"], device),
            top_ps=to_device(settings["top_p"], device),
            seeds=to_device(settings["seed"], device),
            positions=to_device(positions.astype(np.int64), device),
            greedy_rows=to_device(np.flatnonzero(is_greedy), device),
            random_rows=to_device(np.flatnonzero(~is_greedy & ~is_filtered), device),
            filtered_rows=to_device(np.flatnonzero(is_filtered), device),
        )
