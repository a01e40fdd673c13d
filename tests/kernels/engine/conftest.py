"""The engine on our kernels, in Triton's interpreter.

These tests stand in the group of the kernels since a process either interprets or compiles, and
transformers imports triton: so `minivllm.kernels` has to come first. With a GPU `tests/gpu` does
the same there, compiled.
"""

import minivllm.kernels  # isort: skip  # noqa: F401  before all that imports triton

import pytest
import torch
from checkpoints import VARIANTS, save_tiny

# An interpreted launch takes a millisecond for each program: few heads, few layers, few tokens.
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
}


@pytest.fixture(autouse=True)
def _is_interpreted():
    if torch.cuda.is_available():
        pytest.skip("tests/gpu runs the engine on the kernels here")


@pytest.fixture(scope="session")
def small_checkpoint(tmp_path_factory):
    """A function from the name of a variant to the folder of a very small checkpoint."""
    folders = {}

    def folder_of(variant):
        if variant not in folders:
            folder = tmp_path_factory.mktemp("small") / variant
            folders[variant] = save_tiny(VARIANTS[variant](**_SMALL), folder)
        return folders[variant]

    return folder_of
