"""What a user may get wrong, one kind after the other: a clear error, and the next call works."""

import json
import shutil

import numpy as np
import pytest
import torch
from checkpoints import greedy_reference
from transformers import AutoTokenizer

from minivllm import LLM, CheckpointError, EngineDeadError, RequestError, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
PROMPT = [5, 6, 7, 8, 9]
HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 32, "max_model_len": 64, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture
def llm(folder):
    return build(folder)


def generate(llm, prompts, params=GREEDY):
    return llm.generate(prompts, params, use_tqdm=False)


def assert_works(llm, folder):
    assert not llm.engine.has_unfinished_requests()
    llm.engine.core.kv_cache_manager.check()
    assert llm.engine.core.kv_cache_manager.usage == 0
    (output,) = generate(llm, [PROMPT])
    assert list(output.outputs[0].token_ids) == greedy_reference(folder, PROMPT, 4)


NO_PROMPTS = {
    "an iterator": iter([PROMPT]),
    "a set": {1, 2},
    "an array": np.array(PROMPT),
    "a tensor": torch.tensor(PROMPT),
    "numpy numbers": [np.int64(5), 6],
    "lists in lists": [[[5, 6]]],
    "None among ids": [PROMPT, [5, None]],
    "text among ids": [5, "a"],
    "a dict without ids": [{"prompt_token_ids": None}],
    "an empty dict": [{}],
}


@pytest.mark.parametrize("prompts", NO_PROMPTS.values(), ids=NO_PROMPTS)
def test_what_is_no_prompt_is_refused(llm, folder, prompts):
    with pytest.raises(RequestError, match=r"prompt|token id"):
        generate(llm, prompts)
    assert_works(llm, folder)


def test_text_that_no_tokenizer_can_encode_is_refused(llm):
    with pytest.raises(RequestError):
        generate(llm, ["a lone surrogate: \ud800"])


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"role": "user", "content": None}, id="content None"),
        pytest.param({"role": 3, "content": "Hello"}, id="role 3"),
    ],
)
def test_a_message_that_the_template_cannot_write_is_refused(llm, message):
    with pytest.raises(RequestError):
        llm.chat([message], GREEDY, use_tqdm=False)


@pytest.mark.parametrize("field", ["stop_token_ids", "logit_bias"])
@pytest.mark.parametrize("token_id", [320, 10**6, 10**20])
def test_token_ids_beyond_the_vocabulary_are_refused_in_any_field(llm, folder, field, token_id):
    value = {token_id: 1.0} if field == "logit_bias" else [token_id]
    params = SamplingParams(min_tokens=2, **{field: value})
    with pytest.raises(RequestError, match=rf"{field} holds {token_id}.*319"):
        generate(llm, [PROMPT], params)
    assert_works(llm, folder)


def test_an_end_of_text_id_beyond_the_vocabulary_does_no_harm(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "generation_config.json").write_text(json.dumps({"eos_token_id": [257, 5000]}))
    params = SamplingParams(temperature=0, min_tokens=3, max_tokens=4)
    (output,) = generate(build(copy), [PROMPT], params)
    assert len(output.outputs[0].token_ids) >= 3


@pytest.fixture
def foreign_tokenizer(folder, tmp_path):
    """A folder whose tokenizer knows more tokens than the model."""
    copy = shutil.copytree(folder, tmp_path / "foreign")
    tokenizer = AutoTokenizer.from_pretrained(copy)
    tokenizer.add_tokens([f"<extra-{number}>" for number in range(80)])
    tokenizer.save_pretrained(copy)
    return str(copy)


def test_a_tokenizer_of_another_model_is_noticed_in_text_and_chat(folder, foreign_tokenizer):
    llm = build(folder, tokenizer=foreign_tokenizer)
    with pytest.raises(RequestError, match="tokenizer does not fit the model"):
        generate(llm, ["<extra-79>"])
    with pytest.raises(RequestError, match="not one of the model's 320"):
        llm.chat([{"role": "user", "content": "<extra-79>"}], GREEDY, use_tqdm=False)
    assert_works(llm, folder)


