"""Checkpoints that the kernels can run, and the helpers of the kernel tests."""

import sys
from pathlib import Path

import pytest
from checkpoints import VARIANTS, save_tiny

sys.path.insert(0, str(Path(__file__).parents[1] / "kernels"))  # for `kernel_cases`


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory):
    """A function from the name of a variant to the folder of its checkpoint, heads of 16."""
    folders = {}

    def folder_of(variant):
        if variant not in folders:
            config = VARIANTS[variant]()
            # A GPU's matrix unit adds up 16 products at a time.
            config.hidden_size = 16 * config.num_attention_heads
            if getattr(config, "head_dim", None) is not None:
                config.head_dim = 16
            folders[variant] = save_tiny(config, tmp_path_factory.mktemp("gpu") / variant)
        return folders[variant]

    return folder_of
