"""The command line: what goes to stdout, and what a mistake looks like."""

from __future__ import annotations

import shutil
import subprocess
import sys

import pytest

from minivllm import cli
from minivllm.hub import resolve_model
from minivllm.llm import LLM

DUMMY = ["--model", "dummy-qwen3", "--load-format", "dummy", "--max-tokens", "8"]


@pytest.fixture
def run(monkeypatch, capfd):
    """Run the command in this process: its exit code, stdout and stderr."""

    def run(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["minivllm", *arguments])
        with pytest.raises(SystemExit) as exit_:
            cli.main()
        return exit_.value.code or 0, *capfd.readouterr()

    return run


def test_help_names_the_commands_and_loads_no_torch():
    code = (
        "import sys; from minivllm import cli; sys.argv = ['minivllm', '--help']\n"
        "try: cli.main()\n"
        "except SystemExit as e: print(e.code, 'torch' in sys.modules, 'gguf' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(command in run.stdout for command in ("demo", "generate", "fetch"))
    assert run.stdout.splitlines()[-1] == "0 False False"


def test_no_prompt_is_a_usage_error(run):
    code, out, err = run("generate")
    assert (code, out) == (2, "")
    assert "Missing argument" in err


def test_an_unknown_option_is_a_usage_error(run):
    assert run("generate", "Hello", "--temprature", "1")[:2] == (2, "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["Hello", "--temperature", "-1"], "temperature=-1.0 must be"),
        (["Hello", "--top-p", "0"], "top_p=0.0 must be"),
        (["Hello", "--max-tokens", "0"], "max_tokens=0 must be"),
        (["Hello", "--device", "tpu"], "device='tpu' is unknown"),
        (["Hello", "--dtype", "int3"], "dtype='int3' is unknown"),
        ([""], "empty"),
    ],
)
def test_a_wrong_value_is_one_line_and_exit_code_2(run, arguments, message):
    # The last of an option counts, so DUMMY goes first.
    code, out, err = run("generate", *DUMMY, *arguments)
    assert (code, out) == (2, "")
    assert err.splitlines()[-1].startswith("minivllm: ")
    assert message in err
    assert "Traceback" not in err


def test_a_model_that_is_nowhere_is_one_line_and_exit_code_1(run):
    code, out, err = run("generate", "Hello", "--model", "./nowhere")
    assert (code, out) == (1, "")
    assert err == "minivllm: model='./nowhere': the folder nowhere does not exist\n"


def test_a_checkpoint_without_weights_is_exit_code_1(run, tmp_path):
    folder = shutil.copytree(resolve_model("dummy-qwen3"), tmp_path / "no-weights")
    code, out, err = run("generate", "Hello", "--model", str(folder))
    assert (code, out) == (1, "")
    assert "no-weights" in err
    assert "Traceback" not in err


def test_chat_with_a_model_that_cannot_chat_is_exit_code_2(run, tmp_path):
    folder = shutil.copytree(resolve_model("dummy-qwen3"), tmp_path / "no-template")
    (folder / "chat_template.jinja").unlink()
    code, out, err = run("generate", "Hello", *DUMMY, "--model", str(folder), "--chat")
    assert (code, out) == (2, "")
    assert "no chat template" in err


def test_ctrl_c_is_exit_code_130(run, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(LLM, "generate", interrupted)
    assert run("generate", "Hello", *DUMMY)[:2] == (130, "")


def test_stdout_is_the_texts_in_the_order_of_the_prompts(run):
    texts = [run("generate", prompt, *DUMMY)[1] for prompt in ("One", "Two", "Three")]
    code, out, err = run("generate", "One", "Two", "Three", *DUMMY)
    assert (code, out) == (0, "".join(texts))
    assert "3 prompts in one batch: " in err


def test_a_seed_makes_sampling_repeatable(run):
    def text(seed):
        options = ["--temperature", "1", "--seed", seed, "--max-tokens", "32"]
        return run("generate", "Hello", *DUMMY, *options)[1]

    assert text("1") == text("1")
    assert text("1") != text("2")


def test_smollm2_says_paris(run):
    question = "What is the capital of France?"
    code, out, _ = run("generate", question, "--model", "smollm2", "--chat", "--temperature", "0")
    assert (code, out) == (0, "The capital of France is Paris.\n")


def test_fetch_prints_the_folder(run):
    folder = resolve_model("smollm2")
    assert run("fetch", "smollm2")[:2] == (0, f"{folder}\n")


def test_demo_answers_and_gives_the_speed(run, monkeypatch):
    monkeypatch.setattr(cli, "_CHAT_PROMPTS", cli._CHAT_PROMPTS[:1])
    monkeypatch.setattr(cli, "_TEXT_PROMPTS", cli._TEXT_PROMPTS[1:2])
    code, out, _ = run("demo")
    assert code == 0
    assert "What is the capital of France?\nThe capital of France is Paris." in out
    assert out.splitlines()[-1].startswith("2 prompts in one batch: ")
    assert out.splitlines()[-1].endswith(" tokens/s")


def test_dummy_demo_serves_every_prompt(run, monkeypatch):
    monkeypatch.setattr(cli, "_DUMMY_REPEATS", 2)
    code, out, _ = run("demo", "--dummy")
    assert code == 0
    assert out.splitlines()[-1].startswith("4 prompts in one batch: ")