@pytest.mark.parametrize("content", ["", "[]", '{"version": "1.0"}', "\0"])
def test_a_damaged_tokenizer_file_is_an_error_that_names_the_folder(folder, tmp_path, content):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=str(copy)):
        build(copy)


def test_ctrl_c_while_prompts_are_taken_in_leaves_nothing(llm, folder):
    encode, texts = llm.get_tokenizer().encode, []

    def interrupted(text, **options):
        texts.append(text)
        if len(texts) == 3:
            raise KeyboardInterrupt
        return encode(text, **options)

    llm.get_tokenizer().encode = interrupted
    with pytest.raises(KeyboardInterrupt):
        generate(llm, ["one", "two", "three", "four"])
    assert texts == ["one", "two", "three"]
    assert_works(llm, folder)


def test_ctrl_c_in_the_loop_over_a_stream_leaves_nothing(llm, folder):
    def read():
        for number, _ in enumerate(llm.stream(PROMPT, SamplingParams(max_tokens=30))):
            if number == 1:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        read()
    assert_works(llm, folder)


def test_an_error_inside_the_with_block_goes_on_and_the_engine_is_shut_down(llm):
    def use_and_fail():
        with llm:
            llm.engine.add_request("a", PROMPT, GREEDY)
            llm.engine.step()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        use_and_fail()
    with pytest.raises(EngineDeadError):
        llm.engine.step()


@pytest.mark.parametrize("num_steps", [0, 1])
def test_after_a_shutdown_in_between_every_way_in_says_so(llm, num_steps):
    llm.engine.add_request("a", PROMPT, GREEDY)
    for _ in range(num_steps):
        llm.engine.step()
    llm.shutdown()
    for call in (
        lambda: generate(llm, [PROMPT]),
        lambda: llm.chat(HELLO, GREEDY, use_tqdm=False),
        lambda: next(llm.stream(PROMPT, GREEDY)),
        lambda: llm.engine.add_request("b", PROMPT, GREEDY),
        lambda: llm.engine.step(),
    ):
        with pytest.raises(EngineDeadError, match="build a new LLM"):
            call()
    assert [output.request_id for output in llm.engine.abort("a")] == ["a"]
    assert llm.stats().num_steps == num_steps
    llm.shutdown()


@pytest.mark.parametrize(
    "field",
    [
        pytest.param({"top_k": -5}, id="top_k"),
        pytest.param({"top_p": 1.5}, id="top_p"),
        pytest.param({"temperature": "hot"}, id="temperature"),
    ],
)
def test_wrong_sampling_defaults_of_a_checkpoint_name_their_file(folder, tmp_path, field):
    copy = shutil.copytree(folder, tmp_path / "model")
    (copy / "generation_config.json").write_text(json.dumps({"do_sample": True, **field}))
    with pytest.raises(CheckpointError, match=r"generation_config.*" + next(iter(field))):
        build(copy)


LARGE = {
    "temperature": 1e300,
    "top_p": 1e-300,
    "min_p": 1e-300,
    "repetition_penalty": 1e-300,
    "logit_bias": {5: 1e300, 6: -1e300},
    "max_tokens": 2**80,
    "seed": 2**80,
}


@pytest.mark.parametrize("field", LARGE)
@pytest.mark.filterwarnings("ignore:overflow encountered in cast")
def test_numbers_that_no_array_can_hold_break_nothing(llm, folder, field):
    params = SamplingParams(**{"max_tokens": 3, "ignore_eos": True, field: LARGE[field]})
    (output,) = generate(llm, [PROMPT], params)
    assert all(0 <= token_id < 320 for token_id in output.outputs[0].token_ids)
    assert_works(llm, folder)


def test_a_top_k_beyond_64_bits_is_all_tokens(llm):
    generate(llm, [PROMPT], SamplingParams(top_k=2**80, max_tokens=1))
