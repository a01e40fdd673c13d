"""A token per row of logits, drawn in one pass over them.

    token = argmax_v (logits[v] + temperature * gumbel[v])      gumbel = -log(-log(uniform))

This is the draw of `sample/sampler.py`, `argmax_v (logits[v] / temperature + gumbel[v])`, times the
temperature: the same token, no division, and temperature 0 is the plain argmax. The random numbers
are those of `counter_random.py`, bit for bit: a function of (seed, position, token id), so each
program makes the ones it needs, and no matrix of noise is ever stored.

One program per row would leave a chip idle that has 132 multiprocessors and a batch of one. So a
row is cut into parts of V tokens, and a second kernel takes the best of the parts' best:

    row     | part 0 | part 1 | ... | part P-1 |     149 parts of 1024 for 151,936 tokens
    best    | 5.1 93 | 7.4 1802 |  ...                score and token id, one pair per part
    best of the best: 7.4 1802; the lowest id among equals

R rows, V = BLOCK_V tokens of a part, P parts of a row.
Bytes: each logit read once; besides, 8 per part, written and read.
Paper: A* Sampling, arXiv:1411.0030, section 2. Next file to read: `few_rows_matmul.py`.
"""

from __future__ import annotations

from typing import no_type_check

import torch
import triton
import triton.language as tl
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from minivllm.counter_random import gumbel
from minivllm.kernels.common import ceil_div, launch, power_of_two

# A program has 128 threads, which load 8 logits each: 16 bytes of a 16-bit dtype. The 149 programs
# of a row of 152k logits are one or two for each of an H200's multiprocessors.
_BLOCK_V = 1024
_NUM_WARPS = 4


def sample_ref(
    logits: Float[Tensor, "num_rows vocab_size"],
    temperatures: Float32[Tensor, " num_rows"],
    seeds: Int64[Tensor, " num_rows"],
    positions: Int64[Tensor, " num_rows"],
) -> Int64[Tensor, " num_rows"]:
    """What `sample` computes, in some ten passes."""
    noise = gumbel(seeds, positions, logits.shape[-1])
    return (logits.float() + temperatures[:, None] * noise).argmax(-1)


@triton.jit
@no_type_check
def _mix64(x):
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
@no_type_check
def row_key(seed, position):
    """The low and the high half of a row's 64-bit key, as `row_keys` of `counter_random.py`."""
    key = _mix64(_mix64(seed.to(tl.uint64) + 0x9E3779B97F4A7C15) + position.to(tl.uint64))
    return key.to(tl.uint32), (key >> 32).to(tl.uint32)


@triton.jit
@no_type_check
def uniform(token_ids, low, high):
    """A number between 0 and 1 for each token id, as `uniform` of `counter_random.py`.

    There PyTorch has to do without unsigned integers; here `>>` fills in zeros by itself.
    """
    x = token_ids.to(tl.uint32) ^ low
    x = (x ^ (x >> 16)) * 0x7FEB352D + high
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16)
    return ((x >> 9).to(tl.float32) + 0.5) * (1.0 / 8388608)  # 2**-23, and all of it exact


@triton.jit
@no_type_check
def _best_of_parts(
    logits_ptr, temperatures_ptr, seeds_ptr, positions_ptr, best_scores_ptr, best_ids_ptr,
    vocab_size, logits_stride_r, logits_stride_v,
    BLOCK_V: tl.constexpr,
):  # fmt: skip
    row, part = tl.program_id(0), tl.program_id(1)
    first_id = part * BLOCK_V
    places = tl.arange(0, BLOCK_V)
    token_ids, is_token = first_id + places, places < vocab_size - first_id
    logits_ptr += row.to(tl.int64) * logits_stride_r + first_id.to(tl.int64) * logits_stride_v
    scores = tl.load(logits_ptr + places * logits_stride_v, mask=is_token, other=float("-inf"))
    scores = scores.to(tl.float32)
    scores = tl.where(scores == scores, scores, float("-inf"))  # a NaN is never chosen

    temperature = tl.load(temperatures_ptr + row)
    if temperature > 0:
        low, high = row_key(tl.load(seeds_ptr + row), tl.load(positions_ptr + row))
        noise = -tl.log(-tl.log(uniform(token_ids, low, high)))
        scores += temperature * noise

    # Where all are -inf this takes the part's first place, which is a token.
    best_score, best_place = tl.max(scores, 0, return_indices=True)  # the first among equals
    slot = row.to(tl.int64) * tl.num_programs(1) + part
    tl.store(best_scores_ptr + slot, best_score)
    tl.store(best_ids_ptr + slot, first_id + best_place)


@triton.jit
@no_type_check
def _best_of_rows(
    best_scores_ptr, best_ids_ptr, token_ids_ptr, num_parts, BLOCK_P: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, BLOCK_P)
    scores_ptrs = best_scores_ptr + row * num_parts + parts
    scores = tl.load(scores_ptrs, mask=parts < num_parts, other=float("-inf"))
    best_part = tl.argmax(scores, 0)  # the first among equals
    token_id = tl.load(best_ids_ptr + row * num_parts + best_part)
    tl.store(token_ids_ptr + row, token_id.to(tl.int64))


def sample(
    logits: Float[Tensor, "num_rows vocab_size"],
    temperatures: Float32[Tensor, " num_rows"],
    seeds: Int64[Tensor, " num_rows"],
    positions: Int64[Tensor, " num_rows"],
) -> Int64[Tensor, " num_rows"]:
    """A token id per row: a draw from `softmax(logits / temperature)`.

    A logit of -inf or NaN is never chosen unless a row has no other; of equal ones the lowest id.

    Args:
        logits: Any strides.
        temperatures: 0 takes the most likely token.
        seeds: Of each row's random numbers.
        positions: The position that the new token will have in its request: with the seed and the
            token id it fixes the random numbers, whatever other rows there are.
    """
    num_rows, vocab_size = logits.shape
    token_ids = torch.empty(num_rows, dtype=torch.int64, device=logits.device)
    if num_rows == 0:
        return token_ids
    num_parts = ceil_div(vocab_size, _BLOCK_V)
    best_scores = torch.empty((num_rows, num_parts), dtype=torch.float32, device=logits.device)
    best_ids = torch.empty((num_rows, num_parts), dtype=torch.int32, device=logits.device)
    launch(
        _best_of_parts, (num_rows, num_parts),
        logits, temperatures.contiguous(), seeds.contiguous(), positions.contiguous(),
        best_scores, best_ids, vocab_size, *logits.stride(),
        BLOCK_V=_BLOCK_V, num_warps=_NUM_WARPS,
    )  # fmt: skip
    launch(
        _best_of_rows, (num_rows,), best_scores, best_ids, token_ids, num_parts,
        BLOCK_P=power_of_two(num_parts), num_warps=1,
    )  # fmt: skip
    return token_ids
