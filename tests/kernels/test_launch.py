"""`launch` runs a kernel, and shows it to whoever records: one operation, with what it wrote."""

import pytest
import torch

from minivllm.kernels.launch import launch  # before triton: it turns the interpreter on

# isort: split
import triton
import triton.language as tl

from minivllm.worker.device_graph import CaptureError
from minivllm.worker.recorded_graph import RecordedGraph


@triton.jit
def _add_scaled(x_ptr, y_ptr, out_ptr, size, factor, BLOCK: tl.constexpr):
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = columns < size
    y = tl.load(y_ptr + columns, mask=mask) * factor
    tl.store(out_ptr + columns, tl.load(x_ptr + columns, mask=mask) + y, mask=mask)


def add_scaled(x, y, factor):
    out = torch.empty_like(x)
    launch(_add_scaled, (triton.cdiv(len(x), 16),), x, y, out, len(x), factor, BLOCK=16)
    return out


def test_a_launch_runs_the_kernel(device):
    x, y = torch.randn(2, 37, device=device)
    torch.testing.assert_close(add_scaled(x, y, 2.0), x + y * 2.0)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_recorded_launch_is_one_operation_and_replays_exactly(device, mode):
    graph, factor = RecordedGraph(), [2.0]
    with mode():
        x, y = torch.randn(2, 37, device=device)
        out = graph.capture(lambda: add_scaled(x * 3, y, factor[0]).neg_())
        assert graph.num_operations == 3  # mul, launch, neg_
        address, factor[0] = out.data_ptr(), 5.0  # the factor is frozen
        for _ in range(2):
            x.copy_(torch.randn(37))
            y.copy_(torch.randn(37))
            graph.replay()
            assert torch.equal(out, add_scaled(x * 3, y, 2.0).neg_())
    assert out.data_ptr() == address


def test_a_launch_keeps_its_arguments_as_they_were(device):
    graph, x = RecordedGraph(), torch.randn(4, 8, device=device)

    def step():
        turned = x.clone()
        out = torch.zeros(32, device=device)
        launch(_add_scaled, (2,), turned.view(-1), turned.view(-1), out, 32, 1.0, BLOCK=16)
        turned.t_()
        return out, turned

    out, turned = graph.capture(step)
    x.copy_(torch.randn(4, 8))
    graph.replay()
    assert torch.equal(out, x.view(-1) * 2)
    assert torch.equal(turned, x.t())


def test_the_step_is_still_watched_after_a_launch(device):
    x = torch.ones(4, device=device)
    with pytest.raises(CaptureError, match=r"\.item\(\)"):
        RecordedGraph().capture(lambda: add_scaled(x, x, 1.0).sum().item())


def test_an_active_mode_of_another_kind_lets_the_launch_through(device):
    x = torch.ones(4, device=device)
    with torch.device(device):  # a mode, too
        assert add_scaled(x, x, 1.0).tolist() == [2.0] * 4
