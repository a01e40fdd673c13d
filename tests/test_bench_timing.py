"""What the timers of the GPU benchmarks divide by what; the GPU's clock is a fake."""

from __future__ import annotations

import pytest
import torch

from minivllm.bench import ceilings, trial


class FakeGpu:
    """A clock that moves by `cost` seconds with each call, and by `overhead` with each replay."""

    def __init__(self, cost, overhead=0.0):
        self.now, self.cost, self.overhead, self.num_calls = 0.0, cost, overhead, 0

    def call(self):
        self.now += self.cost
        self.num_calls += 1

    def event_seconds(self, run):
        start = self.now
        run()
        return self.now - start

    def graph(self):
        gpu = self

        class Graph:
            def capture(self, step):
                self.step = step
                step()

            def replay(self):
                gpu.now += gpu.overhead
                self.step()

        return Graph()


@pytest.fixture
def gpu(monkeypatch):
    def make(cost, overhead=0.0):
        fake = FakeGpu(cost, overhead)
        monkeypatch.setattr(trial, "_event_seconds", fake.event_seconds)
        monkeypatch.setattr("minivllm.worker.device_graph.CudaGraph", fake.graph)
        return fake

    return make


@pytest.mark.parametrize("cost", [2e-6, 3e-4, 0.05])
@pytest.mark.parametrize("num_sets", [1, 3, 64])
def test_launched_time_is_that_of_one_call(gpu, cost, num_sets):
    fake = gpu(cost)
    found = trial.launched_seconds([fake.call] * num_sets, num_runs=5)
    assert [found.median, found.min, found.max] == pytest.approx([cost] * 3)
    timed = fake.num_calls / 5 * cost  # in a run, and a little more
    assert timed >= 4e-3, "too little for a clock to measure"


@pytest.mark.parametrize("cost", [2e-6, 3e-4, 0.05])
@pytest.mark.parametrize("num_sets", [1, 3, 64])
def test_graph_time_is_that_of_one_call_with_little_of_the_replay(gpu, cost, num_sets):
    fake = gpu(cost, overhead=5e-6)
    found = trial.graph_seconds([fake.call] * num_sets, num_runs=5)
    assert cost <= found.median <= cost * 1.03


def test_ceilings_count_what_is_read_and_written(monkeypatch):
    operations = []

    def seconds(operation):
        operation()
        operations.append(operation)
        return 0.5

    monkeypatch.setattr(ceilings, "_seconds", seconds)
    monkeypatch.setattr(ceilings, "_NUM_BYTES", 1 << 16)
    monkeypatch.setattr(ceilings, "_SIZE", 8)
    monkeypatch.setattr("minivllm.device.has_triton", lambda: False)
    found = ceilings.measure_ceilings(torch.device("cpu"))
    assert (found.copy, found.read, found.matmul) == (4 << 16, 2 << 16, 2 * 8**3 / 0.5)
    target, (source,) = operations[0].func.__self__, operations[0].args
    assert torch.equal(target, source)
    assert source.nbytes == 1 << 16
