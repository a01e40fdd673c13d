"""A recorded step replays exactly; what a GPU's graph can't hold is refused, and explained."""

import numpy as np
import pytest
import torch
from graph_steps import STEPS, assert_same, check_decode_steps, check_replays
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from minivllm.worker.device_graph import CaptureError
from minivllm.worker.recorded_graph import RecordedGraph

MODES = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", STEPS)
def test_replay_equals_running_the_step_again(name, mode):
    with MODES[mode]():
        check_replays(RecordedGraph(), STEPS[name])


@pytest.mark.parametrize("mode", MODES)
def test_a_models_decode_steps_replay_exactly(mode):
    with MODES[mode]():
        check_decode_steps(RecordedGraph())


def test_a_graph_captured_in_inference_mode_replays_outside_of_it():
    graph, x = RecordedGraph(), torch.ones(2)
    with torch.inference_mode():
        y = graph.capture(lambda: x * 2)
    x.fill_(4)
    graph.replay()
    assert y.tolist() == [8, 8]


# Random programs: each operation takes two earlier tensors, and gives or changes one.
def _turn(a, b):
    c = a + b
    c.t_()
    return c


OPERATIONS = [
    lambda a, b: a + b,
    lambda a, b: (a @ b).tanh(),
    lambda a, b: a.t(),
    lambda a, b: a.reshape(16).view(4, 4),
    lambda a, b: a.t().reshape(16).view(4, 4),
    lambda a, b: a.clone().add_(b),
    lambda a, b: a.sub_(b.clone()).tanh_(),
    lambda a, b: a[0].copy_(b[1].clone()).expand(4, 4),
    lambda a, b: a.detach().neg_(),
    lambda a, b: torch.maximum(a, b, out=torch.empty(4, 4)),
    lambda a, b: torch.cat([a[:2], b[2:]]),
    lambda a, b: a.sort(dim=0).values,
    lambda a, b: a.where(a > b, 0.5),
    _turn,
]
NEEDS_OWN_MEMORY = (5, 6, 7, 8)  # they write where a stride of 0 must not be


def _program(choices, x, y):
    made = [x, y]
    for operation, first, second in choices:
        a, b = made[first % len(made)], made[second % len(made)]
        if operation in NEEDS_OWN_MEMORY and 0 in a.stride():
            a = a.clone()
        made.append(OPERATIONS[operation](a, b))
    return tuple(made)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, len(OPERATIONS) - 1), st.integers(0, 11), st.integers(0, 11)),
        max_size=10,
    )
)
def test_any_chain_of_views_copies_and_writes_replays_exactly(choices):
    graph, x, y = RecordedGraph(), torch.zeros(4, 4), torch.zeros(4, 4)
    outputs = graph.capture(lambda: _program(choices, x, y))
    for seed in range(2):
        torch.manual_seed(seed)
        new_x, new_y = torch.randn(4, 4), torch.randn(4, 4)
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        assert_same(outputs, _program(choices, new_x, new_y))


def test_host_values_stay_as_they_were_at_capture():
    host = {"factor": 2, "adds": True}
    graph, x = RecordedGraph(), torch.ones(2)

    def step():
        y = x * host["factor"]
        return y + 1 if host["adds"] else y

    y = graph.capture(step)
    host.update(factor=100, adds=False)
    x.fill_(5)
    graph.replay()
    assert y.tolist() == [11, 11]


def test_host_code_runs_in_the_rehearsal_and_in_the_capture_and_not_in_a_replay():
    calls = []
    graph, x = RecordedGraph(), torch.ones(2)
    graph.capture(lambda: calls.append(1) or x + 1)
    graph.replay()
    graph.replay()
    assert len(calls) == 2


def test_outputs_are_undefined_until_the_first_replay():
    graph, x = RecordedGraph(), torch.ones(2)
    y = graph.capture(lambda: x + 1)
    assert y.isnan().all()
    graph.replay()
    assert y.tolist() == [2, 2]


def test_what_the_rehearsal_made_once_is_valid_before_any_replay():
    made = {}
    graph, x = RecordedGraph(), torch.ones(2)

    def step():
        if "table" not in made:
            made["table"] = torch.arange(2.0) * 2
        return x + made["table"]

    graph.capture(step)
    assert made["table"].tolist() == [0, 2]


def test_no_gradient_is_recorded():
    x = torch.ones(2, requires_grad=True)
    assert not RecordedGraph().capture(lambda: x * 2).requires_grad


def test_two_graphs_share_an_input_and_keep_their_outputs_apart():
    x = torch.zeros(2)
    double, square = RecordedGraph(), RecordedGraph()
    doubled, squared = double.capture(lambda: x * 2), square.capture(lambda: x * x)
    x.fill_(3)
    double.replay()
    x.fill_(5)
    square.replay()
    assert (doubled.tolist(), squared.tolist()) == ([6, 6], [25, 25])


def test_a_graph_reads_what_another_wrote():
    x = torch.ones(2)
    first, second = RecordedGraph(), RecordedGraph()
    y = first.capture(lambda: x + 1)
    z = second.capture(lambda: y * 10)
    first.replay()
    second.replay()
    assert z.tolist() == [20, 20]


