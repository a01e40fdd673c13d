import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from minivllm.errors import CheckpointError, MissingShardError
from minivllm.models.weight_files import stored_tensors

A, B = torch.arange(6.0).reshape(2, 3), torch.ones(4, dtype=torch.bfloat16)


def write_index(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


@pytest.fixture
def two_shards(tmp_path: Path) -> Path:
    save_file({"a": A}, tmp_path / "one.safetensors")
    save_file({"b": B}, tmp_path / "two.safetensors")
    write_index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    return tmp_path


@pytest.mark.parametrize("name", ["model.safetensors", "weights-of-another-name.safetensors"])
def test_single_file_needs_no_index(name: str, tmp_path: Path) -> None:
    save_file({"a": A, "b": B}, tmp_path / name)
    found = stored_tensors(tmp_path)
    assert {n: (t.file.name, t.shape, t.dtype) for n, t in found.items()} == {
        "a": (name, (2, 3), "F32"),
        "b": (name, (4,), "BF16"),
    }
    assert torch.equal(found["a"].read(), A)
    assert torch.equal(found["b"].read(), B)


def test_index_joins_the_shards(two_shards: Path) -> None:
    found = stored_tensors(two_shards)
    assert {n: t.file.name for n, t in found.items()} == {
        "a": "one.safetensors",
        "b": "two.safetensors",
    }
    assert torch.equal(found["b"].read(), B)


def test_other_formats_of_the_same_model_beside_it_are_left_alone(tmp_path: Path) -> None:
    save_file({"a": A}, tmp_path / "model.safetensors")
    save_file({"x": A}, tmp_path / "consolidated.safetensors")
    (tmp_path / "pytorch_model.bin").write_bytes(b"never opened")
    assert list(stored_tensors(tmp_path)) == ["a"]


def test_shards_may_be_links_out_of_the_folder_as_in_the_hub_cache(two_shards: Path) -> None:
    blobs = two_shards / "blobs"
    blobs.mkdir()
    snapshot = two_shards / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    for name in ("one.safetensors", "two.safetensors", "model.safetensors.index.json"):
        (two_shards / name).rename(blobs / name)
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    assert set(stored_tensors(snapshot)) == {"a", "b"}


def test_missing_shard_is_named(two_shards: Path) -> None:
    (two_shards / "two.safetensors").unlink()
    with pytest.raises(MissingShardError, match=r"two\.safetensors"):
        stored_tensors(two_shards)
    with pytest.raises(FileNotFoundError, match=r"two\.safetensors"):
        stored_tensors(two_shards)


@pytest.mark.parametrize(
    "shard",
    [
        "../one.safetensors",
        "sub/../../one.safetensors",
        "/tmp/one.safetensors",
        "..\\one.safetensors",
        "C:\\one.safetensors",
        "\\\\host\\share\\one.safetensors",
    ],
)
def test_index_that_leaves_its_folder_is_refused(shard: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    save_file({"a": A}, tmp_path / "one.safetensors")
    write_index(folder, {"a": shard})
    with pytest.raises(CheckpointError, match="outside its folder") as error:
        stored_tensors(folder)
    assert repr(shard) in str(error.value)
    assert "index.json" in str(error.value)


@pytest.mark.parametrize("shard", ["pytorch_model-1.bin", "", ".", "one", 3, None, ["x"]])
def test_index_that_names_no_safetensors_file_is_refused(shard: object, two_shards: Path) -> None:
    write_index(two_shards, {"a": "one.safetensors", "b": shard})
    with pytest.raises(CheckpointError, match=r"only \.safetensors"):
        stored_tensors(two_shards)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": [1]}'])
def test_damaged_index_is_named(content: str, two_shards: Path) -> None:
    (two_shards / "model.safetensors.index.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"index\.json"):
        stored_tensors(two_shards)


@pytest.mark.parametrize(
    "weight_map",
    [
        {"a": "one.safetensors", "b": "one.safetensors"},
        {"b": "one.safetensors", "a": "two.safetensors"},
    ],
    ids=["nowhere", "in another shard"],
)
def test_tensor_that_is_not_where_the_index_says_is_named(
    weight_map: dict[str, str], two_shards: Path
) -> None:
    write_index(two_shards, weight_map)
    with pytest.raises(CheckpointError, match=r"b is in one\.safetensors"):
        stored_tensors(two_shards)


def test_tensor_in_two_shards_is_named_with_both(two_shards: Path) -> None:
    save_file({"a": A, "b": B}, two_shards / "two.safetensors")
    with pytest.raises(CheckpointError, match=r"a is in two files: one\.\S+ and two\."):
        stored_tensors(two_shards)


DAMAGES = {
    "empty": lambda raw: b"",
    "only the header's length": lambda raw: raw[:8],
    "cut in the header": lambda raw: raw[:30],
    "cut in the numbers": lambda raw: raw[:-1],
    "longer": lambda raw: raw + b"\0",
    "header not JSON": lambda raw: raw[:8] + b"\xff" * (len(raw) - 8),
    "pointer file of git-lfs": lambda raw: b"version https://git-lfs.github.com/spec/v1\n",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_file_is_named(damage: Any, two_shards: Path) -> None:
    path = two_shards / "two.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CheckpointError, match=r"two\.safetensors is damaged"):
        stored_tensors(two_shards)


class LeavesATrace:
    """A pickle that creates a file when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["pytorch_model.bin", "model.pt", "weights.pth"])
def test_pickled_weights_are_refused_and_never_opened(name: str, tmp_path: Path) -> None:
    trace = tmp_path / "it ran"
    (tmp_path / name).write_bytes(pickle.dumps(LeavesATrace(trace)))
    with pytest.raises(CheckpointError, match="only safetensors") as error:
        stored_tensors(tmp_path)
    assert name in str(error.value)
    assert not trace.exists()


def test_folder_without_weights_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"holds no \.safetensors") as error:
        stored_tensors(tmp_path)
    assert str(tmp_path) in str(error.value)
    with pytest.raises(CheckpointError, match="is not a folder"):
        stored_tensors(tmp_path / "none")


def test_several_files_without_index_are_refused(two_shards: Path) -> None:
    (two_shards / "model.safetensors.index.json").unlink()
    with pytest.raises(CheckpointError, match=r"one\.safetensors, two\.safetensors"):
        stored_tensors(two_shards)
