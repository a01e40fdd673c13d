"""stored_tensors: which tensors a checkpoint's folder holds, and in which file each one is.

Only safetensors files are opened: a header and raw numbers. The older `.bin` and `.pt` files are
pickles, and unpickling a file runs whatever code its author put there. Knows nothing of models.
Next file: `minivllm/models/loader.py`, which copies the tensors into a model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from minivllm.errors import CheckpointError, MissingShardError
from minivllm.models.json_fields import read_json_object

_SINGLE_FILE = "model.safetensors"
_INDEX_FILE = "model.safetensors.index.json"


@dataclass(frozen=True, kw_only=True)
class StoredTensor:
    """A tensor as a safetensors file describes it; nothing of it is read yet."""

    file: Path
    name: str
    shape: tuple[int, ...]
    dtype: str  # as the file format spells it: "F32", "BF16", "I8"

    def read(self) -> Tensor:
        """The tensor on the CPU, mapped from the file: no copy is made until it is used."""
        with open_safetensors(self.file) as file:
            tensor: Tensor = file.get_tensor(self.name)
            return tensor


def stored_tensors(folder: Path) -> dict[str, StoredTensor]:
    """Every tensor of the checkpoint by its name, from the header of each of its files.

    Raises:
        CheckpointError: There is no weight file, one is damaged, or a tensor is in two of them or
            not where the index says.
        MissingShardError: The index names a file that is not there.
    """
    index = _read_index(folder)
    files = sorted({folder / shard for shard in index.values()}) or [_single_file(folder)]
    found: dict[str, StoredTensor] = {}
    for path in files:
        for tensor in _header(path):
            if tensor.name in found:
                other = found[tensor.name].file.name
                raise CheckpointError(f"{tensor.name} is in two files: {other} and {path.name}")
            found[tensor.name] = tensor
    for name, shard in index.items():
        if name not in found or found[name].file != folder / shard:
            raise CheckpointError(f"{_INDEX_FILE} says that {name} is in {shard}: it is not")
    return found


@contextmanager
def open_safetensors(path: Path) -> Iterator[Any]:
    """The open file, in safetensors' own interface.

    Raises:
        CheckpointError: It is damaged or cannot be read.
    """
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            yield file
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} is damaged, incomplete or no safetensors file ({error}): fetch it again"
        ) from error


def _header(path: Path) -> Iterator[StoredTensor]:
    with open_safetensors(path) as file:
        for name in file.keys():  # noqa: SIM118  (not a dict: it has no iterator of its own)
            part = file.get_slice(name)
            yield StoredTensor(
                file=path, name=name, shape=tuple(part.get_shape()), dtype=part.get_dtype()
            )


def _read_index(folder: Path) -> dict[str, str]:
    """Tensor name -> file name; empty when the checkpoint is one file and has no index."""
    path = folder / _INDEX_FILE
    if not path.is_file():
        return {}
    weight_map = read_json_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{path} has no weight_map, which names the file of each tensor")
    for shard in sorted({str(value) for value in weight_map.values()}):
        _check_shard_name(path, shard)
        if not (folder / shard).is_file():
            raise MissingShardError(f"{shard} is named by {path}, but it is not in the folder")
    return weight_map


def _check_shard_name(index: Path, shard: str) -> None:
    """Refuse a name that leaves the folder; a file that is a symbolic link is fine (hub cache)."""
    path = PureWindowsPath(shard)  # splits at both kinds of slash, and knows drives
    if path.anchor or ".." in path.parts:
        raise CheckpointError(f"{index} points outside its folder: {shard!r}")
    if path.suffix != ".safetensors":
        raise CheckpointError(f"{index} names {shard!r}: only .safetensors files are read")


def _single_file(folder: Path) -> Path:
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder")
    files = sorted(folder.glob("*.safetensors"))
    if folder / _SINGLE_FILE in files:
        return folder / _SINGLE_FILE
    if len(files) == 1:
        return files[0]
    if files:
        names = ", ".join(path.name for path in files)
        raise CheckpointError(f"{folder} holds {names}, but no {_INDEX_FILE} that joins them")
    pickled = [path.name for kind in ("bin", "pt", "pth") for path in folder.glob(f"*.{kind}")]
    if pickled:
        raise CheckpointError(
            f"{folder} holds its weights as {pickled[0]}, a pickle, which can run code when it is "
            "opened: only safetensors files are read. Take a safetensors version of this model"
        )
    raise CheckpointError(f"{folder} holds no .safetensors file")
