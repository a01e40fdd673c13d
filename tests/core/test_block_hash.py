import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest

from minivllm.core.block_hash import extend_block_hashes, hash_block, root_hash

ROOT = root_hash(4)


def hashes_of(token_ids, block_size=4):
    hashes = []
    extend_block_hashes(hashes, token_ids, block_size, len(token_ids) // block_size)
    return hashes


def test_hash_is_sha256_of_parent_and_64_bit_little_endian_tokens():
    packed = b"".join(t.to_bytes(8, "little", signed=True) for t in [5, -1, 2**40, 0])
    assert hash_block(ROOT, [5, -1, 2**40, 0]) == hashlib.sha256(ROOT + packed).digest()


def test_same_block_after_different_parents_differs():
    first, second = hashes_of([1, 1, 1, 1, 9, 9, 9, 9]), hashes_of([2, 2, 2, 2, 9, 9, 9, 9])
    assert first[1] != second[1]


def test_same_tokens_at_different_depth_differ():
    hashes = hashes_of([9, 9, 9, 9] * 3)
    assert len(set(hashes)) == 3


def test_difference_in_first_block_reaches_every_later_hash():
    first, second = hashes_of([1] + [5] * 31), hashes_of([2] + [5] * 31)
    assert not set(first) & set(second)


@pytest.mark.parametrize(
    ("tokens", "others"),
    [
        ([1, 2, 3, 4], [4, 3, 2, 1]),
        ([1, 1, 2, 2], [1, 2, 2, 1]),
        ([-1, 0, 0, 0], [-2, 0, 0, 0]),
        ([1, 23, 4, 5], [12, 3, 4, 5]),
        ([256, 0, 0, 0], [0, 1, 0, 0]),
        ([2**32, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_different_blocks_have_different_hashes(tokens, others):
    assert hash_block(ROOT, tokens) != hash_block(ROOT, others)


def test_block_sizes_never_share_a_hash():
    tokens = [3] * 16
    assert not set(hashes_of(tokens, 4)) & set(hashes_of(tokens, 8))
    assert len({root_hash(size) for size in (1, 2, 4, 8, 16)}) == 5


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
def test_hash_does_not_depend_on_the_width_of_the_integers(dtype):
    tokens = [1, 200, 30000, 4]
    assert hash_block(ROOT, list(np.array(tokens, dtype=dtype))) == hash_block(ROOT, tokens)


def test_only_missing_hashes_are_computed():
    tokens = list(range(12))
    hashes = [b"already there"]
    extend_block_hashes(hashes, tokens, 4, 3)
    assert hashes[0] == b"already there"
    assert hashes[1] == hash_block(b"already there", [4, 5, 6, 7])
    assert len(hashes) == 3


def test_asking_for_fewer_hashes_than_known_changes_nothing():
    hashes = hashes_of(list(range(12)))
    before = list(hashes)
    extend_block_hashes(hashes, list(range(12)), 4, 1)
    assert hashes == before


def test_partial_last_block_gets_no_hash():
    assert len(hashes_of(list(range(11)))) == 2


def test_hash_is_the_same_in_another_process():
    code = (
        "from minivllm.core.block_hash import hash_block, root_hash;"
        "print(hash_block(root_hash(4), [1, -1, 70000, 4]).hex())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.getcwd()},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }
    assert seen == {hash_block(ROOT, [1, -1, 70000, 4]).hex()}
