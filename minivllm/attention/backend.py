"""AttentionBackend: the one interface between a model's layers and the paged KV cache.

A backend does three things: once a step it may work out what all layers share (`build`), and in
each layer it writes the new keys and values into their pages (`write`) and lets the queries read
through the block table (`attend`). It knows neither requests nor the scheduler.
Next file to read: `reference.py`, the slow and obvious one, then `sdpa.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from jaxtyping import Float, Int64
from torch import Tensor

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache

CosSin = tuple[Float[Tensor, "num_tokens 1 head_dim"], Float[Tensor, "num_tokens 1 head_dim"]]


class HeadNorms(NamedTuple):
    """The norms of a model that normalises each query and key head."""

    q_weight: Float[Tensor, " head_dim"]
    k_weight: Float[Tensor, " head_dim"]
    eps: float


class AttentionBackend(ABC):
    """Attention over a paged KV cache; one object serves all layers of a model.

    Attributes:
        can_be_captured: Whether a step of decodes can become a graph: it then reads lengths and
            tables on the device only, never from the host's side of the metadata.
        fuses_heads: Whether there is a `write_qkv`.
    """

    can_be_captured: bool = False
    fuses_heads: bool = False

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

    def write_qkv(
        self,
        qkv: Float[Tensor, "num_tokens qkv_size"],
        norms: HeadNorms | None,
        cos_sin: CosSin,
        kv_cache: LayerKVCache,
        slot_mapping: Int64[Tensor, " num_tokens"],
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """The queries, normalised and rotated; keys, treated likewise, and values are stored.

        All that a model does with its heads before `attend`, in one kernel.
        """
        raise NotImplementedError("asked for only where fuses_heads says so")

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
