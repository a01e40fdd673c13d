"""Chapter 03's fixtures: tiny random weights, requests in a paged cache, and how models run on it.

The cache is what a careless model gets wrong: blocks in mixed order, NaN wherever nothing was
written, several requests in a step, and requests that are computed in two steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from minivllm.attention.metadata import AttentionMetadata, LayerKVCache
from minivllm.course.fixtures import poisoned
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.models.hf_config import ModelArchitecture
from minivllm.models.loader import destinations

EMBEDDING = "model.embed_tokens.weight"
FITS = "all as in the checkpoint"
LONG = (130,)  # a request longer than a window or table that one might write out
SAME_ROWS: dict[str, Any] = {
    "lengths": (6, 8),
    "first": (3, 4),
}  # two steps of 7 rows, at other positions
BLOCK_SIZE = 4
# Values that no one would write into the code by hand.
OWN_CONFIG: dict[str, Any] = {"rms_norm_eps": 0.05, "rope": RopeParameters(theta=100.0)}

_ARCH = ModelArchitecture(
    name="Qwen3ForCausalLM",
    vocab_size=13,
    hidden_size=24,
    intermediate_size=20,
    num_layers=3,
    num_heads=6,
    num_kv_heads=2,
    head_dim=8,
    rms_norm_eps=1e-6,
    rope=RopeParameters(theta=1e6),
    max_position_embeddings=512,
    tie_word_embeddings=True,
    qkv_bias=False,
    o_bias=False,
    mlp_bias=False,
    sliding_windows=(None, None, None),
    eos_token_ids=(0,),
    bos_token_id=None,
    dtype="float32",
)


def tiny_arch(**changes: Any) -> ModelArchitecture:
    """Six query heads and two KV heads of 8, which is not hidden_size / num_heads."""
    return replace(_ARCH, **changes)


@dataclass(frozen=True)
class Tiny:
    """An architecture and tensors with the names of a checkpoint."""

    arch: ModelArchitecture
    tensors: Mapping[str, Tensor]

    def __deepcopy__(self, memo: dict[int, Any]) -> Tiny:
        """Itself: its tensors are read, never handed out."""
        return self

    def __repr__(self) -> str:
        a = self.arch
        return f"hidden {a.hidden_size}, {a.num_heads} and {a.num_kv_heads} heads of {a.head_dim}"


def shapes_of_attention(arch: ModelArchitecture) -> dict[str, tuple[int, ...]]:
    """Name -> shape of the tensors below `self_attn`."""
    q, kv = arch.num_heads * arch.head_dim, arch.num_kv_heads * arch.head_dim
    rows = {"q_proj": q, "k_proj": kv, "v_proj": kv}
    shapes: dict[str, tuple[int, ...]] = {}
    for name, num_rows in rows.items():
        shapes[f"{name}.weight"] = (num_rows, arch.hidden_size)
        if arch.qkv_bias:
            shapes[f"{name}.bias"] = (num_rows,)
    shapes["o_proj.weight"] = (arch.hidden_size, q)
    if arch.o_bias:
        shapes["o_proj.bias"] = (arch.hidden_size,)
    return shapes | {"q_norm.weight": (arch.head_dim,), "k_norm.weight": (arch.head_dim,)}


def shapes_of_model(arch: ModelArchitecture) -> dict[str, tuple[int, ...]]:
    """Name -> shape of all tensors of a checkpoint."""
    hidden, inner = arch.hidden_size, arch.intermediate_size
    shapes: dict[str, tuple[int, ...]] = {EMBEDDING: (arch.vocab_size, hidden)}
    for index in range(arch.num_layers):
        layer = f"model.layers.{index}"
        own = shapes_of_attention(arch)
        shapes |= {f"{layer}.self_attn.{name}": shape for name, shape in own.items()}
        shapes |= {f"{layer}.{n}.weight": (hidden,) for n in LAYER_NORMS}
        shapes |= {f"{layer}.mlp.{n}_proj.weight": (inner, hidden) for n in ("gate", "up")}
        shapes[f"{layer}.mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    if not arch.tie_word_embeddings:
        shapes["lm_head.weight"] = (arch.vocab_size, hidden)
    return shapes


LAYER_NORMS = ("input_layernorm", "post_attention_layernorm")


def random_tensors(
    shapes: Mapping[str, tuple[int, ...]],
    gen: torch.Generator,
    scale: float = 0.3,
    dtype: torch.dtype = torch.float32,
) -> dict[str, Tensor]:
    """Random weights; those of norms lie around 1, and no two are alike."""
    tensors = {}
    for name, shape in shapes.items():
        is_norm = name.endswith("norm.weight")
        values = torch.rand(shape, generator=gen) + 0.5 if is_norm else None
        if values is None:
            values = scale * torch.randn(shape, generator=gen)
        tensors[name] = values.to(dtype)
    return tensors


def fill(module: nn.Module, tensors: Mapping[str, Tensor]) -> str:
    """Copy the tensors into the module, in their dtype; gives what does not fit, or `FITS`."""
    dtype = next(iter(tensors.values())).dtype
    targets = destinations(module if dtype == torch.float32 else module.to(dtype))
    problems = [f"{name} is in no checkpoint" for name in targets if name not in tensors]
    problems += [f"{name} is missing" for name in tensors if name not in targets]
    problems += [
        f"{name}: {list(targets[name].shape)}, not {list(tensor.shape)}"
        for name, tensor in tensors.items()
        if name in targets and targets[name].shape != tensor.shape
    ]
    if problems:
        return problems[0]
    with torch.no_grad():
        for name, tensor in tensors.items():
            targets[name].copy_(tensor)
    return FITS


@dataclass(frozen=True)
class Step:
    """What is computed at once: which rows of all tokens, and where they stand."""

    rows: list[int]
    positions: Tensor
    metadata: AttentionMetadata


def steps(lengths: tuple[int, ...], first: tuple[int, ...] | None = None) -> Iterator[Step]:
    """Requests of these lengths, in one step; or in two, the first of which computes `first`."""
    blocks = list(range(1, num_blocks(lengths)))  # given out from the end; 0 stays poisoned
    tables: list[list[int]] = [[] for _ in lengths]
    for depth in range(max(-(-length // BLOCK_SIZE) for length in lengths)):
        for table, length in zip(tables, lengths, strict=True):
            if depth * BLOCK_SIZE < length:
                table.append(blocks.pop())
    done = [0] * len(lengths)
    for ends in [lengths] if first is None else [first, lengths]:
        yield _step(lengths, tables, done, ends)
        done = list(ends)


def num_blocks(lengths: tuple[int, ...]) -> int:
    """Of the cache: as many as the requests need, and one that none may read."""
    return 1 + sum(-(-length // BLOCK_SIZE) for length in lengths)


def _step(
    lengths: tuple[int, ...], tables: list[list[int]], starts: list[int], ends: tuple[int, ...]
) -> Step:
    rows, positions, slots = [], [], []
    offset = 0
    for length, table, start, end in zip(lengths, tables, starts, ends, strict=True):
        for position in range(start, end):
            rows.append(offset + position)
            positions.append(position)
            slots.append(table[position // BLOCK_SIZE] * BLOCK_SIZE + position % BLOCK_SIZE)
        offset += length
    counts = np.array(ends, dtype=np.int32) - np.array(starts, dtype=np.int32)
    seq_lens, width = np.array(ends, dtype=np.int32), max(len(table) for table in tables)
    metadata = AttentionMetadata(
        query_start_loc=torch.tensor([0, *np.cumsum(counts).tolist()], dtype=torch.int32),
        seq_lens=torch.from_numpy(seq_lens),
        block_table=torch.tensor([t + [0] * (width - len(t)) for t in tables], dtype=torch.int32),
        slot_mapping=torch.tensor(slots),
        query_lens_host=counts,
        seq_lens_host=seq_lens,
    )
    return Step(rows, torch.tensor(positions), metadata)


def new_cache(
    arch: ModelArchitecture, lengths: tuple[int, ...], dtype: torch.dtype
) -> LayerKVCache:
    """The pages of one layer, all NaN."""
    shape = (num_blocks(lengths), BLOCK_SIZE, arch.num_kv_heads, arch.head_dim)
    return LayerKVCache(poisoned(*shape).to(dtype), poisoned(*shape).to(dtype))


def in_order(parts: list[Any], rows: list[list[int]]) -> Any:
    """The results of the steps, put back into the order of the tokens."""
    if len(parts) == 1:
        return parts[0]
    order = torch.tensor([row for step in rows for row in step]).argsort()
    return torch.cat(parts)[order]
