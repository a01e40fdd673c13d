"""Chapter 90, a demo: attention with grouped heads, and a queue of free blocks."""

from __future__ import annotations

import torch
from torch import Tensor

from minivllm.course.errors import ExerciseNotStarted  # noqa: F401


def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Softmax attention without a mask; query head h reads KV head h // group."""
    # SOLUTION BEGIN
    group = q.shape[1] // k.shape[1]
    keys = k.repeat_interleave(group, dim=1)
    values = v.repeat_interleave(group, dim=1)
    scores = q @ keys.transpose(-1, -2) / q.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1) @ values
    # SOLUTION END


class FreeQueue:
    """The free blocks, the one that was freed first in front."""

    def __init__(self, num_blocks: int) -> None:
        """All blocks are free, in order."""
        # SOLUTION BEGIN free_queue
        self._blocks = dict.fromkeys(range(num_blocks))
        # SOLUTION END

    def __len__(self) -> int:
        """How many are free."""
        # SOLUTION BEGIN free_queue
        return len(self._blocks)
        # SOLUTION END

    def __iter__(self):
        """The free blocks, the next to be taken first."""
        # SOLUTION BEGIN free_queue
        return iter(self._blocks)
        # SOLUTION END

    def popleft(self) -> int:
        """Take the block that has been free for longest."""
        # SOLUTION BEGIN free_queue
        block = next(iter(self._blocks))
        del self._blocks[block]
        return block
        # SOLUTION END

    def append(self, block: int) -> None:
        """Give a block back."""
        # SOLUTION BEGIN free_queue
        if block in self._blocks:
            raise ValueError(f"block {block} is free already")
        self._blocks[block] = None
        # SOLUTION END

    def remove(self, block: int) -> None:
        """Take a block out from anywhere, however long the queue is."""
        # SOLUTION BEGIN free_queue
        del self._blocks[block]
        # SOLUTION END


def detective() -> tuple[int, str]:
    """Which line of the listing is wrong, and why."""
    # SOLUTION BEGIN
    return 3, "b"
    # SOLUTION END
