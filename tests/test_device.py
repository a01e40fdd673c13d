"""What crosses to a device, and where kernels run."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from minivllm import device
from minivllm.device import has_triton, to_device, uses_kernels

CPU = torch.device("cpu")


def test_what_crossed_no_longer_follows_the_array():
    array = np.arange(4)
    tensor = to_device(array, CPU)
    array[:] = 9
    assert tensor.tolist() == [0, 1, 2, 3]


def test_a_field_of_records_and_a_column_cross_without_their_gaps():
    records = np.zeros(3, np.dtype([("a", np.float32), ("b", np.int64)]))
    records["a"] = [1, 2, 3]
    table = np.arange(6).reshape(3, 2)
    assert to_device(records["a"], CPU).tolist() == [1, 2, 3]
    assert to_device(table[:, 1], CPU).is_contiguous()
    assert to_device(table[:0], CPU).shape == (0, 2)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.bool_])
def test_the_dtype_stays(dtype):
    array = np.ones(2, dtype)
    assert to_device(array, CPU).numpy().dtype == array.dtype


def test_kernels_run_on_a_gpu_with_triton_only(monkeypatch):
    for is_cuda in (False, True):
        for is_installed in (False, True):
            monkeypatch.setattr(device, "has_triton", lambda found=is_installed: found)
            assert uses_kernels(SimpleNamespace(is_cuda=is_cuda)) == (is_cuda and is_installed)


@pytest.mark.parametrize(("spec", "found"), [(None, False), (object(), True)])
def test_triton_is_looked_for_once_and_not_imported(monkeypatch, spec, found):
    asked = []
    monkeypatch.setattr(device, "find_spec", lambda name: asked.append(name) or spec)
    has_triton.cache_clear()
    try:
        assert [has_triton(), has_triton()] == [found, found]
        assert asked == ["triton"]
    finally:
        has_triton.cache_clear()


@pytest.mark.gpu
def test_a_gpu_copies_by_itself():
    gpu, array = torch.device("cuda"), np.arange(5)
    torch.cuda.set_sync_debug_mode("error")
    try:
        tensor = to_device(array, gpu)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    array[:] = 9
    assert tensor.tolist() == [0, 1, 2, 3, 4]
    assert tensor.is_cuda
