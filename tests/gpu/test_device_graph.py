"""A CUDA graph does what `tests/worker/test_recorded_graph.py` asks of the recorder."""

import pytest
import torch
from graph_steps import STEPS, TinyDecoder, assert_same, check_decode_steps, check_replays

from minivllm.worker.device_graph import CaptureError, CudaGraph
from minivllm.worker.recorded_graph import RecordedGraph

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),  # some steps fail at once
]

GRAPHS = {"cuda": CudaGraph, "recorded": RecordedGraph}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", STEPS)
def test_replay_equals_running_the_step_again(name, graph):
    check_replays(GRAPHS[graph](), STEPS[name], "cuda")


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_models_decode_steps_replay_exactly(mode, graph):
    with mode():
        check_decode_steps(GRAPHS[graph](), "cuda")


def test_host_values_stay_as_they_were_at_capture():
    host = {"factor": 2, "calls": 0}
    graph, x = CudaGraph(), torch.ones(2, device="cuda")

    def step():
        host["calls"] += 1
        return x * host["factor"]

    y = graph.capture(step)
    host["factor"] = 100
    x.fill_(5)
    graph.replay()
    assert (y.tolist(), host["calls"]) == ([10, 10], 2)


def test_the_rehearsal_is_carried_out_and_the_capture_is_not():
    graph, x = CudaGraph(), torch.zeros(2, device="cuda")
    graph.capture(lambda: x.add_(1))
    assert x.tolist() == [1, 1]
    graph.replay()
    assert x.tolist() == [2, 2]


def test_graphs_of_one_pool_share_an_input_and_the_memory_in_between():
    pool, decoder = torch.cuda.graph_pool_handle(), TinyDecoder("cuda")
    graphs = [CudaGraph(pool) for _ in range(8)]
    logits = [graphs[0].capture(decoder.step)]
    reserved = torch.cuda.memory_reserved()
    logits += [graph.capture(decoder.step) for graph in graphs[1:]]
    assert torch.cuda.memory_reserved() <= reserved + 4 * 2**20

    decoder.fill(0)
    for graph in graphs:
        graph.replay()
    expected = decoder.step()
    for found in logits:
        assert_same(found, expected)


REFUSED = {
    "item": lambda x: x.sum().item(),
    "if": lambda x: x if x.sum() > 0 else -x,
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to_cpu": lambda x: x.to("cpu"),
    "nonzero": lambda x: x.nonzero(),
    "mask": lambda x: x[x > 0],
    "mask_write": lambda x: x.__setitem__(x < 9, x.flip(0)),
    "tensor": lambda x: x + torch.tensor([1.0, 2.0], device=x.device),
    "list_index": lambda x: x[[1, 0]],
    "equal": lambda x: torch.equal(x, x.clone()),
    "repr": lambda x: repr(x),
}


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("name", REFUSED)
def test_what_the_recorder_refuses_cuda_refuses_too_and_the_process_is_fine(name, graph):
    x, stream = torch.ones(2, device="cuda"), torch.cuda.current_stream()
    failed = GRAPHS[graph]()
    with pytest.raises(CaptureError):
        failed.capture(lambda: REFUSED[name](x))
    with pytest.raises(CaptureError, match="its capture failed"):
        failed.replay()
    assert torch.cuda.current_stream() == stream
    check_replays(GRAPHS[graph](), STEPS["linear"], "cuda")
    REFUSED[name](x)


def test_an_error_of_the_step_is_passed_on_and_the_process_is_fine():
    x, steps = torch.ones(2, device="cuda"), iter([1, 0])
    with pytest.raises(ZeroDivisionError):
        CudaGraph().capture(lambda: x + 1 // next(steps))
    check_replays(CudaGraph(), STEPS["attention"], "cuda")


def test_a_capture_inside_a_capture_is_refused():
    x = torch.ones(2, device="cuda")
    with pytest.raises(CaptureError, match="inside another capture"):
        CudaGraph().capture(lambda: CudaGraph().capture(lambda: x + 1))
    check_replays(CudaGraph(), STEPS["softmax"], "cuda")


def test_a_graph_is_captured_once_and_before_it_is_replayed():
    graph, x = CudaGraph(), torch.ones(2, device="cuda")
    with pytest.raises(CaptureError, match="nothing was captured yet"):
        graph.replay()
    graph.capture(lambda: x + 1)
    with pytest.raises(CaptureError, match="needs a new one"):
        graph.capture(lambda: x + 2)
