"""Chapter 04: the shipped model over a dense KV cache, for the notebook; nothing here is graded.

A dense cache is a paged cache whose pages are as long as a text may get: request i has page i, and
slot p of that page belongs to position p. So the model and the engine run on it as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.attention.reference import ReferenceAttention
from minivllm.hub import resolve_model
from minivllm.models.hf_config import parse_config, read_config
from minivllm.models.loader import load_weights
from minivllm.models.qwen3 import Qwen3ForCausalLM
from minivllm.parallel import TensorParallel

CachedAttention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def dense_metadata(
    num_new: int, num_computed: Sequence[int], max_len: int, device: str = "cpu"
) -> AttentionMetadata:
    """Where the tokens of a step stand if row i of a dense cache is request i."""
    rows = range(len(num_computed))
    slots = [row * max_len + num_computed[row] + i for row in rows for i in range(num_new)]
    seq_lens = np.array(num_computed, np.int32) + np.int32(num_new)
    return AttentionMetadata(
        query_start_loc=num_new * torch.arange(len(rows) + 1, dtype=torch.int32, device=device),
        seq_lens=torch.from_numpy(seq_lens).to(device),
        block_table=torch.arange(len(rows), dtype=torch.int32, device=device)[:, None],
        slot_mapping=torch.tensor(slots, device=device),
        query_lens_host=np.full(len(rows), num_new, np.int32),
        seq_lens_host=seq_lens,
    )


def package_attention(
    q: Tensor, k: Tensor, v: Tensor, k_cache: Tensor, v_cache: Tensor, num_computed: Tensor
) -> Tensor:
    """What `cached_attention` of the exercises computes, by the package's own backend."""
    cache, backend = LayerKVCache(k_cache, v_cache), ReferenceAttention()
    where = dense_metadata(q.shape[1], num_computed.tolist(), k_cache.shape[1], str(q.device))
    backend.write(k.flatten(0, 1), v.flatten(0, 1), cache, where.slot_mapping)
    mixed = backend.attend(q.flatten(0, 1), cache, where, q.shape[-1] ** -0.5, None)
    return mixed.view(q.shape)


class DenseAttention(AttentionBackend):
    """Runs a `cached_attention` in the engine: one request, one block, one row of the cache."""

    def __init__(self, cached_attention: CachedAttention) -> None:
        self._attend = cached_attention
        self._new: tuple[Tensor, Tensor] | None = None

    def write(
        self,
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> None:
        """Keep keys and values until `attend`, which stores them."""
        self._new = k, v

    def attend(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
        scale: float,
        sliding_window: int | None,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """Store and attend, request by request."""
        assert self._new is not None, "the model writes before it attends"
        k, v = self._new
        mixed, start = [], 0
        for num_new, seq_len, page in zip(
            metadata.query_lens_host.tolist(),
            metadata.seq_lens_host.tolist(),
            metadata.block_table[:, 0].tolist(),
            strict=True,
        ):
            new_q, new_k, new_v = (x[None, start : start + num_new] for x in (q, k, v))
            row_k, row_v = (x[page : page + 1] for x in kv_cache)
            num_computed = torch.tensor([seq_len - num_new])
            mixed.append(self._attend(new_q, new_k, new_v, row_k, row_v, num_computed)[0])
            start += num_new
        return torch.cat(mixed)


class DenseModel:
    """The shipped model and one row of a dense cache: `model(token_ids, num_computed)`.

    Attributes:
        arch: The model's sizes.
        max_len: Slots of the cache.
        runs: For each run, how many tokens were computed; clear it to count anew.
    """

    def __init__(
        self,
        cached_attention: CachedAttention = package_attention,
        max_len: int = 1024,
        device: str = "cpu",
    ) -> None:
        """Load the model; its cache is full of NaN.

        Args:
            cached_attention: Writes and reads the cache.
            max_len: Slots of the cache.
            device: Of model and cache.
        """
        folder = resolve_model("storyteller-7m")
        self.arch = parse_config(read_config(folder))
        self.runs: list[int] = []
        self.max_len, self._device = max_len, device
        with torch.device(device):
            attention = DenseAttention(cached_attention)
            self._model = Qwen3ForCausalLM(self.arch, attention, TensorParallel())
            shape = (1, max_len, self.arch.num_kv_heads, self.arch.head_dim)
            caches = [torch.full((2, *shape), math.nan) for _ in range(self.arch.num_layers)]
        load_weights(self._model, folder, progress=False)
        self._caches = [LayerKVCache(key=pair[0], value=pair[1]) for pair in caches]

    @property
    def cache_bytes(self) -> int:
        """What the row takes, whether it is used or not."""
        return sum(x.numel() * x.element_size() for cache in self._caches for x in cache)

    @torch.inference_mode()
    def __call__(self, token_ids: Sequence[int], num_computed: int) -> Tensor:
        """Logits `[len(token_ids), vocab_size]`; the tokens' keys and values are stored.

        Raises:
            ValueError: The cache is too short.
        """
        end = num_computed + len(token_ids)
        if end > self.max_len:
            raise ValueError(f"position {end - 1} needs a slot, and the cache has {self.max_len}")
        self.runs.append(len(token_ids))
        input_ids = torch.tensor(list(token_ids), device=self._device)
        positions = torch.arange(num_computed, end, device=self._device)
        where = dense_metadata(len(token_ids), [num_computed], self.max_len, self._device)
        hidden = self._model(input_ids, positions, self._caches, where)
        return self._model.compute_logits(hidden)
