"""Paged batches for the attention tests, and the dense float64 loop they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache


@dataclass(frozen=True, kw_only=True)
class RaggedBatch:
    q: Tensor
    k: Tensor
    v: Tensor
    kv_cache: LayerKVCache  # holds the context; all other slots are NaN
    metadata: AttentionMetadata
    keys: list[np.ndarray]  # each request's keys in full, [seq_len, num_kv_heads, head_dim]
    values: list[np.ndarray]

    @property
    def scale(self) -> float:
        return self.q.shape[-1] ** -0.5

    def run(self, backend: AttentionBackend, sliding_window: int | None = None) -> Tensor:
        """What a model's layer does, on a copy of the cache."""
        cache = LayerKVCache(self.kv_cache.key.clone(), self.kv_cache.value.clone())
        metadata = backend.build(self.metadata)
        backend.write(self.k, self.v, cache, metadata.slot_mapping)
        return backend.attend(self.q, cache, metadata, self.scale, sliding_window)

    def dense(self, sliding_window: int | None = None) -> np.ndarray:
        """Token by token and head by head, in float64, without pages."""
        num_tokens, num_heads, head_dim = self.q.shape
        q = self.q.double().cpu().numpy()
        out = np.zeros((num_tokens, num_heads, head_dim))
        row = 0
        for query_len, keys, values in zip(
            self.metadata.query_lens_host, self.keys, self.values, strict=True
        ):
            group_size = num_heads // keys.shape[1]
            for position in range(len(keys) - query_len, len(keys)):
                first = 0 if sliding_window is None else max(0, position - sliding_window + 1)
                for head in range(num_heads):
                    k = keys[first : position + 1, head // group_size]
                    v = values[first : position + 1, head // group_size]
                    scores = k @ q[row, head] * self.scale
                    weights = np.exp(scores - scores.max())
                    out[row, head] = weights @ v / weights.sum()
                row += 1
        return out


def ragged_batch(
    query_lens: Sequence[int],
    seq_lens: Sequence[int],
    *,
    block_size: int = 4,
    num_heads: int = 4,
    num_kv_heads: int = 2,
    head_dim: int = 16,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
    q_factor: float = 1.0,
    seed: int = 0,
) -> RaggedBatch:
    """Requests with random contexts in shuffled blocks; block 0 belongs to nobody."""
    rng = np.random.default_rng(seed)

    def heads(num_tokens: int, num: int) -> np.ndarray:
        # rounded to the cache's dtype, so that the float64 loop starts from the same numbers
        array = rng.standard_normal((num_tokens, num, head_dim))
        return torch.from_numpy(array).to(dtype).double().numpy()

    num_blocks_of = [-(-seq_len // block_size) for seq_len in seq_lens]
    num_blocks = sum(num_blocks_of) + 3
    shuffled = iter((rng.permutation(num_blocks - 1) + 1).tolist())
    table = np.zeros((len(seq_lens), max(num_blocks_of)), np.int32)
    cache = np.full((2, num_blocks, block_size, num_kv_heads, head_dim), np.nan)
    slots, new_k, new_v, keys, values = [], [], [], [], []
    for i, (query_len, seq_len) in enumerate(zip(query_lens, seq_lens, strict=True)):
        table[i, : num_blocks_of[i]] = [next(shuffled) for _ in range(num_blocks_of[i])]
        keys.append(heads(seq_len, num_kv_heads))
        values.append(heads(seq_len, num_kv_heads))
        for position in range(seq_len):
            block, offset = int(table[i, position // block_size]), position % block_size
            if position < seq_len - query_len:
                cache[0, block, offset] = keys[i][position]
                cache[1, block, offset] = values[i][position]
            else:
                slots.append(block * block_size + offset)
                new_k.append(keys[i][position])
                new_v.append(values[i][position])

    def tensor(array: object, kind: torch.dtype = dtype) -> Tensor:
        return torch.from_numpy(np.asarray(array)).to(device, kind)

    return RaggedBatch(
        q=tensor(heads(sum(query_lens), num_heads) * q_factor),
        k=tensor(np.stack(new_k)),
        v=tensor(np.stack(new_v)),
        kv_cache=LayerKVCache(tensor(cache[0]), tensor(cache[1])),
        metadata=AttentionMetadata(
            query_start_loc=tensor(np.cumsum([0, *query_lens]), torch.int32),
            seq_lens=tensor(seq_lens, torch.int32),
            block_table=tensor(table, torch.int32),
            slot_mapping=tensor(slots, torch.int64),
            query_lens_host=np.array(query_lens, np.int32),
            seq_lens_host=np.array(seq_lens, np.int32),
        ),
        keys=keys,
        values=values,
    )
