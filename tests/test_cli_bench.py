"""`minivllm bench`: a table on stdout, the same figures as JSON."""

from __future__ import annotations

import json

import pytest
from command_line import run_cli as run_cli  # a fixture

from minivllm.bench import cpu_engine, mixed, planner, prefix, throughput
from minivllm.bench import latency as latency_bench
from minivllm.bench.qwen3_shape import QWEN3_SHAPE
from minivllm.bench.report import Report, number_text

SMALL = {
    "throughput": ["--num-prompts", "2", "--min-len", "2", "--max-len", "4"],
    "latency": ["--batch", "1", "--batch", "2", "--input-len", "4", "--output-len", "8"],
    "prefix": ["--num-prompts", "2", "--shared", "32", "--repeats", "2"],
    "mixed": ["--decodes", "2", "--prompt-len", "24", "--budget", "16"],
}


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_prints_its_table_and_keeps_its_figures(run_cli, tmp_path, monkeypatch, name):
    monkeypatch.setenv("COLUMNS", "80")
    file = tmp_path / "figures.json"
    runs = [] if name == "prefix" else ["--runs", "2"]
    code, out, err = run_cli("bench", name, *SMALL[name], *runs, "--json", str(file))
    assert (code, err) == (0, "")
    report = json.loads(file.read_text())
    assert report["title"] in out
    assert report["settings"]["model"] == "dummy-qwen3"
    assert {"machine", "dtype", "torch", "python"} <= report["settings"].keys()
    for row in report["rows"]:
        for column, value in row.items():
            assert column in out
            if isinstance(value, dict):
                assert value["min"] <= value["median"] <= value["max"]
                assert f"{number_text(value['median'])} (" in out


def test_planner_prints_its_tables_and_keeps_its_figures(run_cli, tmp_path, monkeypatch):
    timing = {"median_us": 2.0, "min_us": 1.0, "max_us": 3.0}
    result = {"machine": "x", "step by running requests": {"16": timing}}
    monkeypatch.setattr(planner, "run_planner_benchmark", lambda *_: result)
    file = tmp_path / "figures.json"
    code, out, _ = run_cli("bench", "planner", "--json", str(file))
    assert code == 0
    assert "step by running requests" in out
    assert "2 (1 - 3)" in out
    assert json.loads(file.read_text()) == result


def test_cpu_prints_its_tables(run_cli, monkeypatch):
    spread = {"median": 2.0, "min": 1.0, "max": 3.0}
    against = {f"{name}_seconds": spread for name in ("minivllm", "transformers")}
    against |= {f"{name}_tokens_per_second": 256.0 for name in ("minivllm", "transformers")}
    times = {"step_ms": spread, "matmuls_ms": spread, "f_linear_ms": spread}
    step = {"batch_size": 8, "context": "16 prompt tokens", **times}
    result = {"machine": "x", "against_transformers": against | {"ratio": 2.5}, "decode": [step]}
    monkeypatch.setattr(cpu_engine, "run_cpu_benchmark", lambda *_: result)
    code, out, _ = run_cli("bench", "cpu")
    assert code == 0
    assert "2.50 x transformers" in out
    assert out.count("2 (1 - 3)") == 5


def test_lengths_in_the_wrong_order_are_a_usage_error(run_cli):
    code, out, err = run_cli("bench", "throughput", "--min-len", "9", "--max-len", "2")
    assert (code, out) == (2, "")
    assert "--min-len" in err


def test_a_budget_without_room_is_one_line_and_exit_code_2(run_cli):
    code, out, err = run_cli("bench", "mixed", "--decodes", "8", "--budget", "8")
    assert (code, out) == (2, "")
    assert err.startswith("minivllm: a budget of 8 tokens")


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345, "12,345"), (1234.5, "1,234"), (99.96, "100"), (12.34, "12.3"), (0.01234, "0.0123")],
)
def test_a_number_has_three_digits_or_all_before_the_point(value, text):
    assert number_text(value) == text


REPORT = Report(title="t", settings={"machine": "x"}, rows=[{"a": 1}])


@pytest.mark.parametrize(
    ("command", "module", "expected"),
    [
        (["throughput", "--workload", "w1"], throughput, throughput.W1),
        (["latency", "--workload", "w2"], latency_bench, latency_bench.W2),
        (["prefix", "--workload", "w4"], prefix, (20, 16_384, 5)),
        (["mixed", "--workload", "w5"], mixed, (32, 8192, [64, 128, 256, 512, 1024, 2048, 4096])),
    ],
)
def test_one_flag_chooses_the_workload(run_cli, monkeypatch, command, module, expected):
    calls = []
    monkeypatch.setattr(module, f"run_{command[0]}", lambda *args: calls.append(args) or REPORT)
    runs_option = "--repeats" if command[0] == "prefix" else "--runs"
    options = [runs_option, "7", "--set", "enforce_eager=true"]
    code, _, err = run_cli("bench", *command, *options)
    assert (code, err) == (0, "")
    (args,) = calls
    if isinstance(expected, tuple):
        settings, *sizes = args
        assert settings["model"] == QWEN3_SHAPE
        assert tuple(sizes[: len(expected)]) == expected
    else:
        _, model, settings, work, runs = args
        assert (model, work, runs) == (QWEN3_SHAPE, expected, 7)
    assert settings["dtype"] == "bfloat16"
    assert settings["load_format"] == "dummy"
    assert settings["enforce_eager"] is True
    if command[0] == "throughput":
        assert (settings["max_model_len"], settings["max_num_batched_tokens"]) == (4096, 16_384)


def test_a_setting_without_a_value_is_a_usage_error(run_cli):
    code, out, err = run_cli("bench", "mixed", "--set", "enforce_eager")
    assert (code, out) == (2, "")
    assert "NAME=VALUE" in err


def test_a_workload_of_another_benchmark_is_a_usage_error(run_cli):
    code, out, err = run_cli("bench", "mixed", "--workload", "w1")
    assert (code, out) == (2, "")
    assert "'w1' is not w5" in err


@pytest.mark.parametrize("name", ["kernels", "profile"])
def test_a_benchmark_of_a_gpu_says_that_there_is_none(run_cli, monkeypatch, name):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = run_cli("bench", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"minivllm: bench {name} measures a GPU, and torch")
    assert err.count("\n") == 1


def test_kernels_prints_its_tables_and_keeps_its_figures(run_cli, tmp_path, monkeypatch):
    import minivllm.kernels  # noqa: F401  # before anything imports triton
    from minivllm.bench import ceilings, kernels
    from minivllm.bench.report import Spread

    rows = [{"way": "minivllm", "launched, us": Spread(2.0, 1.0, 3.0), "x floor": ""}]
    result = {"settings": {"machine": "x"}, "tables": {"Decode": rows, "Prefill": rows}}
    monkeypatch.setattr(ceilings, "require_gpu", lambda what: None)
    monkeypatch.setattr(kernels, "run_kernels", lambda runs: result)
    file = tmp_path / "kernels.json"
    code, out, _ = run_cli("bench", "kernels", "--json", str(file))
    assert code == 0
    assert out.count("2 (1 - 3)") == 2
    kept = json.loads(file.read_text())
    assert kept["tables"]["Prefill"][0]["launched, us"] == {"median": 2.0, "min": 1.0, "max": 3.0}