@pytest.mark.parametrize(
    ("step", "num_operations"),
    [
        (lambda x: x.view(-1)[1:].expand(5, 3).t(), 0),  # views move nothing
        (lambda x: torch.empty_like(x), 0),
        (lambda x: x + 1, 1),
        (lambda x: (x + 1).relu_().t() @ x, 3),
        (lambda x: F.linear(x, x), 1),
        (lambda x: x.split(1), 0),
        (lambda x: (x + 1).unsqueeze_(0), 1),
    ],
)
@pytest.mark.parametrize("mode", MODES)
def test_operations_are_counted_as_launches(step, num_operations, mode):
    with MODES[mode]():
        graph, x = RecordedGraph(), torch.ones(2, 2)
        graph.capture(lambda: step(x))
    assert graph.num_operations == num_operations


MASK = torch.tensor([True, False])
REFUSED = {
    "item": (lambda x: x.sum().item(), r"\.item\(\).* wait .*Keep it a tensor"),
    "if": (lambda x: x if x.sum() > 0 else -x, r"`if` of a tensor .* wait"),
    "float": (lambda x: float(x[0]), "wait"),
    "slice": (lambda x: x[: MASK.sum()], "wait"),
    "format": (lambda x: f"{x}", r"\.__format__\(\) of a tensor"),
    "repr": (lambda x: repr(x), r"\.__repr__\(\) of a tensor"),
    "equal": (lambda x: torch.equal(x, x), r"aten\.equal.* wait"),
    "tolist": (lambda x: x.tolist(), r"\.tolist\(\) of a tensor .* wait"),
    "numpy": (lambda x: x.numpy(), r"\.numpy\(\) of a tensor"),
    "asarray": (lambda x: np.asarray(x), "wait"),
    "cpu": (lambda x: x.cpu(), r"\.cpu\(\) of a tensor .*replay\(\)"),
    "to_cpu": (lambda x: x.to("cpu"), r'\.to\("cpu"\)'),
    "to_device_cpu": (lambda x: x.to(device="cpu"), r'\.to\("cpu"\)'),
    "nonzero": (lambda x: x.nonzero(), r"aten\.nonzero.*shape of its result .*torch\.where"),
    "where": (lambda x: torch.where(x > 0), "shape of its result"),
    "unique": (lambda x: x.unique(), "shape of its result"),
    "masked_select": (lambda x: x.masked_select(MASK), "shape of its result"),
    "mask": (lambda x: x[MASK], "boolean mask .* shape of its result .*masked_fill"),
    "mask_write": (lambda x: x.__setitem__(x < 9, x.flip(0)), "boolean mask"),
    "tensor": (lambda x: x + torch.tensor([1.0, 2.0]), r"host data .* before capture\(\)"),
    "scalar_tensor": (lambda x: x + torch.tensor(1.0), "host data"),
    "as_tensor": (lambda x: x + torch.as_tensor([1.0, 2.0]), "host data"),
    "from_numpy": (lambda x: x + torch.from_numpy(np.ones(2)), "host data"),
    "new_tensor": (lambda x: x.new_tensor([1.0]), "host data"),
    "list_index": (lambda x: x[[1, 0]], "host data"),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_a_graph_cannot_hold_is_refused_with_reason_and_remedy(name, mode):
    step, message = REFUSED[name]
    with MODES[mode]():
        graph, x = RecordedGraph(), torch.ones(2)
        with pytest.raises(CaptureError, match=message):
            graph.capture(lambda: step(x))
        with pytest.raises(CaptureError, match="its capture failed"):
            graph.replay()
        step(x)  # outside a capture all of it is fine, and nothing lingers


def test_a_failed_graph_is_of_no_use_and_the_next_one_works():
    graph, x = RecordedGraph(), torch.ones(2)

    def step():
        raise KeyError("a mistake of the step's own")

    with pytest.raises(KeyError, match="of the step's own"):
        graph.capture(step)
    with pytest.raises(CaptureError, match="needs a new one"):
        graph.capture(lambda: x + 1)
    another = RecordedGraph()
    y = another.capture(lambda: x + 1)
    another.replay()
    assert y.tolist() == [2, 2]


def test_an_error_after_some_operations_leaves_no_mode_behind():
    x, steps = torch.ones(2), iter([1.0, 0.0])

    def step():
        y = x + 1
        return y / (1 // next(steps))  # fails in the recording, not in the rehearsal

    with pytest.raises(ZeroDivisionError):
        RecordedGraph().capture(step)
    assert x.sum().item() == 2


def test_a_graph_is_captured_once():
    graph, x = RecordedGraph(), torch.ones(2)
    graph.capture(lambda: x + 1)
    with pytest.raises(CaptureError, match="needs a new one"):
        graph.capture(lambda: x + 2)
    graph.replay()  # the first capture still stands


def test_replay_needs_a_capture():
    with pytest.raises(CaptureError, match="nothing was captured yet"):
        RecordedGraph().replay()


def test_a_capture_inside_a_capture_is_refused():
    x = torch.ones(2)
    with pytest.raises(CaptureError, match="inside another capture"):
        RecordedGraph().capture(lambda: RecordedGraph().capture(lambda: x + 1))
