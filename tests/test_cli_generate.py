"""`minivllm generate`: where prompts come from, what is written where, and what a mistake is."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest
from command_line import DUMMY, Terminal
from command_line import run_cli as run_cli  # a fixture

from minivllm.hub import resolve_model
from minivllm.llm import LLM
from minivllm.trace import load_trace

TINY = [*DUMMY, "--max-tokens", "4"]


def texts_of(out):
    return [json.loads(line) for line in out.split("\n")[:-1]]


def test_no_prompt_is_a_usage_error(run_cli):
    code, out, err = run_cli("generate")
    assert (code, out) == (2, "")
    assert "no prompts" in err


def test_no_prompt_at_a_terminal_is_an_error_instead_of_a_wait():
    terminal = Terminal("generate")
    assert terminal.wait_for_exit() == 2
    assert "Missing argument" in terminal.shown


def test_an_unknown_option_is_a_usage_error(run_cli):
    assert run_cli("generate", "Hello", "--temprature", "1")[:2] == (2, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Hello", "--temperature", "-1"], "temperature=-1.0 must be"),
        (["Hello", "--top-p", "0"], "top_p=0.0 must be"),
        (["Hello", "--min-p", "2"], "min_p=2.0 must be"),
        (["Hello", "--max-tokens", "0"], "max_tokens=0 must be"),
        (["Hello", "--n", "2"], "n=2 asks for the same text"),
        (["Hello", "--stop", ""], "none of them empty"),
        (["Hello", "--device", "tpu"], "device='tpu' is unknown"),
        (["Hello", "--dtype", "int3"], "dtype='int3' is unknown"),
        (["Hello", "--block-size", "3"], "block_size=3 must be"),
        (["Hello", "--max-model-len", "4"], "max_model_len=4"),
        (["Hello", "--num-blocks", "0"], "num_blocks=0 must be"),
        ([""], "empty"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_2(run_cli, arguments, message):
    # The last of an option counts, so TINY goes first.
    code, out, err = run_cli("generate", *TINY, *arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("minivllm: ")
    assert message in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "stdin", "message"),
    [
        (["Hello", "--file", "-"], "", "not both"),
        (["--file", "/nowhere/prompts.txt"], "", "No such file"),
        (["-"], b"\xff\xfe", "not UTF-8"),
        (["-"], "\n \n", "no prompts"),
        (["Hello \udcff"], "", "not UTF-8"),
        (["Hello", "--trace", "/nowhere/trace.jsonl"], "", "does not exist"),
        (["Hello", "--logprobs", "1"], "", "--jsonl"),
    ],
)
def test_a_mistake_is_found_before_the_model_is_loaded(
    run_cli, monkeypatch, arguments, stdin, message
):
    monkeypatch.setattr(LLM, "__init__", lambda *_, **__: pytest.fail("loaded"))
    code, out, err = run_cli("generate", *arguments, stdin=stdin)
    assert (code, out) == (2, "")
    assert message in err


def test_a_model_that_is_nowhere_is_one_line_and_exit_code_1(run_cli):
    code, out, err = run_cli("generate", "Hello", "--model", "./nowhere")
    assert (code, out) == (1, "")
    assert err == "minivllm: model='./nowhere': the folder nowhere does not exist\n"


def test_a_checkpoint_without_weights_is_exit_code_1(run_cli, tmp_path):
    folder = shutil.copytree(resolve_model("dummy-qwen3"), tmp_path / "no-weights")
    code, out, err = run_cli("generate", "Hello", "--model", str(folder))
    assert (code, out) == (1, "")
    assert "no-weights" in err
    assert "Traceback" not in err


def test_chat_with_a_model_that_cannot_chat_is_exit_code_2(run_cli, tmp_path):
    folder = shutil.copytree(resolve_model("dummy-qwen3"), tmp_path / "no-template")
    (folder / "chat_template.jinja").unlink()
    code, out, err = run_cli("generate", "Hello", *TINY, "--model", str(folder), "--chat")
    assert (code, out) == (2, "")
    assert "no chat template" in err


def test_stdout_is_the_texts_in_the_order_of_the_prompts(run_cli):
    texts = [run_cli("generate", prompt, *TINY)[1] for prompt in ("One", "Two", "Three")]
    code, out, err = run_cli("generate", "One", "Two", "Three", *TINY)
    assert (code, out) == (0, "".join(texts))
    assert "3 prompts in one batch: " in err


@pytest.mark.parametrize("source", ["stdin", "dash", "file", "file dash"])
def test_prompts_come_from_lines_too(run_cli, tmp_path, source):
    lines = "\ufeffOne\r\n\n \nTwo \u2028 b\n"  # U+2028 is no end of a line
    file = tmp_path / "prompts.txt"
    file.write_bytes(lines.encode())
    place = {"stdin": [], "dash": ["-"], "file": ["--file", str(file)]}
    arguments = place.get(source, ["--file", "-"])
    stdin = "" if source == "file" else lines
    code, out, _ = run_cli("generate", "--jsonl", *TINY, *arguments, stdin=stdin)
    assert code == 0
    assert [line["prompt"] for line in texts_of(out)] == ["One", "Two \u2028 b"]


def test_jsonl_holds_what_the_api_gives(run_cli):
    code, out, _ = run_cli("generate", "Hello", "Hi", *TINY, "--jsonl", "--logprobs", "2")
    with LLM("dummy-qwen3", load_format="dummy") as llm:
        from minivllm.sampling_params import SamplingParams

        params = SamplingParams(temperature=0, max_tokens=4, logprobs=2)
        expected = llm.generate(["Hello", "Hi"], params, use_tqdm=False)
    assert code == 0
    for line, output in zip(texts_of(out), expected, strict=True):
        one = output.outputs[0]
        assert (line["prompt"], line["index"], line["text"]) == (output.prompt, 0, one.text)
        assert line["token_ids"] == list(one.token_ids)
        assert (line["finish_reason"], line["stop_reason"]) == ("length", None)
        assert line["num_prompt_tokens"] == len(output.prompt_token_ids)
        assert line["cumulative_logprob"] == pytest.approx(one.cumulative_logprob, rel=1e-4)
        for place, logprobs in zip(line["logprobs"], one.logprobs, strict=True):
            assert [each["token_id"] for each in place] == list(logprobs)


def test_each_continuation_has_its_line(run_cli):
    options = ["--n", "2", "--temperature", "1", "--seed", "3"]
    code, out, err = run_cli("generate", "One", "Two", *TINY, *options, "--jsonl")
    assert code == 0
    keys = [(line["prompt"], line["index"]) for line in texts_of(out)]
    assert keys == [("One", 0), ("One", 1), ("Two", 0), ("Two", 1)]
    assert "2 prompts in one batch: 16 tokens" in err


def test_a_stop_text_ends_the_output_and_is_named(run_cli):
    (whole,) = texts_of(run_cli("generate", "Bye bye", *TINY, "--jsonl")[1])
    stop = whole["text"][1:3]
    (line,) = texts_of(run_cli("generate", "Bye bye", *TINY, "--jsonl", "--stop", stop)[1])
    assert (line["finish_reason"], line["stop_reason"]) == ("stop", stop)
    assert line["text"] == whole["text"][: whole["text"].index(stop)]


def test_engine_options_reach_the_engine(run_cli, monkeypatch):
    class ReachedError(Exception):
        pass

    def record(self, **keywords):
        raise ReachedError(keywords)

    monkeypatch.setattr(LLM, "__init__", record)
    options = ["--max-model-len", "64", "--max-num-seqs", "3", "--max-num-batched-tokens", "32"]
    options += ["--block-size", "8", "--num-blocks", "20", "--no-prefix-caching"]
    with pytest.raises(ReachedError) as reached:
        run_cli("generate", "Hello", *DUMMY, *options, "--trace", "x.jsonl")
    assert reached.value.args[0] == {
        "model": "dummy-qwen3",
        "load_format": "dummy",
        "device": "auto",
        "dtype": "auto",
        "max_model_len": 64,
        "max_num_seqs": 3,
        "max_num_batched_tokens": 32,
        "block_size": 8,
        "num_blocks": 20,
        "enable_prefix_caching": False,
        "trace": True,
    }


def test_trace_is_written(run_cli, tmp_path):
    file = tmp_path / "trace.jsonl"
    assert run_cli("generate", "Hello", *TINY, "--trace", str(file))[0] == 0
    assert load_trace(file).step == 3


def test_a_seed_makes_sampling_repeatable(run_cli):
    def text(seed):
        options = ["--temperature", "1", "--seed", seed, "--max-tokens", "32"]
        return run_cli("generate", "Hello", *DUMMY, *options)[1]

    assert text("1") == text("1")
    assert text("1") != text("2")


def test_smollm2_says_paris(run_cli):
    question = "What is the capital of France?"
    options = ["--model", "smollm2", "--chat", "--temperature", "0"]
    code, out, _ = run_cli("generate", question, *options)
    assert (code, out) == (0, "The capital of France is Paris.\n")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_gone_is_no_noise(unbuffered):
    read_end, write_end = os.pipe()
    os.close(read_end)
    run = subprocess.run(
        [sys.executable, "-m", "minivllm.cli", "--version"],
        env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    os.close(write_end)
    assert (run.returncode, run.stderr) == (1, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has a disk that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_full_disk_behind_stdout_is_one_line(unbuffered):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [sys.executable, "-m", "minivllm.cli", "--version"],
            env=os.environ | {"PYTHONUNBUFFERED": unbuffered},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert run.returncode == 1
    assert run.stderr == "minivllm: [Errno 28] No space left on device\n"


def test_ctrl_c_ends_it_with_130_and_without_traceback():
    terminal = Terminal("generate", "Hello", *DUMMY, "--max-tokens", "2000", "--ignore-eos")
    terminal.wait_for("prompts:")  # the progress bar
    terminal.press("\x03")
    assert terminal.wait_for_exit() == 130
    assert "Traceback" not in terminal.shown
