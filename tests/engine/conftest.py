"""Tiny checkpoints, made once per test run and variant."""

import pytest
from checkpoints import VARIANTS, save_tiny


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory):
    """A function from the name of a variant to the folder of its checkpoint."""
    folders = {}

    def folder_of(variant):
        if variant not in folders:
            folder = tmp_path_factory.mktemp("checkpoints") / variant
            folders[variant] = save_tiny(VARIANTS[variant](), folder)
        return folders[variant]

    return folder_of
