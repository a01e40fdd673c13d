"""`minivllm bench`: a table on stdout, the same figures as JSON."""

from __future__ import annotations

import json

import pytest
from command_line import run_cli as run_cli  # a fixture

from minivllm.bench import cpu_engine, planner
from minivllm.cli.bench import _number

SMALL = {
    "throughput": ["--num-prompts", "2", "--min-len", "2", "--max-len", "4"],
    "latency": ["--batch", "1", "--batch", "2", "--input-len", "4", "--output-len", "2"],
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
                assert f"{_number(value['median'])} (" in out


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
    assert _number(value) == text
