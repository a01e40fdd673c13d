"""Chapter 01: what goes wrong with the positions of a rotation.

Each is a change to the solution's text, or the function written out where a change would not do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.declare import edit, mutant

_ANGLES = "positions[:, None, None] * radians_per_token"
_FROM = "where the positions come from: row i of x stands at positions[i]"
_THREE = "positions [7, 3, 100]: token 1 must be turned as at position 3"
_TABLE = "the table: no table of fixed length; compute the angles from positions"


@mutant(
    "rope.inplace_positions",
    "the right numbers, positions given another shape in place",
    look_at="operations ending in _, such as unsqueeze_: the caller still has positions",
    try_it="positions[:, None] is a new tensor; positions.unsqueeze_(1) changes positions",
)
def _inplace_positions(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    half = x.shape[-1] // 2
    angles = positions.unsqueeze_(1).unsqueeze(2) * theta ** (-torch.arange(half) / half)
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x[..., :half], x[..., half:]
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


POSITIONS = [
    _inplace_positions,
    edit(
        "rope.offset0",
        "positions ignored: the rows counted from 0",
        (_ANGLES, "torch.arange(len(x))[:, None, None] * radians_per_token"),
        look_at=_FROM,
        try_it=_THREE,
    ),
    edit(
        "rope.offset_first",
        "counted up from the first position: right for one chunk, wrong for several requests",
        (_ANGLES, "(positions[0] + torch.arange(len(x)))[:, None, None] * radians_per_token"),
        look_at=_FROM,
        try_it=_THREE,
    ),
    edit(
        "rope.sorted",
        "the positions sorted",
        (_ANGLES, "positions.sort().values[:, None, None] * radians_per_token"),
        look_at=_FROM,
        try_it=_THREE,
    ),
    edit(
        "rope.plus1",
        "positions that begin at 1",
        (_ANGLES, "(1 + positions)[:, None, None] * radians_per_token"),
    ),
    edit(
        "rope.batch_pos",
        "the first token's position used for all",
        (_ANGLES, "positions[:1, None, None] * radians_per_token"),
        look_at=_FROM,
        try_it=_THREE,
    ),
    edit(
        "rope.cache_short",
        "a table of as many positions as there are rows",
        (_ANGLES, "(torch.arange(len(x))[:, None, None] * radians_per_token)[positions]"),
        look_at=_TABLE,
        try_it=_THREE,
    ),
    edit(
        "rope.head_position",
        "the head's number used as its position",
        (_ANGLES, "torch.arange(x.shape[1])[None, :, None] * radians_per_token"),
        look_at=_FROM,
        try_it=_THREE,
    ),
    edit(
        "rope.low_angles",
        "the angles computed in the dtype of x",
        (_ANGLES, "(positions.to(x.dtype)[:, None, None] * radians_per_token.to(x.dtype))"),
        look_at="the dtype of positions and angles: bfloat16 has no 257",
        try_it="torch.tensor(257).bfloat16()",
    ),
    edit(
        "rope.half_positions",
        "the positions rounded to float16",
        (_ANGLES, "positions.half().float()[:, None, None] * radians_per_token"),
        look_at="the dtype of positions: float16 has no 2049",
        try_it="torch.tensor(2049).half()",
    ),
    edit(
        "rope.bfloat16_positions",
        "the positions rounded to bfloat16",
        (_ANGLES, "positions.bfloat16().float()[:, None, None] * radians_per_token"),
        look_at="the dtype of positions: bfloat16 has no 257",
        try_it="torch.tensor(257).bfloat16()",
    ),
    edit(
        "rope.int16_positions",
        "the positions as int16, which ends at 32,767",
        (_ANGLES, "positions.to(torch.int16)[:, None, None] * radians_per_token"),
        look_at="the dtype of positions: contexts are longer than 32,767",
        try_it="torch.tensor(40_000).to(torch.int16)",
    ),
    *(
        edit(
            f"rope.table_{size}",
            f"a table of {size} positions",
            (_ANGLES, f"(torch.arange({size})[:, None, None] * radians_per_token)[positions]"),
            look_at=_TABLE,
        )
        for size in (100, 128, 200, 256, 512, 1000, 1024, 2048, 4096, 8192, 10_000, 32_768)
    ),
]
