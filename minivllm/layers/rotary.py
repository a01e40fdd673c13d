"""Rotary position embedding: queries and keys are turned by angles that grow with the position.

A head is a set of planes: element i and element i + head_dim/2 are the two coordinates of plane i.
At position p, plane i is turned by `p * inv_freq[i]`. The dot product of a query and a key then
depends on the distance between them, not on where they stand.

    out[i]              = x[i] * cos              - x[i + head_dim/2] * sin
    out[i + head_dim/2] = x[i + head_dim/2] * cos + x[i] * sin

`RotaryEmbedding` computes cos and sin once a step, and all layers share them. There is no table by
position, so none that could be too short. How far a model sees beyond the length it was trained on
is decided by `inv_freq`: next file to read, `rope_frequencies.py`.
Paper: RoFormer, arXiv:2104.09864, section 3.2.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from minivllm.attention.backend import CosSin as CosSin
from minivllm.layers.rope_frequencies import inverse_frequencies, rotation_magnitude
from minivllm.layers.rope_parameters import RopeParameters


class RotaryEmbedding(nn.Module):
    """The cosines and sines of a step's positions. Has no parameters."""

    def __init__(self, rope: RopeParameters, head_dim: int) -> None:
        super().__init__()
        # Not a buffer: `model.to(torch.bfloat16)` would round it to 8 bits, and at position
        # 100,000 the angles would be off by many turns.
        self.inv_freq = inverse_frequencies(rope, head_dim)
        self.magnitude = rotation_magnitude(rope)

    def forward(self, positions: Int64[Tensor, " num_tokens"], dtype: torch.dtype) -> CosSin:
        """Cosine and sine of each plane, in `dtype`, ready for `apply_rotary`.

        Both are repeated for the two halves of a head; the sines of the first half are negated.
        """
        if self.inv_freq.device != positions.device:
            self.inv_freq = self.inv_freq.to(positions.device)  # once, in the first step
        angles = positions[:, None].float() * self.inv_freq
        cos, sin = angles.cos() * self.magnitude, angles.sin() * self.magnitude
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        return cos[:, None].to(dtype), sin[:, None].to(dtype)


def apply_rotary(
    x: Float[Tensor, "num_tokens num_heads head_dim"],
    cos: Float[Tensor, "num_tokens 1 head_dim"],
    sin: Float[Tensor, "num_tokens 1 head_dim"],
) -> Float[Tensor, "num_tokens num_heads head_dim"]:
    """The turned heads; queries and keys may come together in one tensor."""
    swapped = x.roll(x.shape[-1] // 2, dims=-1)  # [a b | c d] -> [c d | a b]
    return torch.addcmul(x * cos, swapped, sin)
