"""Where the kernels run, and memory that shows what was never written.

With a GPU these tests run there, compiled. Without one `minivllm.kernels` turns Triton's
interpreter on; a process is one or the other for good. So the tests in `compiled/`, which compile
kernels for GPUs that are not there, are left out unless they are asked for by name. So are those in
`engine/`: they run the whole engine, which is not made for jaxtyping's hook.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

SEPARATE = [Path(__file__).parent / name for name in ("compiled", "engine")]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    named = [Path(config.invocation_params.dir, arg.split("::")[0]) for arg in config.args]
    is_named = any(collection_path in (path, *path.parents) for path in named)
    return True if collection_path in SEPARATE and not is_named else None  # None: pytest decides


@pytest.fixture
def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def _new_memory_is_nan() -> Iterator[None]:
    """What `torch.empty` gives is filled with NaN: a kernel that skips an element is found out."""
    assert torch.utils.deterministic.fill_uninitialized_memory, "PyTorch's default, part two of it"
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Deterministic behavior was enabled")  # of cuBLAS
        yield
    torch.use_deterministic_algorithms(False)
