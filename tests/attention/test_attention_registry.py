"""Backends by name."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch

from minivllm.attention import registry
from minivllm.attention.backend import AttentionBackend
from minivllm.attention.reference import ReferenceAttention
from minivllm.attention.registry import attention_backend
from minivllm.attention.sdpa import SdpaAttention
from minivllm.errors import ConfigError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


class FakeTriton(ReferenceAttention):
    """What stands for `TritonAttention`: importing that one would decide how Triton runs here."""


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Whether Triton is installed, and whether it interprets, as the test says."""
    common = SimpleNamespace(IS_INTERPRETED=True)
    modules = {
        "minivllm.kernels": SimpleNamespace(common=common),
        "minivllm.kernels.common": common,
        "minivllm.attention.triton": SimpleNamespace(TritonAttention=FakeTriton),
    }
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    state = SimpleNamespace(is_installed=True, common=common)
    monkeypatch.setattr(registry, "has_triton", lambda: state.is_installed)
    return state


@pytest.mark.parametrize(
    ("name", "kind"),
    [("auto", SdpaAttention), ("sdpa", SdpaAttention), ("reference", ReferenceAttention)],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_name_chooses_the_backend(
    name: str, kind: type[AttentionBackend], dtype: torch.dtype
) -> None:
    assert type(attention_backend(name, CPU, dtype)) is kind


def test_unknown_name_is_refused_with_the_list() -> None:
    message = "'flash' is unknown: use one of auto, reference, sdpa, triton"
    with pytest.raises(ConfigError, match=message):
        attention_backend("flash", CPU, torch.float32)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_triton_runs_on_a_cpu_in_the_interpreter(
    triton: SimpleNamespace, dtype: torch.dtype
) -> None:
    assert type(attention_backend("triton", CPU, dtype)) is FakeTriton


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["auto", "triton"])
def test_triton_is_what_a_gpu_takes(triton: SimpleNamespace, name: str, dtype: torch.dtype) -> None:
    triton.common.IS_INTERPRETED = False
    assert type(attention_backend(name, CUDA, dtype)) is FakeTriton


def test_a_gpu_without_triton_takes_sdpa_unless_triton_is_asked_for(
    triton: SimpleNamespace,
) -> None:
    triton.is_installed = False
    assert type(attention_backend("auto", CUDA, torch.float32)) is SdpaAttention
    with pytest.raises(ConfigError, match="needs the package triton"):
        attention_backend("triton", CUDA, torch.float32)


@pytest.mark.parametrize(
    ("device", "dtype", "is_interpreted", "message"),
    [
        (CPU, torch.float32, False, "set TRITON_INTERPRET=1 before Python starts, or use 'sdpa'"),
        (CPU, torch.bfloat16, True, "can't run in bfloat16 on a CPU.*use dtype='float32'"),
        (CUDA, torch.float32, True, "TRITON_INTERPRET=1 is set: unset it"),
    ],
)
def test_triton_is_refused_where_it_would_not_run_or_not_be_right(
    triton: SimpleNamespace,
    device: torch.device,
    dtype: torch.dtype,
    is_interpreted: bool,
    message: str,
) -> None:
    triton.common.IS_INTERPRETED = is_interpreted
    with pytest.raises(ConfigError, match=message):
        attention_backend("triton", device, dtype)
