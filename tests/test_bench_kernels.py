"""The kernel benchmark without a GPU: its grid, its floors, its rows, and that each trial is right.

Times come from fakes: what is tested is what is made of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

HELPERS = Path(__file__).parent / "helpers"


@pytest.fixture(scope="module")
def kernels():
    """The modules, with Triton as a process without a GPU has it."""
    import minivllm.kernels  # noqa: F401  # before anything imports triton
    from minivllm.bench import attention_trials, floors, kernels, recorded, report, small_trials

    return SimpleNamespace(
        attention=attention_trials,
        floors=floors,
        run=kernels,
        recorded=recorded,
        report=report,
        small=small_trials,
    )


def test_every_trial_compares_each_way_with_float64_and_refuses_a_wrong_one():
    run = subprocess.run(
        [sys.executable, str(HELPERS / "tiny_trials.py")],
        cwd=HELPERS.parents[1],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.splitlines()) == 9


def test_the_grid_is_that_of_the_recorded_figures(kernels):
    sizes = [(1, 1024), (1, 32_768), (8, 4096), (64, 1024), (256, 1024), (256, 4096)]
    found = [
        (str(case.heads), case.num_reqs, case.num_tokens, case.block_size)
        for case in kernels.attention.DECODE_GRID
    ]
    assert found == [
        *(("16/8", *size, block_size) for size in sizes for block_size in (16, 256)),
        *(("32/8", *size, 16) for size in [(1, 512), (16, 256), (4, 2048)]),
    ]
    prompts = [(str(case.heads), case.num_tokens) for case in kernels.attention.PREFILL_GRID]
    assert prompts == [("16/8", 1024), ("16/8", 4096), ("16/8", 16_384), ("32/8", 1024)]
    for by_size in kernels.recorded.DECODE_SPEEDS.values():
        assert list(by_size) == sizes


def test_the_small_kernels_are_those_of_qwen3(kernels):
    builds = list(kernels.small.small_trials())
    products = [build.args[1:] for build in builds if build.func is kernels.small.product_trial]
    assert len(products) == 25
    assert ("gate_up", 16, (1024, 6144)) in products
    assert {rows for _, rows, _ in products} == {1, 2, 4, 8, 16}
    assert len(builds) == 25 + 5 * 3


@pytest.mark.parametrize(
    ("num_bytes", "num_sets"), [(4 << 20, 48), (1000, 64), (4 << 30, 1), (200e6, 1), (150e6, 2)]
)
def test_input_sets_together_do_not_fit_into_the_l2_cache(kernels, num_bytes, num_sets):
    from minivllm.bench.trial import num_input_sets

    assert num_input_sets(num_bytes) == num_sets


@pytest.fixture
def ceilings(kernels):
    return kernels.floors.Ceilings(copy=4e12, read=5e12, matmul=8e14)


@pytest.fixture
def decode_trial(kernels):
    """64 requests of 1,024 tokens, without tensors."""
    from minivllm.bench.trial import Trial

    labels = {"heads": "16/8", "requests": 64, "tokens": 1024, "block": 16}
    num_bytes = 64 * 1024 * 2 * 8 * 128 * 2
    return Trial(labels=labels, num_bytes=num_bytes, ways={}, pick=None, expected=None)


def test_a_trial_counts_the_bytes_of_the_cache_and_the_causal_half(kernels):
    import torch

    heads = kernels.attention.Heads(
        num_heads=4, num_kv_heads=2, head_dim=16, device="cpu", dtype=torch.bfloat16
    )
    case = kernels.attention.Decode(heads=heads, num_reqs=3, num_tokens=20)
    assert kernels.attention.decode_trial(case, 1).num_bytes == 3 * 20 * 2 * 2 * 16 * 2
    prompt = kernels.attention.Prefill(heads=heads, num_tokens=20)
    assert kernels.attention.prefill_trial(prompt, 1).num_flops == 2 * 20**2 * 16 * 4


def test_each_request_has_blocks_of_its_own_in_shuffled_order(kernels):
    import torch

    heads = kernels.attention.Heads(
        num_heads=2, num_kv_heads=1, head_dim=16, device="cpu", dtype=torch.float32
    )
    torch.manual_seed(0)
    inputs = kernels.attention.PagedInputs(heads, 2, num_reqs=3, num_tokens=70, block_size=16)
    blocks = inputs.tables.flatten().tolist()
    assert sorted(blocks) == list(range(2 * 3 * 5))
    assert blocks != sorted(blocks)
    key, value = inputs.contiguous(1)
    assert key.shape == value.shape == (3, 1, 70, 16)
    assert torch.equal(key[2, 0, 69], inputs.caches[0][inputs.tables[1, 2, 4], 5, 0])


def test_a_row_has_speed_and_floor(kernels, ceilings, decode_trial):
    spread = kernels.report.Spread
    launched, in_graph = spread(100e-6, 90e-6, 120e-6), spread(80e-6, 79e-6, 81e-6)
    row = kernels.run.attention_row(decode_trial, "ours", launched, in_graph, ceilings)
    gigabytes = 64 * 1024 * 4096 / 1e9
    assert row["launched, us"].max == pytest.approx(120)
    assert row["GB/s launched"] == pytest.approx(gigabytes / 100e-6)
    assert row["GB/s in a graph"] == pytest.approx(gigabytes / 80e-6)
    assert row["x floor"] == pytest.approx(80e-6 * 5e12 / (gigabytes * 1e9))


def test_recorded_figures_stand_beside_the_sizes_they_were_measured_at(
    kernels, ceilings, decode_trial
):
    decode, heads = kernels.attention.Decode, kernels.attention.QWEN3_06B
    case = decode(heads=heads, num_reqs=64, num_tokens=1024)
    found = kernels.run.recorded_seconds(case, decode_trial)
    assert list(found) == ["FlashAttention 3", "FlashAttention 2"]
    same = kernels.report.Spread(*[found["FlashAttention 3"]] * 3)
    row = kernels.run.attention_row(decode_trial, "FlashAttention 3", same, None, ceilings)
    assert row["GB/s launched"] == pytest.approx(3076)
    assert (row["in a graph, us"], row["x floor"]) == ("", "")
    for other in (
        decode(heads=heads, num_reqs=64, num_tokens=1024, block_size=256),
        decode(heads=heads, num_reqs=2, num_tokens=1024),
        decode(heads=kernels.attention.MINIVLLM, num_reqs=64, num_tokens=1024),
    ):
        assert kernels.run.recorded_seconds(other, decode_trial) == {}


def test_the_run_checks_each_trial_before_it_times_it(kernels, ceilings, decode_trial, monkeypatch):
    run, spread = kernels.run, kernels.report.Spread
    log = []
    small = type(decode_trial)(
        labels={"operation": "rms_norm", "rows": 1},
        num_bytes=4e6,
        ways={"minivllm": ["ours"], "torch": ["theirs"]},
        pick=None,
        expected=None,
    )
    big = type(decode_trial)(**{**vars(decode_trial), "ways": {"minivllm": ["ours"]}})
    case = kernels.attention.Decode(heads=kernels.attention.QWEN3_06B, num_reqs=64, num_tokens=1024)

    def graph_seconds(calls, num_runs):
        log.append(("graph", *calls, num_runs))
        return spread(2e-6, 1e-6, 3e-6) if calls == ["ours"] else spread(8e-6, 7e-6, 9e-6)

    monkeypatch.setattr(run, "require_gpu", lambda what: "cpu")
    monkeypatch.setattr(run, "compile_in_parallel", lambda num: log.append("compile"))
    monkeypatch.setattr(run, "measure_ceilings", lambda device: ceilings)
    monkeypatch.setattr(run, "describe_machine", lambda *_: {"machine": "a GPU"})
    monkeypatch.setattr(run, "check", lambda trial: log.append(trial.labels))
    monkeypatch.setattr(run, "graph_seconds", graph_seconds)
    monkeypatch.setattr(run, "launched_seconds", lambda calls, num_runs: spread(4e-6, 4e-6, 5e-6))
    monkeypatch.setattr(run, "decode_trial", lambda case: big)
    monkeypatch.setattr(run, "attention_trials", lambda: iter([partial(run.decode_trial, case)]))
    monkeypatch.setattr(run, "small_trials", lambda: iter([lambda: small]))
    result = run.run_kernels(num_runs=7)
    assert log == [
        "compile", big.labels, ("graph", "ours", 7),
        small.labels, ("graph", "ours", 7), ("graph", "theirs", 7),
    ]  # fmt: skip
    ways = [row["way"] for row in result["tables"]["Decode"]]
    assert ways[0] == "minivllm"
    assert ways[1].startswith("FlashAttention 3 (recorded, H200")
    (row,) = result["tables"]["Small kernels"]
    assert row["torch / minivllm"] == 4
    assert row["floor, us"] == pytest.approx(1.0)
    assert row["x floor"] == pytest.approx(2.0)
    assert result["settings"]["read"] == "5,000 GB/s"


def test_kernels_are_compiled_by_several_processes(kernels, monkeypatch):
    started = []

    class Process:
        def __init__(self, command):
            started.append(command[1:])

        def wait(self):
            assert len(started) == 3, "none is waited for before all have begun"

    monkeypatch.setattr(kernels.run.subprocess, "Popen", Process)
    kernels.run.compile_in_parallel(3)
    assert started == [["-m", "minivllm.bench.kernels", str(i), "3"] for i in range(3)]


def test_shares_of_the_compilation_are_all_of_it(kernels, monkeypatch):
    compiled = []

    def build(number):
        ways = {"minivllm, paged": [partial(compiled.append, number)], "torch": [None]}
        return SimpleNamespace(ways=ways)

    builds = [partial(build, number) for number in range(7)]
    monkeypatch.setattr(kernels.run, "_builders", lambda: iter(builds))
    monkeypatch.setattr(kernels.run.torch.cuda, "synchronize", lambda: None)
    for index in range(3):
        kernels.run.compile_share(index, 3)
    assert sorted(compiled) == list(range(7))
