"""`minivllm trace`: a file becomes a timeline, figures, or JSON for Perfetto."""

from __future__ import annotations

import json

import pytest
from command_line import run_cli as run_cli  # a fixture

from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams
from minivllm.trace import Trace, chrome_trace, load_trace, save_trace, timeline


@pytest.fixture(scope="module")
def trace_file(tmp_path_factory):
    file = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    with LLM("dummy-qwen3", load_format="dummy", max_model_len=64, trace=True) as llm:
        llm.generate(["One", "Three"], SamplingParams(max_tokens=3), use_tqdm=False)
        save_trace(llm.trace, file)
    return file


def test_timeline_is_the_default(run_cli, trace_file):
    expected = timeline(load_trace(trace_file)) + "\n"
    assert run_cli("trace", str(trace_file)) == (0, expected, "")


def test_each_output_is_written_and_named_on_stderr(run_cli, trace_file, tmp_path):
    figure, pool, perfetto = (tmp_path / name for name in ("a.png", "b.svg", "c.json"))
    options = ["--figure", str(figure), "--pool", str(pool), "--perfetto", str(perfetto)]
    code, out, err = run_cli("trace", str(trace_file), *options)
    assert (code, out) == (0, "")
    assert figure.read_bytes().startswith(b"\x89PNG")
    assert "<svg" in pool.read_text()
    assert perfetto.read_text() == json.dumps(chrome_trace(load_trace(trace_file))) + "\n"
    assert [line.partition(":")[0] for line in err.splitlines()] == [
        str(file) for file in (figure, pool, perfetto)
    ]


def test_timeline_can_be_asked_for_as_well(run_cli, trace_file, tmp_path):
    options = ["--timeline", "--perfetto", str(tmp_path / "c.json")]
    code, out, _ = run_cli("trace", str(trace_file), *options)
    assert code == 0
    assert out.startswith("step")


def test_a_damaged_file_is_one_line_and_exit_code_1(run_cli, tmp_path):
    file = tmp_path / "trace.jsonl"
    file.write_text('{"minivllm_trace": 1')
    code, out, err = run_cli("trace", str(file))
    assert (code, out) == (1, "")
    assert err.startswith(f"minivllm: {file}, line 1: ")
    assert len(err.splitlines()) == 1


def test_an_unknown_kind_of_figure_is_one_line_and_exit_code_1(run_cli, trace_file, tmp_path):
    code, out, err = run_cli("trace", str(trace_file), "--figure", str(tmp_path / "a.xyz"))
    assert (code, out) == (1, "")
    assert err.startswith("minivllm: ")
    assert "xyz" in err


def test_a_trace_without_a_step_has_no_figure(run_cli, tmp_path):
    file = tmp_path / "trace.jsonl"
    save_trace(Trace(num_blocks=1, block_size=1), file)
    code, _, err = run_cli("trace", str(file), "--figure", str(tmp_path / "a.png"))
    assert code == 1
    assert "nothing ran" in err


def test_no_such_file_is_a_usage_error(run_cli):
    code, out, err = run_cli("trace", "/nowhere/trace.jsonl")
    assert (code, out) == (2, "")
    assert "does not exist" in err
