import pytest
from tiny_planner import make_request

from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager


def make_manager(num_blocks=8, block_size=4, caching=True):
    return KVCacheManager(BlockPool(num_blocks, enable_caching=caching), block_size)


@pytest.fixture
def manager():
    return make_manager()


def ids(blocks):
    return [block.block_id for block in blocks]


def fill(manager, request):
    """Give `request` its prefix and blocks, and publish them all, as one step would."""
    prefix = manager.find_cached_prefix(request)
    new = manager.allocate_slots(request, request.num_tokens, prefix)
    request.num_cached_blocks = len(prefix)
    manager.cache_blocks(request, request.num_tokens)
    manager.check()
    return new


@pytest.mark.parametrize("block_size", [1, 2, 4, 8, 16])
def test_number_of_blocks_is_rounded_up(block_size):
    manager = make_manager(40, block_size)
    for num_tokens in range(2 * block_size + 2):
        request = make_request(f"r{num_tokens}", max(1, num_tokens))
        new = manager.allocate_slots(request, num_tokens)
        assert new is not None
        assert len(new) == len(manager.block_ids(request)) == -(-num_tokens // block_size)
        manager.free(request)


def test_table_grows_only_at_a_block_boundary(manager):
    request = make_request("a", 3)
    grown = [manager.allocate_slots(request, num_tokens) for num_tokens in range(3, 11)]
    assert grown == [[0], [], [1], [], [], [], [2], []]
    assert manager.block_ids(request) == [0, 1, 2]
    manager.check()


def test_several_blocks_are_added_at_once(manager):
    request = make_request("a", 13)
    assert manager.allocate_slots(request, 5) == [0, 1]
    assert manager.allocate_slots(request, 13) == [2, 3]


def test_unknown_request_has_an_empty_table(manager):
    assert manager.block_ids(make_request("nobody")) == []


def test_too_few_free_blocks_change_nothing(manager):
    manager.allocate_slots(make_request("a", 20), 20)
    late = make_request("b", 13)
    assert manager.allocate_slots(late, 13) is None
    assert manager.block_ids(late) == []
    assert manager.pool.num_free_blocks == 3
    manager.check()


def test_last_free_block_can_be_taken(manager):
    manager.allocate_slots(make_request("a", 20), 20)
    assert manager.allocate_slots(make_request("b", 12), 12) == [5, 6, 7]
    assert manager.pool.num_free_blocks == 0


def test_usage_is_the_share_of_used_blocks(manager):
    assert manager.usage == 0
    manager.allocate_slots(make_request("a", 8), 8)
    assert manager.usage == 0.25


def test_free_gives_the_last_block_first_to_eviction(manager):
    request = make_request("a", 12)
    manager.allocate_slots(request, 12)
    manager.free(request)
    assert ids(manager.pool.free_queue) == [3, 4, 5, 6, 7, 2, 1, 0]
    assert manager.block_ids(request) == []


def test_freeing_twice_is_harmless(manager):
    request = make_request("a", 12)
    manager.allocate_slots(request, 12)
    manager.free(request)
    manager.free(request)
    assert manager.pool.num_free_blocks == 8
    manager.check()


@pytest.mark.parametrize(
    ("num_tokens", "num_hit"),
    [(3, 0), (4, 0), (5, 1), (7, 1), (8, 1), (9, 2), (12, 2), (13, 3)],
)
def test_same_prompt_hits_all_full_blocks_but_leaves_a_token(manager, num_tokens, num_hit):
    prompt = list(range(num_tokens))
    fill(manager, make_request("a", prompt))
    again = make_request("b", prompt)
    assert ids(manager.find_cached_prefix(again)) == list(range(num_hit))


def test_common_prefix_of_35_hits_32_with_blocks_of_32():
    manager = make_manager(8, 32)
    fill(manager, make_request("a", list(range(64)), max_model_len=128))
    other = make_request("b", list(range(35)) + [999] * 29, max_model_len=128)
    assert ids(manager.find_cached_prefix(other)) == [0]


def test_prefix_ends_at_the_first_block_that_differs(manager):
    fill(manager, make_request("a", [1] * 4 + [2] * 4 + [3] * 4))
    other = make_request("b", [1] * 4 + [9] * 4 + [3] * 4 + [0])
    assert ids(manager.find_cached_prefix(other)) == [0]


def test_prefix_ends_where_a_block_was_evicted(manager):
    first = make_request("a", list(range(13)))
    fill(manager, first)
    manager.free(first)
    manager.allocate_slots(make_request("filler", 24), 24)  # 4, 5, 6, 7 and the tail: 3, 2
    again = make_request("b", list(range(13)))
    assert ids(manager.find_cached_prefix(again)) == [0, 1]


def test_partial_block_is_not_cached(manager):
    request = make_request("a", list(range(7)))
    fill(manager, request)
    assert manager.pool.num_cached_hashes == 1


def test_uncomputed_tokens_are_not_cached(manager):
    request = make_request("a", list(range(12)))
    manager.allocate_slots(request, 12)
    manager.cache_blocks(request, 7)
    assert request.num_cached_blocks == 1
    assert ids(manager.find_cached_prefix(make_request("b", list(range(12))))) == [0]
    manager.cache_blocks(request, 12)
    assert request.num_cached_blocks == 3
    assert manager.pool.num_cached_hashes == 3


def test_caching_the_same_tokens_again_changes_nothing(manager):
    request = make_request("a", list(range(8)))
    fill(manager, request)
    manager.cache_blocks(request, 8)
    manager.cache_blocks(request, 4)
    assert request.num_cached_blocks == 2
    manager.check()


def test_shared_prefix_counts_its_users(manager):
    prompt = list(range(9))
    first, second = make_request("a", prompt), make_request("b", prompt)
    assert fill(manager, first) == [0, 1, 2]
    assert fill(manager, second) == [0, 1, 3]
    assert [manager.pool.blocks[i].ref_count for i in range(4)] == [2, 2, 1, 1]
    manager.free(first)
    assert [manager.pool.blocks[i].ref_count for i in range(4)] == [1, 1, 0, 1]
    assert manager.block_ids(second) == [0, 1, 3]
    manager.check()


def test_hit_of_free_blocks_uses_them_up(manager):
    """3 blocks are free and 2 of them are the prefix: only 1 is left for new tokens."""
    prompt = list(range(9))
    first = make_request("a", prompt)
    fill(manager, first)
    manager.free(first)
    manager.allocate_slots(make_request("filler", 20), 20)  # 3, 4, 5, 6, 7
    assert manager.pool.num_free_blocks == 3
    again = make_request("b", prompt + [0] * 8)  # 5 blocks in all
    prefix = manager.find_cached_prefix(again)
    assert ids(prefix) == [0, 1]
    assert manager.allocate_slots(again, 17, prefix) is None
    assert [block.ref_count for block in prefix] == [0, 0]
    assert manager.allocate_slots(again, 12, prefix) == [0, 1, 2]
    manager.check()


def test_hit_block_is_not_taken_as_a_new_block():
    """The whole pool is free and cached: new blocks must not evict the prefix just found."""
    manager = make_manager(4)
    prompt = list(range(16))
    first = make_request("a", prompt)
    fill(manager, first)
    manager.free(first)
    again = make_request("b", prompt)
    prefix = manager.find_cached_prefix(again)
    assert ids(prefix) == [0, 1, 2]
    assert manager.allocate_slots(again, 16, prefix) == [0, 1, 2, 3]
    manager.check()


def test_hit_block_that_is_next_to_be_evicted_is_not_taken_as_a_new_block():
    manager = make_manager(4)
    first = make_request("a", list(range(5)))
    fill(manager, first)
    manager.free(first)
    filler = make_request("filler", 12)
    manager.allocate_slots(filler, 12)  # 2, 3, and the tail: 1
    manager.free(filler)
    assert ids(manager.pool.free_queue) == [0, 1, 3, 2]
    again = make_request("b", list(range(5)))
    prefix = manager.find_cached_prefix(again)
    assert manager.allocate_slots(again, 5, prefix) == [0, 1]
    assert manager.pool.blocks[0].block_hash is not None
    manager.check()


def test_request_knows_how_many_tokens_its_blocks_have_room_for(manager):
    request = make_request("a", 5)
    manager.allocate_slots(request, 5)
    assert request.num_slots == 8
    manager.allocate_slots(request, 9)
    assert request.num_slots == 12


def test_blocks_filled_by_generated_tokens_hit_too(manager):
    request = make_request("a", list(range(6)))
    fill(manager, request)
    for token_id in [50, 51, 52]:
        request.token_ids.append(token_id)
        manager.allocate_slots(request, request.num_tokens)
    manager.cache_blocks(request, 8)  # the last token, the 9th, is not computed
    follow_up = make_request("b", [0, 1, 2, 3, 4, 5, 50, 51, 52, 60])
    assert ids(manager.find_cached_prefix(follow_up)) == [0, 1]


def test_nothing_hits_while_caching_is_off():
    manager = make_manager(caching=False)
    prompt = list(range(9))
    fill(manager, make_request("a", prompt))
    again = make_request("b", prompt)
    assert manager.find_cached_prefix(again) == []
    assert again.block_hashes == []
    assert fill(manager, again) == [3, 4, 5]


def test_reset_works_only_without_users(manager):
    request = make_request("a", list(range(9)))
    fill(manager, request)
    assert manager.reset_prefix_cache() is False
    assert len(manager.find_cached_prefix(make_request("b", list(range(9))))) == 2
    manager.free(request)
    assert manager.reset_prefix_cache() is True
    assert manager.find_cached_prefix(make_request("c", list(range(9)))) == []


def test_clear_takes_every_table(manager):
    request = make_request("a", list(range(9)))
    fill(manager, request)
    manager.clear()
    assert manager.block_ids(request) == []
    assert manager.pool.num_free_blocks == 8
    assert manager.pool.num_cached_hashes == 0
    manager.check()


def test_number_of_hashes_never_exceeds_the_pool():
    manager = make_manager(4)
    for i in range(10):
        request = make_request(str(i), 8, arrival=i)
        fill(manager, request)
        manager.free(request)
        assert manager.pool.num_cached_hashes <= 4


def test_check_sees_a_table_that_lost_a_block(manager):
    request = make_request("a", 8)
    manager.allocate_slots(request, 8)
    manager._tables["a"].pop()
    with pytest.raises(AssertionError, match="number of tables"):
        manager.check()


def test_check_sees_a_block_in_one_table_twice(manager):
    request = make_request("a", 8)
    manager.allocate_slots(request, 8)
    manager._tables["a"].append(manager._tables["a"][0])
    with pytest.raises(AssertionError, match="number of tables"):
        manager.check()
