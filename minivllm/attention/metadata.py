"""AttentionMetadata: where each token of a step stands, and where its keys and values lie.

The tokens of all requests are laid end to end. Three requests that compute 2, 1 and 3 tokens, the
second after 5 cached ones, with blocks of 4:

    row                0  1 | 2 | 3  4  5
    request            0  0 | 1 | 2  2  2
    position           0  1 | 5 | 0  1  2
    query_start_loc    [0, 2, 3, 6]
    seq_lens           [2, 6, 3]
    block_table        [[7, 0], [3, 9], [1, 0]]             (padding is 0 and never read)
    slot_mapping       [28, 29, 37, 4, 5, 6]                (37 = block 9 * 4 + position 5 % 4)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int32, Int64
from torch import Tensor


class LayerKVCache(NamedTuple):
    """The pages of one layer. Owned by the ModelRunner, written in place by attention."""

    key: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"]
    value: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"]


@dataclass(frozen=True, kw_only=True)
class AttentionMetadata:
    """The ragged batch of one step, on the device; shared by all layers.

    Attributes:
        query_start_loc: Request i owns rows `[i]` up to `[i + 1]`.
        seq_lens: Tokens of each request in the cache once this step's are written.
        block_table: Logical block to physical block, padded with 0.
        slot_mapping: The cache slot each token is written to; -1 is padding and is not written.
        query_lens_host: Tokens per request in this step, on the host: sizes without a device sync.
        seq_lens_host: `seq_lens` on the host.
    """

    query_start_loc: Int32[Tensor, " num_reqs_plus_1"]
    seq_lens: Int32[Tensor, " num_reqs"]
    block_table: Int32[Tensor, "num_reqs max_num_blocks"]
    slot_mapping: Int64[Tensor, " num_tokens"]
    query_lens_host: np.ndarray[tuple[int], np.dtype[np.int32]]
    seq_lens_host: np.ndarray[tuple[int], np.dtype[np.int32]]
