"""Rebuilds the state of the block pool from trace events alone, as a figure would."""

from __future__ import annotations

from minivllm.core.block_pool import BlockPool
from minivllm.trace import (
    BlockAllocated,
    BlockCached,
    BlockEvicted,
    BlockFreed,
    BlockHit,
    Trace,
)


class TraceMirror:
    """Which blocks are in use and which are cached, as far as the events tell."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self.num_evictions = 0
        self.clear()

    def clear(self) -> None:
        """Start anew with an empty pool, and with the events to come."""
        self._trace.events.clear()
        self.in_use: set[int] = set()
        self.cached: dict[int, str] = {}

    def follow(self) -> None:
        """Replay the new events, and drop them."""
        for event in self._trace.events:
            assert event.step <= self._trace.step + 1, "no event lies beyond the next step"
            match event:
                case BlockAllocated(block_id=block):
                    assert block not in self.in_use
                    assert block not in self.cached, "a block is evicted before it is filled anew"
                    self.in_use.add(block)
                case BlockHit(block_id=block):
                    assert block in self.cached, "only a cached block can be hit"
                    self.in_use.add(block)
                case BlockFreed(block_id=block):
                    self.in_use.remove(block)
                case BlockCached(block_id=block, block_hash=name):
                    assert block not in self.cached
                    self.cached[block] = name
                case BlockEvicted(block_id=block):
                    del self.cached[block]
                    self.num_evictions += 1
        self._trace.events.clear()

    def check(self, pool: BlockPool) -> None:
        """Compare with the pool itself."""
        in_use = {block.block_id for block in pool.blocks if block.ref_count}
        assert in_use == self.in_use, "the trace tells which blocks are in use"
        hashes = {b.block_id: b.block_hash.hex() for b in pool.blocks if b.block_hash}
        assert hashes == self.cached, "the trace tells which blocks are cached"
