"""A script written for vLLM's offline API runs after one change: the name in its import."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest
import torch
from checkpoints import VARIANTS, greedy_reference, load_reference, save_tiny

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "tests" / "data" / "vllm_offline_example.py"


def run_script(model, folder):
    """The lines that the script prints, by name."""
    source = SCRIPT.read_text()
    assert source.count("from vllm import") == source.count("vllm import") == 1
    moved = folder / "moved.py"
    moved.write_text(source.replace("from vllm import", "from minivllm import"))
    result = subprocess.run(
        [sys.executable, str(moved), str(model)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    lines = defaultdict(list)
    for line in result.stdout.splitlines():
        entry = json.loads(line)
        lines[entry["name"]].append(entry)
    return lines


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vllm") / "model"
    return save_tiny(VARIANTS["qwen3"](), folder, seed=7)  # it writes a text of some variety


@pytest.fixture(scope="module")
def lines(checkpoint, tmp_path_factory):
    return run_script(checkpoint, tmp_path_factory.mktemp("script"))


@pytest.fixture(scope="module")
def expected(checkpoint):
    """Greedy tokens of the script's first prompt, cut at the end of text."""
    return greedy_reference(checkpoint, list(b"The capital of France is"), 8)


def test_greedy_answers_are_those_of_transformers(lines, expected):
    assert lines["greedy"][0]["token_ids"] == expected
    assert [line["prompt"] for line in lines["greedy"]] == [
        "The capital of France is",
        "The capital of Italy is",
    ]
    assert all(line["finished"] for line in lines["greedy"])


def test_prompts_and_parameters_can_be_given_in_each_form(lines, expected):
    assert [len(line["token_ids"]) for line in lines["each"]] == [2, 4]
    assert lines["one prompt"][0]["token_ids"] == expected[:3]
    assert lines["token ids"][0]["token_ids"] == expected
    assert lines["token ids"][0]["prompt"] is None


def test_stop_strings_cut_the_text(lines):
    text = lines["greedy"][0]["text"]
    (cut,), (kept,) = lines["stop"], lines["stop kept"]
    assert cut["stop_reason"] == kept["stop_reason"] == text[2:4]
    assert cut["finish_reason"] == "stop"
    assert cut["text"] == text[: text.index(text[2:4])]
    assert kept["text"] == cut["text"] + text[2:4]


def test_continuations_repeat_with_their_seed(lines):
    assert [line["index"] for line in lines["n"]] == [0, 1, 2]
    tokens = [line["token_ids"] for line in lines["n"]]
    assert tokens == [line["token_ids"] for line in lines["n again"]]
    assert tokens[0] != tokens[1]


def test_penalties_bias_and_bans_are_taken(lines):
    (line,) = lines["penalties"]
    assert len(line["token_ids"]) >= 2
    assert 5 not in line["token_ids"]


def test_logprobs_are_those_of_transformers(lines, checkpoint, expected):
    prompt = list(b"The capital of France is")
    with torch.inference_mode():
        logits = load_reference(checkpoint)(torch.tensor([prompt])).logits[0, -1]
    first = lines["logprobs"][0]
    assert first["logprob"] == pytest.approx(float(logits.log_softmax(-1)[expected[0]]), abs=1e-3)
    assert [line["rank"] for line in lines["logprobs"]] == [1, 1]
    assert first["num_entries"] == 2
    total = sum(line["logprob"] for line in lines["logprobs"])
    assert first["cumulative"] == pytest.approx(total)
    assert (first["num_prompt_rows"], first["first_prompt_row"]) == (len(prompt), None)


def test_conversations_are_answered(lines):
    (single,) = lines["chat"]
    assert len(lines["chats"]) == 2
    assert single["num_prompt_tokens"] > len("What is the capital of France?")
    for line in lines["chats"]:
        assert line["token_ids"] == single["token_ids"][:4]


def test_the_real_model_answers_the_scripts_questions(tmp_path):
    lines = run_script("smollm2", tmp_path)
    assert lines["greedy"][0]["text"].startswith(" Paris")
    assert "Paris" in lines["chat"][0]["text"]
    assert "Rome" not in lines["penalties"][0]["text"]
