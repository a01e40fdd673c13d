"""AttentionBackend: the one interface between a model's layers and the paged KV cache.

A backend does three things: once a step it may work out what all layers share (`build`), and in
each layer it writes the new keys and values into their pages (`write`) and lets the queries read
through the block table (`attend`). It knows neither requests nor the scheduler.
Next file to read: `reference.py`, the slow and obvious one, then `sdpa.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache


class AttentionBackend(ABC):
    """Attention over a paged KV cache; one object serves all layers of a model."""

    def build(self, metadata: AttentionMetadata) -> AttentionMetadata:
        """The metadata that `attend` will be given: `metadata`, or a subclass that adds to it.

        Called once a step, before the model runs.
        """
        return metadata

    @abstractmethod
    def write(
        self,
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> None:
        """Store each token's key and value at its slot, in place; a slot of -1 is skipped."""

    @abstractmethod
    def attend(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
        scale: float,
        sliding_window: int | None,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """Causal attention of each query over its own request's tokens up to its position.

        Args:
            q: This step's queries; `write` has already stored their keys and values.
            kv_cache: The layer's pages. Unused slots may hold anything, NaN included.
            metadata: What `build` returned.
            scale: Factor on the scores, usually `head_dim ** -0.5`.
            sliding_window: A query sees this many tokens, itself included; `None` is all.
        """
