"""BlockPool: which blocks are free, which are in use, and which can be found by their content.

A block is in one of three states:

    in use        ref_count > 0     in the tables of that many requests
    free, cached  ref_count == 0    in the free queue; still holds a prefix that a request may hit
    free, empty   ref_count == 0    in the free queue; holds nothing of use

A freed block keeps its hash until it is needed for something else. That is the whole prefix cache:
the free queue is its eviction order. The pool knows no request and no tensor.
Source: vLLM: v1/core/block_pool.py. Next file to read: `kv_cache_manager.py`.
"""

from __future__ import annotations

from collections.abc import Iterable

from minivllm.core.free_block_queue import FreeBlockQueue, KVCacheBlock
from minivllm.trace import BlockAllocated, BlockCached, BlockEvicted, BlockFreed, BlockHit, Trace


class BlockPool:
    """All blocks of the KV cache.

    Attributes:
        num_blocks: How many there are.
        blocks: All of them; `blocks[i].block_id == i`.
        free_queue: Those no request uses, the next to be taken first.
    """

    def __init__(
        self, num_blocks: int, *, enable_caching: bool = True, trace: Trace | None = None
    ) -> None:
        self.num_blocks = num_blocks
        self.enable_caching = enable_caching
        self._trace = trace
        self.clear()

    def clear(self) -> None:
        """Make every block free and empty, whatever state the pool was in."""
        self.blocks = [KVCacheBlock(block_id) for block_id in range(self.num_blocks)]
        self.free_queue = FreeBlockQueue()
        for block in self.blocks:
            self.free_queue.append(block)
        # Two requests that compute the same prefix in one step fill two blocks with the same hash.
        # Both stay: a block table is never rewritten, so that the worker only ever appends to it.
        self._cached: dict[bytes, dict[int, KVCacheBlock]] = {}

    @property
    def num_free_blocks(self) -> int:
        """Blocks that no request uses, cached ones included."""
        return len(self.free_queue)

    @property
    def num_cached_hashes(self) -> int:
        """Different prefixes that can be found."""
        return len(self._cached)

    def allocate(self, num_blocks: int) -> list[KVCacheBlock]:
        """Take `num_blocks` blocks to fill, the least recently used first.

        The caller has checked `num_free_blocks`. A block that was cached is evicted.
        """
        assert num_blocks <= len(self.free_queue), "the manager asks only for what is free"
        blocks = [self.free_queue.popleft() for _ in range(num_blocks)]
        for block in blocks:
            if block.block_hash is not None:
                self._evict(block)
            block.ref_count = 1
            if self._trace is not None:
                self._trace.add(BlockAllocated(step=self._trace.step, block_id=block.block_id))
        return blocks

    def get_cached(self, block_hash: bytes) -> KVCacheBlock | None:
        """A block that holds the prefix named `block_hash`, or `None`."""
        same = self._cached.get(block_hash)
        return next(iter(same.values())) if same else None

    def touch(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Add a user to cached blocks that were hit; a free one leaves the free queue."""
        for block in blocks:
            if block.ref_count == 0:
                self.free_queue.remove(block)
            block.ref_count += 1
            if self._trace is not None:
                self._trace.add(BlockHit(step=self._trace.step, block_id=block.block_id))

    def cache(self, block: KVCacheBlock, block_hash: bytes) -> None:
        """Let the full `block` be found under `block_hash`."""
        assert block.block_hash is None, f"{block} is cached already"
        block.block_hash = block_hash
        self._cached.setdefault(block_hash, {})[block.block_id] = block
        if self._trace is not None:
            name = block_hash.hex()
            event = BlockCached(step=self._trace.step, block_id=block.block_id, block_hash=name)
            self._trace.add(event)

    def free(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Take a user from each block; those without one become evictable in the given order."""
        for block in blocks:
            assert block.ref_count > 0, f"{block} is freed once too often"
            block.ref_count -= 1
            if block.ref_count == 0:
                self.free_queue.append(block)
                if self._trace is not None:
                    self._trace.add(BlockFreed(step=self._trace.step, block_id=block.block_id))

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. Gives `False`, and does nothing, while blocks are in use."""
        if self.num_free_blocks != self.num_blocks:
            return False
        for block in self.blocks:
            if block.block_hash is not None:
                self._evict(block)
        return True

    def _evict(self, block: KVCacheBlock) -> None:
        assert block.block_hash is not None, "only a cached block can be evicted"
        same = self._cached[block.block_hash]
        del same[block.block_id]
        if not same:
            del self._cached[block.block_hash]
        block.block_hash = None
        if self._trace is not None:
            self._trace.add(BlockEvicted(step=self._trace.step, block_id=block.block_id))

    def check(self) -> None:
        """Walk every invariant of the pool; tests call this after each step.

        Raises:
            AssertionError: One does not hold; the message says which.
        """
        in_queue = [block.block_id for block in self.free_queue]
        unused = [block.block_id for block in self.blocks if block.ref_count == 0]
        assert len(in_queue) == len(self.free_queue), "the queue's length is its number of blocks"
        assert sorted(in_queue) == unused, "a block is in the free queue exactly if unused"
        assert all(block.ref_count >= 0 for block in self.blocks), "no count is negative"
        hashed = {b.block_id: b.block_hash for b in self.blocks if b.block_hash is not None}
        found = {i: name for name, same in self._cached.items() for i in same}
        assert hashed == found, "a block has a hash exactly if it is found under it"
        assert all(self._cached.values()), "no hash is left without a block"
        assert self.enable_caching or not found, "nothing is cached while caching is off"
