import pytest

from minivllm.core.free_block_queue import FreeBlockQueue, KVCacheBlock


@pytest.fixture
def blocks():
    return [KVCacheBlock(i) for i in range(5)]


@pytest.fixture
def queue(blocks):
    queue = FreeBlockQueue()
    for block in blocks:
        queue.append(block)
    return queue


def ids(queue):
    return [block.block_id for block in queue]


def test_blocks_leave_in_the_order_they_came(queue):
    assert [queue.popleft().block_id for _ in range(5)] == [0, 1, 2, 3, 4]
    assert len(queue) == 0
    assert ids(queue) == []


@pytest.mark.parametrize(
    ("index", "rest"), [(0, [1, 2, 3, 4]), (2, [0, 1, 3, 4]), (4, [0, 1, 2, 3])]
)
def test_block_is_removed_from_anywhere(queue, blocks, index, rest):
    queue.remove(blocks[index])
    assert ids(queue) == rest
    assert len(queue) == 4


def test_removed_block_comes_back_at_the_end(queue, blocks):
    queue.remove(blocks[1])
    queue.append(blocks[1])
    assert ids(queue) == [0, 2, 3, 4, 1]


def test_emptied_queue_can_be_filled_again(queue, blocks):
    for block in blocks:
        queue.remove(block)
    queue.append(blocks[3])
    assert ids(queue) == [3]
    assert queue.popleft() is blocks[3]


def test_removing_a_block_twice_is_refused_and_changes_nothing(queue, blocks):
    queue.remove(blocks[2])
    with pytest.raises(AssertionError, match="no place in the free queue"):
        queue.remove(blocks[2])
    assert ids(queue) == [0, 1, 3, 4]
    assert len(queue) == 4


def test_block_tells_its_name():
    block = KVCacheBlock(3)
    assert repr(block) == "KVCacheBlock(3, ref_count=0, hash=None)"
    block.block_hash = bytes(range(32))
    assert repr(block) == "KVCacheBlock(3, ref_count=0, hash=00010203)"
