"""The mutants of the demo chapter."""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.declare import edit, mutant

_DIVIDED = " / q.shape[-1] ** 0.5"


@mutant("attend.sdpa", "PyTorch's own fused attention")
def _sdpa(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)


MUTANTS = [
    edit(
        "attend.tile",
        "KV heads tiled (0,1,0,1,...) instead of repeated (0,0,0,0,1,1,1,1)",
        ("k.repeat_interleave(group, dim=1)", "k.repeat(1, group, 1, 1)"),
        ("v.repeat_interleave(group, dim=1)", "v.repeat(1, group, 1, 1)"),
    ),
    edit("attend.no_scale", "scores without a scale", (_DIVIDED, "")),
    edit("attend.scale_twice", "scores scaled twice", (_DIVIDED, " / q.shape[-1]")),
    edit("attend.softmax_dim", "softmax over the queries", ("dim=-1) @", "dim=-2) @")),
    edit("attend.swap_kv", "keys and values swapped", ("= k.repeat", "= v.repeat"),
         ("values = v.repeat", "values = k.repeat")),
    edit("attend.inplace", "the right answer, but q is changed",
         ("    group =", "    q.add_(1).sub_(1)\n    group =")),
    edit("attend.no_max", "softmax without subtracting the maximum",
         ("torch.softmax(scores, dim=-1)", "scores.exp() / scores.exp().sum(-1, keepdim=True)")),
    edit("attend.matmul", "written with matmul",
         ("q @ keys.transpose(-1, -2)", "torch.matmul(q, keys.mT)"),
         equivalent="because @ is matmul"),
    edit("free_queue.lifo", "the block freed last is taken first",
         ("next(iter(self._blocks))", "next(reversed(self._blocks))")),
    edit("free_queue.front", "freed blocks go to the front",
         ("self._blocks[block] = None", "self._blocks = {block: None, **self._blocks}")),
    edit("free_queue.double_free", "a block freed twice is not refused",
         ("if block in self._blocks:", "if False:")),
    edit("free_queue.leak", "a freed block is lost", ("self._blocks[block] = None", "pass")),
    edit("free_queue.reinsert", "a block that is popped stays",
         ("        del self._blocks[block]\n        return block", "        return block")),
]  # fmt: skip


@mutant("free_queue.list", "a list, which is searched from its front")
class _List:
    def __init__(self, num_blocks: int) -> None:
        self.blocks = list(range(num_blocks))

    def __len__(self) -> int:
        return len(self.blocks)

    def __iter__(self):
        return iter(self.blocks)

    def popleft(self) -> int:
        return self.blocks.pop(0)

    def append(self, block: int) -> None:
        if block in self.blocks:
            raise ValueError(block)
        self.blocks.append(block)

    def remove(self, block: int) -> None:
        self.blocks.remove(block)
