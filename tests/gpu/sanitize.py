"""Each kernel once, on small and awkward shapes, for a tool that watches every memory access.

    compute-sanitizer --tool memcheck --error-exitcode 1 python3 tests/gpu/sanitize.py

Run by itself it compares each result with its reference. No test: the tool makes kernels a hundred
times slower. Masked tails are everywhere: sizes that no tile divides, rows of padding, tables in
which most entries are nobody's.
"""
# ruff: noqa: E402  (first the path, then what is found on it)

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

# Each tensor becomes an allocation of its own, so that one step past its end is an error.
os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"

import torch
from torch import Tensor

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS.parent), str(TESTS / "kernels")]

from kernel_cases import batch, start_loc

from minivllm.kernels.cache_write import cache_write, cache_write_ref
from minivllm.kernels.few_rows_matmul import few_rows_matmul, few_rows_matmul_ref
from minivllm.kernels.flash_attention import flash_attention, flash_attention_ref
from minivllm.kernels.paged_decode import paged_decode, paged_decode_ref
from minivllm.kernels.paged_prefill import paged_prefill, paged_prefill_ref
from minivllm.kernels.qk_norm_rope import qk_norm_rope_cache_write, qk_norm_rope_cache_write_ref
from minivllm.kernels.rms_norm import add_rms_norm, add_rms_norm_ref, rms_norm, rms_norm_ref
from minivllm.kernels.sample import sample, sample_ref
from minivllm.kernels.silu_and_mul import silu_and_mul, silu_and_mul_ref

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPES = (torch.float32, torch.float16) + ((torch.bfloat16,) if DEVICE == "cuda" else ())
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}
SLOTS = (5, -1, 0, 31, 17)  # of 4 blocks of 8, the last slot among them


def normal(*shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, device=DEVICE).to(dtype)


def ints(numbers: Sequence[int]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64, device=DEVICE)


def compare(found: Tensor | Sequence[Tensor], expected: Tensor | Sequence[Tensor]) -> None:
    pairs = [(found, expected)] if isinstance(found, Tensor) else zip(found, expected, strict=True)
    for one, other in pairs:
        limit = TOLERANCE.get(one.dtype, 0.0)
        torch.testing.assert_close(one, other, atol=limit, rtol=limit)


def check_norms(dtype: torch.dtype) -> None:
    for num_rows, size in ((1, 1), (5, 100), (3, 1030), (2, 5000)):
        x, residual = normal(2, num_rows, size, dtype=dtype)
        weight = normal(size, dtype=dtype)
        compare(rms_norm(x, weight, 1e-6), rms_norm_ref(x, weight, 1e-6))
        compare(
            add_rms_norm(x, residual, weight, 1e-6), add_rms_norm_ref(x, residual, weight, 1e-6)
        )


def check_activation(dtype: torch.dtype) -> None:
    for num_rows, size in ((1, 1), (3, 80), (2, 1030)):
        gate_up = normal(num_rows, 2 * size, dtype=dtype)
        compare(silu_and_mul(gate_up), silu_and_mul_ref(gate_up))


def check_cache_write(dtype: torch.dtype) -> None:
    for num_heads, head_dim in ((1, 64), (3, 80)):
        k, v = normal(2, len(SLOTS), num_heads, head_dim, dtype=dtype)
        caches = [
            torch.zeros(2, 4, 8, num_heads, head_dim, device=DEVICE, dtype=dtype) for _ in "ab"
        ]
        cache_write(k, v, *caches[0], ints(SLOTS))
        cache_write_ref(k, v, *caches[1], ints(SLOTS))
        compare(*caches)


def check_heads(dtype: torch.dtype) -> None:
    for head_dim, has_norm in product((64, 80, 96), (False, True)):
        num_heads, num_kv_heads = 6, 3
        qkv = normal(len(SLOTS), (num_heads + 2 * num_kv_heads) * head_dim, dtype=dtype)
        norms = normal(2, head_dim, dtype=dtype) if has_norm else (None, None)
        cos, sin = normal(2, len(SLOTS), 1, head_dim // 2, dtype=dtype)
        cos, sin = torch.cat((cos, cos), dim=-1), torch.cat((-sin, sin), dim=-1)
        results = []
        for function in (qk_norm_rope_cache_write, qk_norm_rope_cache_write_ref):
            caches = torch.zeros(2, 4, 8, num_kv_heads, head_dim, device=DEVICE, dtype=dtype)
            q = function(qkv, *norms, cos, sin, 1e-6, *caches, ints(SLOTS), num_heads)
            results.append((q, caches))
        compare(*results)


def check_prefill(dtype: torch.dtype) -> None:
    for head_dim, block_size, window in ((64, 8, None), (80, 16, 5), (128, 256, 40)):
        requests = batch(
            [1, 37, 70],
            [1, 90, 70],
            head_dim=head_dim,
            block_size=block_size,
            dtype=dtype,
            device=DEVICE,
        )
        rules = {
            "max_query_len": requests.max_query_len,
            "scale": requests.scale,
            "sliding_window": window,
        }
        arguments = (
            requests.q,
            requests.key_cache,
            requests.value_cache,
            requests.block_table,
            requests.query_start_loc,
            requests.seq_lens,
        )
        compare(paged_prefill(*arguments, **rules), paged_prefill_ref(*arguments, **rules))

        packed = (requests.q, torch.cat(requests.keys), torch.cat(requests.values))
        starts = (requests.query_start_loc, start_loc([1, 90, 70], DEVICE))
        for is_causal in (False, True):
            both = {**rules, "is_causal": is_causal}
            compare(
                flash_attention(*packed, *starts, **both),
                flash_attention_ref(*packed, *starts, **both),
            )


def check_decode(dtype: torch.dtype) -> None:
    cases = ((64, 8, None, 1), (80, 16, 5, 3), (128, 256, None, 7), (96, 64, 40, None))
    for head_dim, block_size, window, num_splits in cases:
        requests = batch(
            [1] * 4,
            [1, 0, 90, 300],
            head_dim=head_dim,
            group_size=3,
            block_size=block_size,
            dtype=dtype,
            device=DEVICE,
        )
        arguments = (
            requests.q,
            requests.key_cache,
            requests.value_cache,
            requests.block_table,
            requests.seq_lens,
        )
        rules = {"scale": requests.scale, "sliding_window": window, "num_splits": num_splits}
        compare(paged_decode(*arguments, **rules), paged_decode_ref(*arguments, **rules))


def check_sample(dtype: torch.dtype) -> None:
    for num_rows, vocab_size in ((1, 1), (3, 1000), (2, 3 * 1024 + 1)):
        logits = normal(num_rows, vocab_size, dtype=dtype)
        temperatures = torch.tensor([0.0, 1.0, 0.3], device=DEVICE)[:num_rows]
        places = (ints([3, -1, 2**62])[:num_rows], ints([0, 7, 2**40])[:num_rows])
        compare(sample(logits, temperatures, *places), sample_ref(logits, temperatures, *places))


def check_few_rows(dtype: torch.dtype) -> None:
    # Every kind of tile (up to 2048, up to 16384 and more columns), with tails of both N and K.
    for num_rows, n, k in product((1, 2, 16), (1, 37, 2050, 16_390), (16, 100, 1033)):
        if n * k > 10**7 or (DEVICE == "cpu" and n * k > 10**5):
            continue  # long for the reference, and for the interpreter
        x, weight = normal(num_rows, k, dtype=dtype), normal(n, k, dtype=dtype) * k**-0.5
        for bias in (None, normal(n, dtype=dtype)):
            compare(few_rows_matmul(x, weight, bias), few_rows_matmul_ref(x, weight, bias))


CHECKS: tuple[Callable[[torch.dtype], None], ...] = (
    check_norms,
    check_activation,
    check_cache_write,
    check_heads,
    check_prefill,
    check_decode,
    check_sample,
    check_few_rows,
)

if __name__ == "__main__":
    torch.manual_seed(0)
    for check, dtype in product(CHECKS, DTYPES):
        check(dtype)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        print(f"{check.__name__.removeprefix('check_'):12} {str(dtype).removeprefix('torch.')}")
