"""FreeBlockQueue: the free blocks, least recently used first, with O(1) removal from anywhere.

A prefix hit takes a free block out of the middle of the queue. A `deque` would search for it; an
`OrderedDict` would do, at the price of hashing every block id twice per step. The links
therefore live in the blocks themselves:

    head <-> block 7 <-> block 2 <-> block 5 <-> tail
             evicted first           freed last

`head` and `tail` are sentinels that never leave, so that no operation has a special case.
"""

from __future__ import annotations

from collections.abc import Iterator


class KVCacheBlock:
    """One logical block. `block_id` is also the number of its physical page.

    Attributes:
        block_id: Its number.
        ref_count: How many requests hold it in their block table; 0 means it is in the free queue.
        block_hash: Its name in the prefix cache; `None` if it can't be found there.
        prev: The block before it in the free queue.
        next: The block after it.
    """

    __slots__ = ("block_hash", "block_id", "next", "prev", "ref_count")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_count = 0
        self.block_hash: bytes | None = None
        self.prev: KVCacheBlock | None = None
        self.next: KVCacheBlock | None = None

    def __repr__(self) -> str:
        name = self.block_hash.hex()[:8] if self.block_hash else None
        return f"KVCacheBlock({self.block_id}, ref_count={self.ref_count}, hash={name})"


class FreeBlockQueue:
    """A doubly linked list of blocks."""

    def __init__(self) -> None:
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-2)
        self._head.next, self._tail.prev = self._tail, self._head
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[KVCacheBlock]:
        """The blocks, the next to be taken first."""
        block = self._head.next
        while block is not None and block is not self._tail:
            yield block
            block = block.next

    def append(self, block: KVCacheBlock) -> None:
        """Put `block` last: it is the most recently used."""
        last = self._tail.prev
        assert last is not None, "the tail always has a block or the head before it"
        last.next, block.prev = block, last
        block.next, self._tail.prev = self._tail, block
        self._length += 1

    def popleft(self) -> KVCacheBlock:
        """Take the least recently used block; the caller has checked that there is one."""
        block = self._head.next
        assert block is not None, "the head always has a block or the tail after it"
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        """Take `block`, which must be in the queue, from wherever it is."""
        before, after = block.prev, block.next
        assert before is not None, f"{block} has no place in the free queue"
        assert after is not None, f"{block} has no place in the free queue"
        before.next, after.prev = after, before
        block.prev = block.next = None
        self._length -= 1
