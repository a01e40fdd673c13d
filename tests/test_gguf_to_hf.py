"""A GGUF file written as llama.cpp does becomes a folder that transformers reads as the model."""

from __future__ import annotations

import json

import pytest
import torch
from tiny_gguf import MERGES, TOKENS, write_tiny_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from minivllm.gguf_to_hf import convert_gguf
from minivllm.hub import resolve_model


@pytest.fixture(scope="module")
def converted(tmp_path_factory):
    root = tmp_path_factory.mktemp("gguf")
    original = write_tiny_gguf(root / "tiny.gguf")
    folder = root / "hf"
    folder.mkdir()
    convert_gguf(root / "tiny.gguf", folder, progress=False)
    return original, folder


def test_unquantized_weights_come_back_bit_for_bit(converted):
    original, folder = converted
    loaded = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    for name, weight in original.state_dict().items():
        if "v_proj" not in name:
            assert torch.equal(loaded[name], weight), name


def test_quantized_weights_come_back_within_half_a_step(converted):
    original, folder = converted
    loaded = AutoModelForCausalLM.from_pretrained(folder).state_dict()
    name = "model.layers.1.self_attn.v_proj.weight"
    expected = original.state_dict()[name]
    blocks = expected.reshape(-1, 32)  # Q8_0: 32 weights share one step of absmax / 127
    step = (blocks.abs().amax(1, keepdim=True) / 127).expand_as(blocks).reshape(expected.shape)
    error = (loaded[name] - expected).abs()
    assert (error <= 0.57 * step).all()  # half a step, and the step itself is stored as float16
    assert error.max() > 0  # it was quantized


def test_logits_equal_those_of_the_original_model(converted):
    original, folder = converted
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    for layer in range(2):  # the one quantized matrix is compared above
        weight = f"model.layers.{layer}.self_attn.v_proj.weight"
        loaded.get_parameter(weight).data.copy_(original.get_parameter(weight).data)
    ids = torch.randint(0, len(TOKENS), (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        torch.testing.assert_close(loaded(ids).logits, original(ids).logits)


def test_config_holds_the_short_numbers_that_were_meant(converted):
    _, folder = converted
    config = json.loads((folder / "config.json").read_text())
    assert (config["rms_norm_eps"], config["rope_theta"]) == (1e-05, 5000.0)
    assert config["tie_word_embeddings"] is True


def test_tokenizer_applies_merges_and_splits_digits(converted):
    tokenizer = AutoTokenizer.from_pretrained(converted[1])
    tokens = tokenizer.convert_ids_to_tokens(tokenizer("hello hello 42").input_ids)
    assert tokens == ["hello", "Ġhello", "Ġ", "4", "2"]
    assert tokenizer.decode(tokenizer("hello hello 42").input_ids) == "hello hello 42"
    assert len(tokenizer) == len(TOKENS)
    assert len(MERGES) == 5


def test_tokenizer_knows_its_special_tokens_and_chat_template(converted):
    tokenizer = AutoTokenizer.from_pretrained(converted[1])
    chat = [{"role": "user", "content": "hello"}]
    ids = tokenizer.apply_chat_template(chat, tokenize=True, return_dict=False)
    assert ids == [1, TOKENS.index("hello"), 2]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id) == (1, 2, 2)
    assert tokenizer.decode(ids, skip_special_tokens=True) == "hello"


def test_another_architecture_is_refused(tmp_path):
    write_tiny_gguf(tmp_path / "other.gguf", architecture="mamba")
    with pytest.raises(ValueError, match=r"general.architecture is 'mamba'; only 'llama'"):
        convert_gguf(tmp_path / "other.gguf", tmp_path, progress=False)


def test_smollm2_answers_in_transformers():
    folder = resolve_model("smollm2")
    model = AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    chat = [{"role": "user", "content": "What is the capital of France?"}]
    inputs = tokenizer.apply_chat_template(
        chat, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    output = model.generate(**inputs, max_new_tokens=16, do_sample=False)
    answer = tokenizer.decode(output[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert answer == "The capital of France is Paris."
