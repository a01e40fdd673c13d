"""KVCacheManager: gives each request the blocks its tokens need.

It keeps one block table per request and asks the `BlockPool` for blocks. What physically lies in a
block, it never sees: logical blocks and physical pages meet only as integers.

    block_size 4, a request with 10 tokens:   table [7, 2, 9]
    token t lies in block table[t // 4], at offset t % 4: token 6 is in block 2 at offset 2

Source: PagedAttention, arXiv:2309.06180, section 4; vLLM: v1/core/kv_cache_manager.py.
Next file to read: `scheduler.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from minivllm.core.block_hash import extend_block_hashes
from minivllm.core.block_pool import BlockPool
from minivllm.core.free_block_queue import KVCacheBlock
from minivllm.core.request import Request


class KVCacheManager:
    """The block tables of all live requests.

    Attributes:
        pool: Where the blocks come from.
        block_size: Tokens per block.
    """

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        self.pool = pool
        self.block_size = block_size
        self._tables: dict[str, list[KVCacheBlock]] = {}

    @property
    def usage(self) -> float:
        """Share of the blocks that requests use, from 0 to 1."""
        return 1 - self.pool.num_free_blocks / self.pool.num_blocks

    def num_blocks_for(self, num_tokens: int) -> int:
        """Blocks that `num_tokens` tokens fill, the last one perhaps in part."""
        return -(-num_tokens // self.block_size)

    def block_ids(self, request: Request) -> list[int]:
        """The request's block table, as the worker knows it."""
        return [block.block_id for block in self._tables.get(request.request_id, ())]

    def find_cached_prefix(self, request: Request) -> list[KVCacheBlock]:
        """The longest run of cached blocks that the request starts with.

        At least one token is left to compute, the last: its hidden state is what the next token
        is sampled from. The blocks are not yet the request's; `allocate_slots` makes them so.
        A request for prompt log-probabilities hits nothing: they take the hidden state of every
        prompt token.
        """
        if not self.pool.enable_caching or request.sampling_params.prompt_logprobs is not None:
            return []
        num_full = (request.num_tokens - 1) // self.block_size
        extend_block_hashes(request.block_hashes, request.token_ids, self.block_size, num_full)
        prefix = []
        for block_hash in request.block_hashes[:num_full]:
            block = self.pool.get_cached(block_hash)
            if block is None:
                break
            prefix.append(block)
        return prefix

    def allocate_slots(
        self, request: Request, num_tokens: int, cached_prefix: Sequence[KVCacheBlock] = ()
    ) -> list[int] | None:
        """Make the request's table hold its first `num_tokens` tokens.

        Args:
            request: Whose table grows.
            num_tokens: How many of its tokens must have a slot.
            cached_prefix: What `find_cached_prefix` found, for a request without a table.

        Returns:
            The ids of the blocks to append to its table (the cached prefix first), or `None` if
            too few are free; then nothing has changed.
        """
        table = self._tables.get(request.request_id, [])
        num_new = self.num_blocks_for(num_tokens) - len(table) - len(cached_prefix)
        if num_new <= 0 and not cached_prefix:
            return []
        # A cached block that no one uses is in the free queue too: taking it uses one up.
        num_revived = sum(block.ref_count == 0 for block in cached_prefix)
        if num_new + num_revived > self.pool.num_free_blocks:
            return None
        self.pool.touch(cached_prefix)
        added = [*cached_prefix, *self.pool.allocate(num_new)]
        table.extend(added)
        self._tables[request.request_id] = table
        request.num_slots = len(table) * self.block_size
        return [block.block_id for block in added]

    def cache_blocks(self, request: Request, num_tokens: int) -> None:
        """Let the blocks filled by the request's first `num_tokens` tokens be found by others.

        Called once the step that computes these tokens is certain to run. A layer writes all keys
        and values of a step before it reads any, so a request planned later in the same step can
        already hit them.
        """
        num_full = num_tokens // self.block_size
        if num_full <= request.num_cached_blocks or not self.pool.enable_caching:
            return
        extend_block_hashes(request.block_hashes, request.token_ids, self.block_size, num_full)
        table = self._tables[request.request_id]
        for index in range(request.num_cached_blocks, num_full):
            self.pool.cache(table[index], request.block_hashes[index])
        request.num_cached_blocks = num_full

    def free(self, request: Request) -> None:
        """Take the request's blocks back; a request without any is left alone.

        The last block first, so that it is evicted first: a prefix is only worth as much as its
        beginning.
        """
        self.pool.free(reversed(self._tables.pop(request.request_id, [])))

    def reset_prefix_cache(self) -> bool:
        """Forget every cached prefix. Gives `False`, and does nothing, while requests run."""
        return self.pool.reset_prefix_cache()

    def clear(self) -> None:
        """Take every table away and empty the pool, whatever state they were in."""
        self._tables.clear()
        self.pool.clear()

    def check(self) -> None:
        """Walk every invariant of tables and pool.

        Raises:
            AssertionError: One does not hold; the message says which.
        """
        self.pool.check()
        users = Counter(block.block_id for table in self._tables.values() for block in table)
        counts = {block.block_id: block.ref_count for block in self.pool.blocks if block.ref_count}
        assert users == counts, "a block's count is the number of tables that hold it"
