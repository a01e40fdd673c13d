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

HostFloats = np.ndarray[tuple[int], np.dtype[np.floating]]
HostInts = np.ndarray[tuple[int], np.dtype[np.integer]]


@dataclass(frozen=True, kw_only=True)
class SamplingMetadata:
    """What the sampler is asked for, one entry per row of logits.

    The last three fields deal all rows into kinds that cost differently. Their lengths are known
    to the host, so the sampler never asks the device which work there is.

    Attributes:
        temperatures: 0 takes the most likely token.
        top_ps: Probability that the kept tokens reach together; 1 keeps all.
        top_ks: How many of the most likely tokens are kept; 0 or less keeps all.
        seeds: Of each row's random numbers.
        positions: The position that the new token will have in its request. With the seed it
            fixes the random numbers: the same request draws the same tokens in any batch.
        greedy_rows: Rows with temperature 0.
        random_rows: Rows that draw from all tokens.
        filtered_rows: Rows that draw from the tokens that top-k and top-p leave.
    """

    temperatures: Float[Tensor, " num_rows"]
    top_ps: Float[Tensor, " num_rows"]
    top_ks: Int[Tensor, " num_rows"]
    seeds: Int64[Tensor, " num_rows"]
    positions: Int64[Tensor, " num_rows"]
    greedy_rows: Int64[Tensor, " num_greedy_rows"]
    random_rows: Int64[Tensor, " num_random_rows"]
    filtered_rows: Int64[Tensor, " num_filtered_rows"]

    @classmethod
    def from_numpy(
        cls,
        temperatures: HostFloats,
        top_ps: HostFloats,
        top_ks: HostInts,
        seeds: HostInts,
        positions: HostInts,
        device: torch.device,
    ) -> SamplingMetadata:
        """The metadata of rows whose settings stand in columns on the host."""
        is_greedy = temperatures == 0
        is_filtered = ~is_greedy & ((top_ks > 0) | (top_ps < 1))

        def to_device(array: np.ndarray, dtype: type) -> Tensor:
            return torch.from_numpy(array.astype(dtype)).to(device, non_blocking=True)

        return cls(
            temperatures=to_device(temperatures, np.float32),
            top_ps=to_device(top_ps, np.float32),
            top_ks=to_device(top_ks, np.int64),
            seeds=to_device(seeds, np.int64),
            positions=to_device(positions, np.int64),
            greedy_rows=to_device(np.flatnonzero(is_greedy), np.int64),
            random_rows=to_device(np.flatnonzero(~is_greedy & ~is_filtered), np.int64),
            filtered_rows=to_device(np.flatnonzero(is_filtered), np.int64),
        )
