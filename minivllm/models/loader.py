"""load_weights: every parameter of a model, set exactly once from a checkpoint.

The one idea: `destinations` turns the model inside out, into a dict from each name a checkpoint
uses to the memory that tensor fills. A fused layer gives one entry per part,

    qkv_proj.weight   rows [0, q_size)          <- q_proj.weight
                      rows [q_size, + kv_size)  <- k_proj.weight
                      rows [..., + kv_size)     <- v_proj.weight

so loading is a comparison of two sets of names and a copy for each. This module knows no model
family and no file format. Next file: `minivllm/worker/worker.py`, which calls it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor, nn
from tqdm import tqdm

from minivllm.errors import CheckpointError
from minivllm.models.weight_files import StoredTensor, stored_tensors

_FLOAT_DTYPES = ("F64", "F32", "F16", "BF16")
_HEAD = "lm_head.weight"
_EMBEDDING = "model.embed_tokens.weight"
_NAMES_PER_ERROR = 10


def destinations(model: nn.Module) -> dict[str, Tensor]:
    """Name in a checkpoint -> view of the parameter that the tensor of that name fills.

    A layer with an attribute `part_rows` (part name -> its rows) stands for its parts: `qkv_proj`
    for `q_proj`, `k_proj` and `v_proj` beside it. A parameter that two layers share comes once.
    """
    found: dict[str, Tensor] = {}
    for name, parameter in model.named_parameters():
        layer_name, _, kind = name.rpartition(".")
        rows_of_part = getattr(model.get_submodule(layer_name), "part_rows", None)
        if rows_of_part is None:
            found[name] = parameter.detach()
            continue
        edges = [0, *(rows.stop for rows in rows_of_part.values())]
        starts = [rows.start for rows in rows_of_part.values()]
        assert [*starts, len(parameter)] == edges, f"the parts of {name} must cover its rows"
        parent = layer_name.rpartition(".")[0]
        for part, rows in rows_of_part.items():
            found[f"{parent}.{part}.{kind}".lstrip(".")] = parameter.detach()[rows]
    return found


def load_weights(model: nn.Module, folder: Path, progress: bool) -> None:
    """Copy a checkpoint into the model, converting to the dtype and device of each parameter.

    Names, shapes and dtypes are compared before the first copy.

    Args:
        model: Its parameters are overwritten in place.
        folder: Where the safetensors files are.
        progress: Show a bar, if it takes more than a second.

    Raises:
        CheckpointError: Files and model do not fit. One message lists everything that is missing,
            unexpected, or of a wrong shape.
    """
    targets = destinations(model)
    stored = _without_spare_tensors(stored_tensors(folder), targets)
    _check_fit(targets, stored, folder)
    bar = tqdm(stored.items(), "Loading weights", unit="tensor", delay=1, disable=not progress)
    with torch.no_grad():
        for name, tensor in bar:
            targets[name].copy_(tensor.read())


def init_dummy_weights(model: nn.Module, seed: int, std: float = 0.02) -> None:
    """Fill the model with random weights of mean 0, and its norms with 1.

    Each tensor depends on `seed` and its name in a checkpoint alone, not on the order or the
    device: a model with separate q, k and v gets the weights of one that fuses them.
    """
    with torch.no_grad():
        for name, target in destinations(model).items():
            if name.endswith("norm.weight"):
                target.fill_(1.0)
                continue
            digest = hashlib.sha256(f"{seed} {name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:4], "little"))
            values = torch.randn(
                target.shape, generator=generator, dtype=torch.float32, device="cpu"
            )
            target.copy_(values * std)


def _without_spare_tensors(
    stored: dict[str, StoredTensor], targets: dict[str, Tensor]
) -> dict[str, StoredTensor]:
    """The tensors less those a model computes itself or has under another name.

    Old checkpoints hold the rotary `inv_freq` of each layer. A model whose output head is its
    embedding (tied) needs one of the two tensors, and some files hold both.
    """
    kept = {name: t for name, t in stored.items() if not name.endswith("rotary_emb.inv_freq")}
    if _HEAD in kept and _HEAD not in targets:
        head = kept.pop(_HEAD)
        embedding = kept.setdefault(_EMBEDDING, head)
        if embedding is not head and not _equal(head, embedding):
            raise CheckpointError(
                f"{_HEAD} differs from {_EMBEDDING}, but config.json says that they are one "
                "(tie_word_embeddings): set it to false to use both"
            )
    return kept


def _equal(a: StoredTensor, b: StoredTensor) -> bool:
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return False
    as_bytes = [t.read().flatten().view(torch.uint8) for t in (a, b)]  # not all dtypes compare
    return torch.equal(*as_bytes)


def _check_fit(targets: dict[str, Tensor], stored: dict[str, StoredTensor], folder: Path) -> None:
    both = [name for name in targets if name in stored]
    problems = {
        "missing": targets.keys() - stored.keys(),
        "unexpected": stored.keys() - targets.keys(),
        "wrong shape": [
            f"{name}: {list(stored[name].shape)} in the file, {list(targets[name].shape)} in the "
            "model"
            for name in both
            if stored[name].shape != targets[name].shape
        ],
        "no float format": [
            f"{name}: {tensor.dtype}"
            for name, tensor in stored.items()
            if tensor.dtype not in _FLOAT_DTYPES
        ],
    }
    lines = [_summary(problem, names) for problem, names in problems.items() if names]
    if lines:
        raise CheckpointError("\n  ".join([f"the weights in {folder} do not fit:", *lines]))


def _summary(problem: str, names: Iterable[str]) -> str:
    ordered = sorted(names)
    text = ", ".join(ordered[:_NAMES_PER_ERROR])
    if len(ordered) > _NAMES_PER_ERROR:
        text += f" and {len(ordered) - _NAMES_PER_ERROR} more"
    return f"{problem} ({len(ordered)}): {text}"
