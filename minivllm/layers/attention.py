"""PagedAttention: the one place where a model touches the KV cache.

Each token's key and value are written to its slot; then its query reads the keys and values of its
own request through the block table. How the pages are read is the backend's business, so a model is
the same whatever backend it was built with. Next file to read: `mlp.py`, or
`minivllm/attention/backend.py` for what lies below.
Paper: Efficient Memory Management for LLM Serving with PagedAttention, arXiv:2309.06180, section 4.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from minivllm.attention.backend import AttentionBackend, CosSin, HeadNorms
from minivllm.attention.metadata import AttentionMetadata, LayerKVCache


class PagedAttention(nn.Module):
    """One layer's attention, `softmax(q k^T * head_dim^-0.5) v` over the cached tokens.

    Paper: Attention Is All You Need, arXiv:1706.03762, section 3.2.1.
    """

    def __init__(
        self, backend: AttentionBackend, head_dim: int, sliding_window: int | None
    ) -> None:
        super().__init__()
        self.backend = backend
        self.scale = head_dim**-0.5
        self.sliding_window = sliding_window
        self.fuses_heads = backend.fuses_heads

    def forward(
        self,
        q: Float[Tensor, "num_tokens num_heads head_dim"],
        k: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        v: Float[Tensor, "num_tokens num_kv_heads head_dim"],
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """The mixed values of each query; `kv_cache` holds this step's keys and values after it."""
        self.backend.write(k, v, kv_cache, metadata.slot_mapping)
        return self.backend.attend(q, kv_cache, metadata, self.scale, self.sliding_window)

    def from_qkv(
        self,
        qkv: Float[Tensor, "num_tokens qkv_size"],
        norms: HeadNorms | None,
        cos_sin: CosSin,
        kv_cache: LayerKVCache,
        metadata: AttentionMetadata,
    ) -> Float[Tensor, "num_tokens num_heads head_dim"]:
        """`forward` of heads that are still to be normalised and rotated, with a kernel for that.

        Only where `fuses_heads`. `norms` is `None` for a model that does not normalise heads.
        """
        q = self.backend.write_qkv(qkv, norms, cos_sin, kv_cache, metadata.slot_mapping)
        return self.backend.attend(q, kv_cache, metadata, self.scale, self.sliding_window)
