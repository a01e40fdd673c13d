import pytest

from minivllm.core.block_pool import BlockPool

A, B, C = b"hash a", b"hash b", b"hash c"


@pytest.fixture
def pool():
    return BlockPool(4)


def ids(blocks):
    return [block.block_id for block in blocks]


def cached(pool, *hashes):
    """Blocks in use that hold `hashes`."""
    blocks = pool.allocate(len(hashes))
    for block, block_hash in zip(blocks, hashes, strict=True):
        pool.cache(block, block_hash)
    return blocks


def test_new_pool_gives_blocks_in_order(pool):
    assert ids(pool.allocate(3)) == [0, 1, 2]
    assert pool.num_free_blocks == 1
    pool.check()


def test_allocated_block_has_one_user(pool):
    assert [block.ref_count for block in pool.allocate(2)] == [1, 1]


def test_asking_for_more_than_is_free_is_our_mistake(pool):
    with pytest.raises(AssertionError, match="only for what is free"):
        pool.allocate(5)
    assert pool.num_free_blocks == 4


def test_freed_blocks_go_to_the_end_in_the_given_order(pool):
    blocks = pool.allocate(3)
    pool.free(reversed(blocks))
    assert ids(pool.free_queue) == [3, 2, 1, 0]
    pool.check()


def test_freed_block_is_still_found(pool):
    blocks = cached(pool, A)
    pool.free(blocks)
    assert pool.get_cached(A) is blocks[0]
    pool.check()


def test_unknown_hash_is_not_found(pool):
    cached(pool, A)
    assert pool.get_cached(B) is None


def test_reallocated_block_loses_its_hash(pool):
    pool.free(cached(pool, A))
    assert ids(pool.allocate(4)) == [1, 2, 3, 0]
    assert pool.get_cached(A) is None
    assert pool.num_cached_hashes == 0
    pool.check()


def test_least_recently_freed_block_is_evicted_first(pool):
    a, b, c = cached(pool, A, B, C)
    pool.free([b])
    pool.free([a])
    pool.free([c])
    pool.allocate(2)  # the empty block 3, then b
    assert pool.get_cached(B) is None
    assert pool.get_cached(A) is a
    assert pool.get_cached(C) is c


def test_hit_takes_a_free_block_out_of_the_queue(pool):
    (block,) = blocks = cached(pool, A)
    pool.free(blocks)
    pool.touch([block])
    assert block.ref_count == 1
    assert ids(pool.free_queue) == [1, 2, 3]
    assert ids(pool.allocate(3)) == [1, 2, 3]
    assert pool.get_cached(A) is block
    pool.check()


def test_hit_on_a_used_block_adds_a_user(pool):
    (block,) = cached(pool, A)
    pool.touch([block])
    assert block.ref_count == 2
    assert pool.num_free_blocks == 3
    pool.check()


def test_shared_block_is_free_only_when_its_last_user_lets_go(pool):
    (block,) = cached(pool, A)
    pool.touch([block])
    pool.free([block])
    assert pool.num_free_blocks == 3
    pool.free([block])
    assert pool.num_free_blocks == 4
    pool.check()


def test_freeing_once_too_often_is_our_mistake(pool):
    blocks = pool.allocate(1)
    pool.free(blocks)
    with pytest.raises(AssertionError, match="once too often"):
        pool.free(blocks)
    assert pool.num_free_blocks == 4


def test_caching_a_block_twice_is_our_mistake(pool):
    (block,) = cached(pool, A)
    with pytest.raises(AssertionError, match="cached already"):
        pool.cache(block, B)


def test_two_blocks_may_hold_the_same_prefix(pool):
    first, second = cached(pool, A, A)
    assert pool.get_cached(A) is first
    assert pool.num_cached_hashes == 1
    pool.check()
    pool.free([first, second])
    pool.allocate(3)  # 2, 3, and then the first copy
    assert pool.get_cached(A) is second
    pool.check()
    pool.allocate(1)
    assert pool.get_cached(A) is None
    pool.check()


def test_reset_forgets_every_prefix(pool):
    pool.free(cached(pool, A, B, B))
    assert pool.reset_prefix_cache() is True
    assert pool.num_cached_hashes == 0
    assert pool.get_cached(A) is None
    assert pool.num_free_blocks == 4
    pool.check()


def test_reset_of_an_empty_cache_works(pool):
    assert pool.reset_prefix_cache() is True


def test_reset_does_nothing_while_a_block_is_used(pool):
    blocks = cached(pool, A, B)
    pool.free(blocks[:1])
    assert pool.reset_prefix_cache() is False
    assert pool.get_cached(A) is blocks[0]
    assert pool.get_cached(B) is blocks[1]


def test_clear_empties_a_pool_in_any_state(pool):
    blocks = cached(pool, A, B)
    pool.free(blocks[:1])
    pool.clear()
    assert ids(pool.free_queue) == [0, 1, 2, 3]
    assert pool.num_cached_hashes == 0
    pool.check()


def break_queue(pool):
    pool.free_queue.popleft()


def break_count(pool):
    pool.blocks[1].ref_count = 1


def break_negative_count(pool):
    pool.free_queue.popleft().ref_count = -1


def break_hash(pool):
    pool.blocks[2].block_hash = A


def break_map(pool):
    pool._cached[A] = {2: pool.blocks[2]}


def break_empty_entry(pool):
    pool._cached[A] = {}


def break_length(pool):
    pool.free_queue._length += 1


@pytest.mark.parametrize(
    "damage",
    [
        break_queue,
        break_count,
        break_negative_count,
        break_hash,
        break_map,
        break_empty_entry,
        break_length,
    ],
)
def test_check_sees_damage(pool, damage):
    pool.check()
    damage(pool)
    with pytest.raises(AssertionError):
        pool.check()


def test_check_sees_a_cached_block_while_caching_is_off():
    pool = BlockPool(2, enable_caching=False)
    cached(pool, A)
    with pytest.raises(AssertionError, match="while caching is off"):
        pool.check()
