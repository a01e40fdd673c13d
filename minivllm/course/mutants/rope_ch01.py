"""Chapter 01: what goes wrong in a rotation.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.declare import edit, mutant

_SPEED = "theta ** (-torch.arange(half) / half)"
_ANGLES = "positions[:, None, None] * radians_per_token"
_HALVES = "first, second = x[..., :half], x[..., half:]"
_TURNED = "first * cos - second * sin, second * cos + first * sin"
_CAT = f"torch.cat(({_TURNED}), dim=-1)"


@mutant("rope.inplace", "the right numbers, written over x")
def _inplace(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * theta ** (-torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half].clone(), x[..., half:].clone()
    x[..., :half] = first * cos - second * sin
    x[..., half:] = second * cos + first * sin
    return x


@mutant(
    "rope.overwritten",
    "the second half computed from a first half that was already turned",
    look_at="the order: both new halves need both old ones",
)
def _overwritten(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    half = x.shape[-1] // 2
    angles = positions[:, None, None] * theta ** (-torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first = x[..., :half] * cos - x[..., half:] * sin
    return torch.cat((first, x[..., half:] * cos + first * sin), dim=-1)


ROPE = [
    edit(
        "rope.pairs",
        "neighbours turned together (0 with 1, 2 with 3) instead of i with i + half",
        (_HALVES, "first, second = x[..., ::2], x[..., 1::2]"),
        (_CAT, f"torch.stack(({_TURNED}), dim=-1).flatten(-2)"),
        look_at="which elements make a pair: i and i + head_dim / 2",
    ),
    edit(
        "rope.pairs_unmixed",
        "neighbours turned together, then laid out in halves",
        (_HALVES, "first, second = x[..., ::2], x[..., 1::2]"),
    ),
    edit(
        "rope.sign",
        "turned the other way round: the sine with the wrong sign",
        (_TURNED, "first * cos + second * sin, second * cos - first * sin"),
        look_at="the signs: minus in the first half, plus in the second",
    ),
    edit(
        "rope.both_minus",
        "minus in both halves",
        ("second * cos + first", "second * cos - first"),
        look_at="the signs: minus in the first half, plus in the second",
    ),
    edit(
        "rope.both_plus",
        "plus in both halves",
        ("first * cos - second", "first * cos + second"),
        look_at="the signs: minus in the first half, plus in the second; [-x2, x1] if you rotate",
    ),
    edit(
        "rope.swapped_halves",
        "the two halves in the wrong order",
        (_TURNED, "second * cos + first * sin, first * cos - second * sin"),
    ),
    edit(
        "rope.sin_cos",
        "sine and cosine confused",
        ("angles.cos().to(x.dtype), angles.sin()", "angles.sin().to(x.dtype), angles.cos()"),
    ),
    edit(
        "rope.base",
        "theta always 10,000, whatever is given",
        (_SPEED, "1e4 ** (-torch.arange(half) / half)"),
        look_at="theta: Qwen3's is 1,000,000, so it is an argument",
    ),
    edit(
        "rope.exponent",
        "the exponent i / head_dim instead of 2i / head_dim",
        (_SPEED, "theta ** (-torch.arange(half) / (2 * half))"),
    ),
    edit(
        "rope.exponent_twice",
        "the exponent 4i / head_dim instead of 2i / head_dim",
        (_SPEED, "theta ** (-2 * torch.arange(half) / half)"),
    ),
    edit(
        "rope.exponent_sign",
        "speeds that grow with the pair",
        (_SPEED, "theta ** (torch.arange(half) / half)"),
    ),
    edit(
        "rope.one_based",
        "pairs counted from 1",
        (_SPEED, "theta ** (-torch.arange(1, half + 1) / half)"),
    ),
    edit(
        "rope.linspace",
        "speeds down to 1 / theta: one step too far apart",
        (_SPEED, "theta ** (-torch.linspace(0, 1, half))"),
    ),
    edit(
        "rope.base_million",
        "theta always 1,000,000, whatever is given",
        (_SPEED, "1e6 ** (-torch.arange(half) / half)"),
        look_at="theta: it is an argument",
    ),
    *(
        edit(
            f"rope.head_dim_{size}",
            f"the exponent 2i / {size}, whatever head_dim is",
            (_SPEED, f"theta ** (-2 * torch.arange(half) / {size})"),
            look_at="head_dim: it is x.shape[-1]",
        )
        for size in (64, 128)
    ),
    edit("rope.degrees", "the angles taken for degrees", (_ANGLES, f"torch.deg2rad({_ANGLES})")),
    edit("rope.turns", "the angles taken for whole turns", (_ANGLES, f"2 * torch.pi * {_ANGLES}")),
    edit(
        "rope.no_head_axis",
        "angles without an axis for the heads",
        (_ANGLES, "positions[:, None] * radians_per_token"),
        look_at="the axes of the angles: [tokens, 1, pairs], for x is [tokens, heads, dim]",
    ),
    edit("rope.identity", "x, not turned at all", (_CAT, "x.clone()")),
    edit(
        "rope.first_half",
        "only the first half turned",
        (_TURNED, "first * cos - second * sin, second"),
    ),
    edit(
        "rope.cat_dup",
        "cosines laid out 0, 0, 1, 1 for halves that need 0, 1, 0, 1",
        (
            _CAT,
            "x * cos.repeat_interleave(2, -1)"
            " + torch.cat((-second, first), -1) * sin.repeat_interleave(2, -1)",
        ),
        look_at="cos and sin of the whole head: the first half and the second have the same angles",
    ),
    edit(
        "rope.no_downcast",
        "float32, whatever x is",
        (".cos().to(x.dtype)", ".cos()"),
        (".sin().to(x.dtype)", ".sin()"),
        look_at="the last line: the result goes back to x.dtype",
    ),
    _inplace,
    _overwritten,
]
