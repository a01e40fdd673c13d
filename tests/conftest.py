"""What all tests share: helpers on the path, and the GPU marker."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "helpers"))


def pytest_collection_modifyitems(items):
    """Skip the GPU tests where torch sees no GPU; torch is only imported if there are some."""
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if not gpu_items:
        return
    import torch

    if not torch.cuda.is_available():
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))
