"""TensorParallel: the object through which layers talk to their counterparts on other devices.

A layer never asks a global who it is: it is given a `TensorParallel` and calls `all_reduce` or
`all_gather` on it. At size 1 both hand back their argument, and torch.distributed is never
imported. Larger sizes come with the tensor-parallel chapter.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True)
class TensorParallel:
    """This process's place among those that share each layer's weights.

    Attributes:
        rank: Which of them this is.
        size: How many there are.
    """

    rank: int = 0
    size: int = 1

    def __post_init__(self) -> None:
        """Check that this is the only process.

        Raises:
            ValueError: More than one process is asked for, which is not built yet.
        """
        if (self.rank, self.size) != (0, 1):
            raise ValueError(f"rank={self.rank}, size={self.size}: only rank 0 of 1 is built yet")

    def shard(self, total: int, name: str) -> int:
        """How many of `total` items (named `name` in the error) fall to one rank.

        Raises:
            ValueError: They cannot be dealt out evenly.
        """
        if total % self.size:
            raise ValueError(f"{name}={total} cannot be split over {self.size} ranks evenly")
        return total // self.size

    def all_reduce(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """The sum of `x` over all ranks; `x` itself at size 1."""
        return x

    def all_gather(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*gathered"]:
        """All ranks' `x` side by side along the last axis; `x` itself at size 1."""
        return x
