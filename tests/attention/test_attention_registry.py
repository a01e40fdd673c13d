"""Backends by name."""

from __future__ import annotations

import pytest
import torch

from minivllm.attention.backend import AttentionBackend
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.registry import attention_backend
from minivllm.attention.sdpa import SdpaAttention
from minivllm.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "kind"),
    [("auto", SdpaAttention), ("sdpa", SdpaAttention), ("reference", ReferenceAttention)],
)
def test_name_chooses_the_backend(name: str, kind: type[AttentionBackend]) -> None:
    assert type(attention_backend(name, torch.device("cpu"))) is kind


def test_unknown_name_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError, match="'flash' is unknown: use one of auto, reference, sdpa"):
        attention_backend("flash", torch.device("cpu"))
