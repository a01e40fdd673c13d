"""Where a group of requests finds its keys and values, and the group that is one prompt.

A request's keys lie scattered over its blocks. `VisibleKeys` turns the block table into one slot
number per key, padded to a rectangle for a group of several requests:

    block_table [[7, 0], [3, 9]], block_size 4, seq_lens [2, 6]
    slots       [[28, 29, 28, 28, 28, 28],        padding repeats the request's first visible key
                 [12, 13, 14, 15, 36, 37]]
    is_real     [[1, 1, 0, 0, 0, 0],
                 [1, 1, 1, 1, 1, 1]]

Padding repeats a key of the same request because a weight of 0 does not protect from what it is
multiplied with: an unwritten slot may hold NaN, and 0 * NaN is NaN. A slot that was never written
is therefore never read.
Next file to read: `decode.py`, the groups with one query per request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor
from torch.nn import functional as F

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.device import to_device

HostInts = np.ndarray[tuple[int], np.dtype[np.integer]]


def index_of(ids: HostInts, device: torch.device) -> slice | Int64[Tensor, " num_ids"]:
    """What picks the ascending `ids` out of a tensor: a slice, which copies nothing, if it can."""
    first, last = int(ids[0]), int(ids[-1])
    if last - first + 1 == len(ids):
        return slice(first, last + 1)
    return to_device(ids.astype(np.int64), device)


@dataclass(frozen=True)
class VisibleKeys:
    """The cache slots that hold what the queries of a group may see.

    Attributes:
        positions: Of each key in its own request.
        slots: Where in the cache it lies.
        is_real: False where a row is padded to the longest of the group.
    """

    positions: Int64[Tensor, "num_reqs num_keys"]
    slots: Int64[Tensor, "num_reqs num_keys"]
    is_real: Bool[Tensor, "num_reqs num_keys"]

    @classmethod
    def locate(
        cls,
        metadata: AttentionMetadata,
        requests: HostInts,
        first_keys: HostInts,
        kv_cache: LayerKVCache,
    ) -> VisibleKeys:
        """The keys of `requests`, from position `first_keys[request]` to each one's last."""
        block_size = kv_cache.key.shape[1]
        device = metadata.block_table.device
        num_keys = int((metadata.seq_lens_host - first_keys)[requests].max())
        first = to_device(first_keys[requests].astype(np.int64), device)[:, None]
        chosen = index_of(requests, device)

        positions = first + torch.arange(num_keys, device=device)
        is_real = positions < metadata.seq_lens[chosen, None]
        positions = torch.where(is_real, positions, first)
        blocks = metadata.block_table[chosen].long().gather(1, positions // block_size)
        return cls(positions, blocks * block_size + positions % block_size, is_real)


def read_slots(
    cache: Float[Tensor, "num_blocks block_size num_kv_heads head_dim"],
    slots: Int[Tensor, "num_reqs num_keys"],
) -> Float[Tensor, "num_reqs num_kv_heads num_keys head_dim"]:
    """The keys (or values) at `slots`, copied out of their pages."""
    rows = cache.flatten(0, 1).index_select(0, slots.flatten())
    return rows.view(*slots.shape, *cache.shape[2:]).transpose(1, 2)


@dataclass(frozen=True)
class PrefillGroup:
    """One request with several queries: a prompt, or a chunk of one.

    Attributes:
        rows: The request's rows among the step's tokens.
        slots: Where its keys and values lie.
        mask: What each query sees; `None` when that is all keys up to its own.
    """

    rows: slice
    slots: Int64[Tensor, "1 num_keys"]
    mask: Bool[Tensor, "num_queries num_keys"] | None

    @classmethod
    def make(cls, rows: slice, keys: VisibleKeys, sliding_window: int | None) -> PrefillGroup:
        """The group of the one request whose `keys` these are."""
        num_queries = rows.stop - rows.start
        num_keys = keys.slots.shape[1]
        if num_queries == num_keys and (sliding_window is None or num_keys <= sliding_window):
            return cls(rows, keys.slots, None)  # a whole prompt: PyTorch has a kernel without mask
        key_positions = keys.positions[0]
        query_positions = key_positions[-num_queries:, None]
        mask = key_positions <= query_positions
        if sliding_window is not None:
            mask = mask & (key_positions > query_positions - sliding_window)
        return cls(rows, keys.slots, mask)

    def attend(
        self,
        q: Float[Tensor, "num_queries num_heads head_dim"],
        kv_cache: LayerKVCache,
        scale: float,
    ) -> Float[Tensor, "num_queries num_heads head_dim"]:
        """Attention of the request's queries over its keys."""
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            read_slots(kv_cache.key, self.slots),
            read_slots(kv_cache.value, self.slots),
            attn_mask=self.mask,
            is_causal=self.mask is None,
            scale=scale,
            enable_gqa=True,
        )
        return out[0].transpose(0, 1)
