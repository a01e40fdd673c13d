"""Decode groups: many requests with one query each, over contexts of different lengths.

Two ways to the same numbers. `GatheredDecode` copies all visible keys and values into a padded
rectangle and hands them to PyTorch's attention: any device, any dtype. `SparseDecode` reads each
key where it lies: on a CPU, where the copies cost more than the arithmetic, it takes about half
the time.
Next file to read: `registry.py`, which backend runs where.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int64
from torch import Tensor
from torch.nn import functional as F

from minivllm.attention.groups import VisibleKeys, read_slots
from minivllm.attention.metadata import LayerKVCache

Rows = slice | Int64[Tensor, " num_reqs"]


@dataclass(frozen=True)
class GatheredDecode:
    """One query per request, over copies of its keys and values.

    Attributes:
        rows: The requests' rows among the step's tokens.
        keys: Where each request's keys and values lie.
    """

    rows: Rows
    keys: VisibleKeys

    def attend(
        self,
        q: Float[Tensor, "num_reqs num_heads head_dim"],
        kv_cache: LayerKVCache,
        scale: float,
    ) -> Float[Tensor, "num_reqs num_heads head_dim"]:
        """Attention of each request's query over its keys."""
        num_reqs, _, head_dim = q.shape
        num_kv_heads = kv_cache.key.shape[2]
        # The query heads that share a KV head stand where a prompt's queries would, so that
        # nothing is repeated: [num_reqs, num_kv_heads, group_size, head_dim].
        out = F.scaled_dot_product_attention(
            q.reshape(num_reqs, num_kv_heads, -1, head_dim),
            read_slots(kv_cache.key, self.keys.slots),
            read_slots(kv_cache.value, self.keys.slots),
            attn_mask=self.keys.is_real[:, None, None, :],
            scale=scale,
        )
        return out.flatten(1, 2)


@dataclass(frozen=True)
class SparseDecode:
    """One query per request, over the pages themselves.

    Seen as a matrix, the scores have a row per (request, query head) and a column per (slot, KV
    head) of the whole cache, and nearly all of it is empty. The block table says which entries
    exist: it is the pattern of a sparse matrix, and a sampled product computes only those.

    Attributes:
        rows: The requests' rows among the step's tokens.
        pattern: That matrix in compressed rows, each as long as the longest request needs. Its
            values are the mask, added to the scores: 0, or -inf at padding.
    """

    rows: Rows
    pattern: Tensor

    @classmethod
    def make(
        cls, rows: Rows, keys: VisibleKeys, num_heads: int, kv_cache: LayerKVCache
    ) -> SparseDecode:
        """The group of the requests whose `keys` these are."""
        num_blocks, block_size, num_kv_heads, _ = kv_cache.key.shape
        num_reqs, num_keys = keys.slots.shape
        num_rows = num_reqs * num_heads
        kv_head_of = torch.arange(num_heads) // (num_heads // num_kv_heads)
        columns = keys.slots[:, None, :] * num_kv_heads + kv_head_of[:, None]
        row_starts = torch.arange(0, num_rows * num_keys + 1, num_keys)
        mask = torch.zeros(keys.slots.shape, dtype=torch.float32).masked_fill_(
            ~keys.is_real, float("-inf")
        )
        mask = mask[:, None, :].expand(-1, num_heads, -1)
        size = (num_rows, num_blocks * block_size * num_kv_heads)
        with warnings.catch_warnings():  # PyTorch calls its compressed rows a beta feature
            warnings.simplefilter("ignore", UserWarning)
            pattern = torch.sparse_csr_tensor(
                row_starts, columns.flatten(), mask.flatten(), size, check_invariants=False
            )
        return cls(rows, pattern)

    def attend(
        self,
        q: Float[Tensor, "num_reqs num_heads head_dim"],
        kv_cache: LayerKVCache,
        scale: float,
    ) -> Float[Tensor, "num_reqs num_heads head_dim"]:
        """Attention of each request's query over its keys."""
        num_reqs, num_heads, _ = q.shape
        keys = kv_cache.key.flatten(0, 2)  # [num_blocks * block_size * num_kv_heads, head_dim]
        values = kv_cache.value.flatten(0, 2)
        scores = torch.sparse.sampled_addmm(self.pattern, q.flatten(0, 1), keys.T, alpha=scale)
        weights = scores.values().view(num_reqs, num_heads, -1).softmax(dim=-1)
        return _sparse_product(self.pattern, weights.flatten(), values, num_reqs).view(q.shape)


def _sparse_product(
    pattern: Tensor,
    weights: Float[Tensor, " num_entries"],
    values: Float[Tensor, "num_columns head_dim"],
    num_reqs: int,
) -> Float[Tensor, "num_rows head_dim"]:
    """`matrix @ values`, where the matrix has `weights` in the places of `pattern`."""
    row_starts, columns = pattern.crow_indices(), pattern.col_indices()
    if num_reqs < 16:
        matrix = torch.sparse_csr_tensor(
            row_starts, columns, weights, pattern.shape, check_invariants=False
        )
        return torch.sparse.mm(matrix, values)  # type: ignore[no-any-return]
    # The same sum in half the time. But it leaves the CPU in a state in which matrix products of
    # up to 8 rows take twice theirs (seen with PyTorch 2.13 on an AMD EPYC), so not for few rows.
    return F.embedding_bag(
        columns,
        values,
        row_starts,
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )
