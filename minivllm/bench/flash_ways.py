"""FlashAttention's own kernels as ways of a trial, where its package is installed.

Next file to read: `small_trials.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from torch import Tensor

from minivllm.bench.trial import Call

# Name -> package, and what its function calls the block table.
_PACKAGES = {
    "FlashAttention 3": ("flash_attn_interface", "page_table"),
    "FlashAttention 2": ("flash_attn", "block_table"),
}


def installed() -> dict[str, tuple[Any, str]]:
    """The versions that are there: name -> module, and name of the block table's argument."""
    return {
        name: (import_module(package), table)
        for name, (package, table) in _PACKAGES.items()
        if find_spec(package) is not None
    }


def flash_decode(
    q: Tensor, caches: tuple[Tensor, Tensor], tables: Tensor, seq_lens: Tensor
) -> dict[str, list[Call]]:
    """Calls for each set of queries `q[i]`, `[num_reqs, num_heads, head_dim]`."""
    ways: dict[str, list[Call]] = {}
    for name, (module, table) in installed().items():
        if name == "FlashAttention 2" and caches[0].shape[1] % 256 != 0:
            continue  # it takes no smaller block
        ways[name] = [
            partial(_decode, module, q[i], caches, seq_lens, {table: tables[i]})
            for i in range(len(q))
        ]
    return ways


def flash_prefill(q: Tensor, keys_values: Sequence[Any]) -> dict[str, list[Call]]:
    """Calls for each prompt's queries `q[i]` and its key and value, tokens first."""
    return {
        name: [partial(_prefill, module, q[i], *keys_values[i]) for i in range(len(q))]
        for name, (module, _) in installed().items()
    }


def _decode(
    module: Any, q: Tensor, caches: tuple[Tensor, Tensor], seq_lens: Tensor, table: dict[str, Any]
) -> Tensor:
    out: Tensor = module.flash_attn_with_kvcache(
        q[:, None], *caches, cache_seqlens=seq_lens, causal=True, **table
    )
    return out[:, 0]


def _prefill(module: Any, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    out: Any = module.flash_attn_func(q[None], k[None], v[None], causal=True)
    first: Tensor = out[0] if isinstance(out, tuple) else out  # some versions add the log-sum-exp
    return first[0]
