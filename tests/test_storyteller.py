"""The checkpoint that ships: its form, the same numbers as in transformers, and its stories."""

from __future__ import annotations

import json
import re

import pytest
import torch
from checkpoints import greedy_reference, load_reference
from safetensors import safe_open

from minivllm import LLM, SamplingParams
from minivllm.config import DEFAULT_MODEL
from minivllm.hub import resolve_model

FOLDER = resolve_model(DEFAULT_MODEL)
CONFIG = json.loads((FOLDER / "config.json").read_text())
HEROES = ("dog", "frog", "girl", "bear", "mouse", "farmer", "cat", "owl", "boy", "rabbit")
THINGS = ("red kite", "old boat", "lamp", "cake", "small drum")
REQUESTS = [
    f"Tell me a story about {a}{hero} and {b}{thing}."
    for hero in HEROES
    for thing in THINGS
    for a, b in [("an " if hero[0] in "aeiou" else "a ", "an " if thing[0] in "aeiou" else "a ")]
]


@pytest.fixture(scope="module")
def llm():
    with LLM() as llm:
        yield llm


def chat(request):
    return [{"role": "user", "content": request}]


def test_it_is_small_and_its_shape_is_instructive():
    assert sum(file.stat().st_size for file in FOLDER.iterdir()) <= 16e6
    assert CONFIG["architectures"] == ["Qwen3ForCausalLM"]
    heads, kv_heads = CONFIG["num_attention_heads"], CONFIG["num_key_value_heads"]
    assert heads // kv_heads >= 2
    assert CONFIG["head_dim"] != CONFIG["hidden_size"] // heads
    assert CONFIG["tie_word_embeddings"] is True
    assert CONFIG["max_position_embeddings"] >= 512
    assert 4_000 <= CONFIG["vocab_size"] <= 8_192


def test_its_query_and_key_norms_were_trained():
    with safe_open(FOLDER / "model.safetensors", "pt") as file:
        norms = [file.get_tensor(n) for n in file.keys() if "q_norm" in n or "k_norm" in n]  # noqa: SIM118
        assert {t.dtype for t in map(file.get_tensor, file.keys())} == {torch.bfloat16}
    assert len(norms) == 2 * CONFIG["num_hidden_layers"]
    assert all((norm.float() - 1).abs().max() > 0.05 for norm in norms)


def test_logits_are_those_of_transformers(llm):
    """By way of the log-probabilities of a whole prompt, each token's and its best rival's."""
    reference = load_reference(FOLDER)
    for request in REQUESTS[::10]:
        text = llm.get_tokenizer().apply_chat_template(
            chat(request), tokenize=False, add_generation_prompt=True
        )
        ids = llm.get_tokenizer()(text + "Once upon a time there was a").input_ids
        with torch.inference_mode():
            expected = reference(torch.tensor([ids])).logits[0].log_softmax(-1)
        params = SamplingParams(max_tokens=1, temperature=0, prompt_logprobs=5)
        (output,) = llm.generate([{"prompt_token_ids": ids}], params, use_tqdm=False)
        for position, row in enumerate(output.prompt_logprobs[1:]):
            for token_id, logprob in row.items():
                assert logprob.logprob == pytest.approx(
                    expected[position, token_id].item(), abs=1e-4
                )


def test_twenty_prompts_give_the_greedy_tokens_of_transformers(llm):
    prompts = [f"Once upon a time there was a {hero}" for hero in HEROES]
    prompts += [f"One day, a {thing} lay by the road." for thing in THINGS]
    ids = [llm.get_tokenizer()(prompt).input_ids for prompt in prompts]
    ids += [
        llm.get_tokenizer().apply_chat_template(
            chat(request), add_generation_prompt=True, return_dict=False
        )
        for request in REQUESTS[::10]
    ]
    params = SamplingParams(temperature=0, max_tokens=60)
    outputs = llm.generate([{"prompt_token_ids": i} for i in ids], params, use_tqdm=False)
    assert len(outputs) == 20
    for prompt, output in zip(ids, outputs, strict=True):
        found = list(output.outputs[0].token_ids)
        assert found == greedy_reference(FOLDER, prompt, len(found))
        assert len(found) == 60 or found[-1] in (0, 2)  # the ends of a text and of a turn


def test_it_answers_with_a_story_about_what_was_asked_for(llm):
    params = SamplingParams(temperature=0.8, max_tokens=250, seed=1)
    outputs = llm.chat([chat(request) for request in REQUESTS], params, use_tqdm=False)
    both = ended = 0
    for request, output in zip(REQUESTS, outputs, strict=True):
        hero, thing = re.match(r".*about an? (\w+) and an? (.*)\.", request).groups()
        both += hero in output.output_text and thing.split()[-1] in output.output_text
        ended += output.outputs[0].finish_reason == "stop"
    assert both >= 0.6 * len(REQUESTS)
    assert ended >= 0.9 * len(REQUESTS)


def test_it_goes_on_with_a_text(llm):
    (output,) = llm.generate(["Once upon a time"], SamplingParams(temperature=0, max_tokens=200))
    assert re.match(r"(,| there (was|lived)) an? \w+ ", output.output_text)
    assert output.outputs[0].finish_reason == "stop"
    assert re.search(r"[.!]\"?$", output.output_text)
