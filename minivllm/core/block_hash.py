"""The name of a full block in the prefix cache: a chained sha256.

A block's hash covers its tokens and the hash of the block before it, so equal hashes mean equal
prefixes from the very first token on: the keys and values in a block depend on all tokens before
it, not only on its own.

    tokens   [The cat sat on] [the mat . It] [was ...          block_size 4
    hashes    h0 = H(root, .)  h1 = H(h0, .)  not full: no hash

sha256 makes a collision, accidental or made on purpose, out of reach, so a hit needs no comparison
of tokens. Tokens are packed as 64-bit little-endian numbers: the hash is the same in every process
and on every machine.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence


def root_hash(block_size: int) -> bytes:
    """The parent of every first block; blocks of another size never share a hash with it."""
    return hashlib.sha256(b"minivllm prefix cache, block size %d" % block_size).digest()


def hash_block(parent: bytes, token_ids: Sequence[int]) -> bytes:
    """The hash of a full block that holds `token_ids` and follows the block hashed `parent`."""
    packed = struct.pack(f"<{len(token_ids)}q", *token_ids)
    return hashlib.sha256(parent + packed).digest()


def extend_block_hashes(
    block_hashes: list[bytes], token_ids: Sequence[int], block_size: int, num_blocks: int
) -> None:
    """Append to `block_hashes` until the first `num_blocks` blocks of `token_ids` have one.

    Args:
        block_hashes: The hashes of the leading blocks; extended in place.
        token_ids: The tokens of the request.
        block_size: Tokens per block.
        num_blocks: How many hashes are wanted; all these blocks must be full.
    """
    for index in range(len(block_hashes), num_blocks):
        parent = block_hashes[-1] if block_hashes else root_hash(block_size)
        tokens = token_ids[index * block_size : (index + 1) * block_size]
        block_hashes.append(hash_block(parent, tokens))
