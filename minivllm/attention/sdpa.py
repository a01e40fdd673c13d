"""SdpaAttention: attention with PyTorch's own operators; the default on a CPU, and runs on CUDA.

A step's requests are dealt into groups, and each group is computed at once:

    prompts and chunks of prompts     one group each     groups.PrefillGroup
    all requests with one new token   one group          decode.GatheredDecode or SparseDecode

The groups depend on the block table and on a layer's sliding window, not on the layer itself, so
the first layer with a given window makes them and the others of that step find them ready.
Next file to read: `groups.py`, how a request's keys are found and read.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.decode import GatheredDecode, SparseDecode
from minivllm.attention.groups import PrefillGroup, VisibleKeys, index_of
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache

Group = PrefillGroup | GatheredDecode | SparseDecode


@dataclass(frozen=True, kw_only=True)
class SdpaMetadata(AttentionMetadata):
    """The step's metadata and its groups.

    Attributes:
        groups: By sliding window; filled by the first layer that asks for one.
    """

    groups: dict[int | None, list[Group]] = field(default_factory=dict)


class SdpaAttention(AttentionBackend):
    """Batched attention; never waits for the device."""

    def build(self, metadata: AttentionMetadata) -> SdpaMetadata:
        """The metadata with an empty place for its groups."""
        return SdpaMetadata(**vars(metadata))

    def write(
        self,
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> None:
        """Store each token's key and value at its slot, in place; a slot of -1 is skipped."""
        # On a CPU a look at the slots is cheap and there is seldom padding. On a GPU a look would
        # wait for the device, so each padding row just writes once more what the first real row
        # writes: the same values to the same slot.
        if slot_mapping.device.type != "cpu" or int(slot_mapping.min()) < 0:
            is_real = slot_mapping >= 0
            own_row = torch.arange(len(slot_mapping), device=slot_mapping.device)
            rows = torch.where(is_real, own_row, is_real.int().argmax())
            k, v, slot_mapping = k[rows], v[rows], slot_mapping[rows]
        kv_cache.key.flatten(0, 1).index_copy_(0, slot_mapping, k)
        kv_cache.value.flatten(0, 1).index_copy_(0, slot_mapping, v)

    def attend(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
        scale: float,
        sliding_window: int | None,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """Causal attention of each query over its own request; padding rows are 0."""
        assert isinstance(metadata, SdpaMetadata), "attend is given what build returned"
        groups = metadata.groups.get(sliding_window)
        if groups is None:
            groups = make_groups(metadata, q, kv_cache, sliding_window)
            metadata.groups[sliding_window] = groups
        if len(groups) == 1 and metadata.query_lens_host.sum() == len(q):
            return groups[0].attend(q, kv_cache, scale)  # nothing to put together
        out = torch.zeros_like(q)
        for group in groups:
            out[group.rows] = group.attend(q[group.rows], kv_cache, scale)
        return out


def make_groups(
    metadata: AttentionMetadata,
    q: Float[Tensor, "num_tokens num_heads head_dim"],
    kv_cache: LayerKVCache,
    sliding_window: int | None,
) -> list[Group]:
    """The step's requests, dealt into groups for layers with this sliding window."""
    query_lens = metadata.query_lens_host
    seq_lens = metadata.seq_lens_host
    first_rows = np.cumsum(query_lens) - query_lens
    first_keys = np.zeros_like(seq_lens)
    if sliding_window is not None:  # what the request's first query of this step can see
        first_keys = np.maximum(0, seq_lens - query_lens - sliding_window + 1)

    groups: list[Group] = []
    decodes = np.flatnonzero(query_lens == 1)
    if len(decodes) > 0:
        rows = index_of(first_rows[decodes], q.device)
        keys = VisibleKeys.locate(metadata, decodes, first_keys, kv_cache)
        # PyTorch's sparse products: full precision, on a CPU, in builds with Intel's MKL.
        has_products = torch.backends.mkl.is_available()
        if has_products and q.device.type == "cpu" and q.dtype == torch.float32:
            groups.append(SparseDecode.make(rows, keys, q.shape[1], kv_cache))
        else:
            groups.append(GatheredDecode(rows, keys))
    for i in np.flatnonzero(query_lens > 1).tolist():
        keys = VisibleKeys.locate(metadata, np.array([i]), first_keys, kv_cache)
        rows = slice(int(first_rows[i]), int(first_rows[i] + query_lens[i]))
        groups.append(PrefillGroup.make(rows, keys, sliding_window))
    return groups
