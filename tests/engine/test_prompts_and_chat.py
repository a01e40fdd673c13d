"""Prompts and conversations with a tokenizer that begins each text with a token of its own."""

import json
import shutil

import pytest
from checkpoints import greedy_reference
from scripted import speak

from minivllm import LLM, RequestError, SamplingParams

BOS = 256  # <|endoftext|>
GREEDY = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True)
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONVERSATION = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello"},
    {"role": "assistant", "content": "Hi."},
    {"role": "user", "content": "Why?"},
]


@pytest.fixture(scope="module")
def bos_folder(tiny_checkpoint, tmp_path_factory):
    """A checkpoint whose tokenizer puts a BOS before every text, and whose template writes one."""
    folder = shutil.copytree(tiny_checkpoint("llama"), tmp_path_factory.mktemp("bos") / "model")
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    bos = {"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [bos, {"Sequence": {"id": "A", "type_id": 0}}],
        "special_tokens": {
            "<|endoftext|>": {"id": "<|endoftext|>", "ids": [BOS], "tokens": ["<|endoftext|>"]}
        },
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["bos_token"] = "<|endoftext|>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 128, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture
def llm(bos_folder):
    return build(bos_folder)


def prompt_of(outputs):
    return list(outputs[0].prompt_token_ids)


def test_raw_text_gets_the_tokenizers_own_bos(llm):
    assert prompt_of(llm.generate("ab", GREEDY, use_tqdm=False)) == [BOS, 97, 98]


def test_token_ids_are_taken_as_they_are(llm):
    assert prompt_of(llm.generate([[97, 98]], GREEDY, use_tqdm=False)) == [97, 98]


def test_an_empty_text_with_a_bos_is_a_prompt_of_one_token(llm, bos_folder):
    outputs = llm.generate("", GREEDY, use_tqdm=False)
    assert prompt_of(outputs) == [BOS]
    assert list(outputs[0].outputs[0].token_ids) == greedy_reference(bos_folder, [BOS], 4)


@pytest.mark.parametrize("length", [1, 3, 4])
def test_a_conversation_has_exactly_one_bos(llm, length):
    messages = CONVERSATION[:length]
    ids = prompt_of(llm.chat(messages, GREEDY, use_tqdm=False))
    rendered = llm.get_tokenizer().apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=False
    )
    assert ids == list(rendered)
    assert ids[0] == BOS
    assert ids.count(BOS) == 1


def test_a_conversation_goes_on_turn_by_turn(llm):
    messages, lengths = [], []
    speak(llm, [*b"ok", 258])
    for question in ("one", "two", "three"):
        messages.append({"role": "user", "content": question})
        (output,) = llm.chat(messages, SamplingParams(temperature=0), use_tqdm=False)
        assert (output.output_text, output.outputs[0].finish_reason) == ("ok", "stop")
        messages.append({"role": "assistant", "content": output.output_text})
        lengths.append(output.metrics.num_cached_tokens)
    assert lengths[0] == 0
    assert lengths == sorted(set(lengths))  # each turn finds what the one before computed


def test_a_conversation_can_be_streamed_by_its_token_ids(llm):
    from minivllm.engine.tokenizer import chat_token_ids

    ids = chat_token_ids(llm.get_tokenizer(), CONVERSATION)
    pieces = llm.stream({"prompt_token_ids": ids}, GREEDY)
    assert "".join(pieces) == llm.chat(CONVERSATION, GREEDY, use_tqdm=False)[0].output_text


def test_a_conversation_longer_than_the_context_is_refused_with_both_numbers(llm):
    messages = [{"role": "user", "content": "x" * 200}]
    with pytest.raises(RequestError, match=r"\d+ tokens.*max_model_len=128"):
        llm.chat(messages, GREEDY, use_tqdm=False)
    assert not llm.engine.has_unfinished_requests()


@pytest.mark.parametrize("num_messages", [0, 1])
def test_conversations_in_one_call_are_all_served_or_none(llm, num_messages):
    broken = [*CONVERSATION[:num_messages], {"role": "user"}]
    with pytest.raises(RequestError, match="message"):
        llm.chat([CONVERSATION, broken], GREEDY, use_tqdm=False)
    assert not llm.engine.has_unfinished_requests()


def test_no_conversation_gives_no_output(llm):
    with pytest.raises(RequestError, match="empty"):
        llm.chat([[]], GREEDY, use_tqdm=False)
    assert llm.chat([], GREEDY, use_tqdm=False) == []


# Ends of text: from config.json, generation_config.json and the tokenizer.


@pytest.mark.parametrize("eos", [257, 270, 271, 258])
def test_each_end_of_text_id_ends_a_request_unless_ignored(tiny_checkpoint, tmp_path, eos):
    folder = shutil.copytree(tiny_checkpoint("qwen3"), tmp_path / "model")  # config.json: 257
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [270, 271]}))
    llm = build(folder)  # its tokenizer: 258
    speak(llm, [97, 98, eos, 99])

    stopped = llm.generate("x", SamplingParams(max_tokens=4), use_tqdm=False)[0].outputs[0]
    assert (stopped.text, list(stopped.token_ids)) == ("ab", [97, 98, eos])
    assert (stopped.finish_reason, stopped.stop_reason) == ("stop", None)

    params = SamplingParams(max_tokens=4, ignore_eos=True)
    ignored = llm.generate("x", params, use_tqdm=False)[0].outputs[0]
    assert (ignored.text, ignored.finish_reason) == ("abc", "length")


def test_no_end_of_text_before_min_tokens(tiny_checkpoint):
    llm = build(tiny_checkpoint("qwen3"))
    speak(llm, [97, 258])
    params = SamplingParams(max_tokens=10, min_tokens=3)
    completion = llm.generate("x", params, use_tqdm=False)[0].outputs[0]
    assert list(completion.token_ids) == [97, 258, 97, 258]


# What only the vocabulary can tell.


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"logit_bias": {5: 1.0, 320: 1.0}}, "logit_bias holds 320"),
        ({"stop_token_ids": [320]}, "stop_token_ids holds 320"),
    ],
)
def test_token_ids_beyond_the_vocabulary_are_refused(llm, params, message):
    with pytest.raises(RequestError, match=message):
        llm.generate("x", SamplingParams(**params), use_tqdm=False)
    assert not llm.engine.has_unfinished_requests()


def requests_of(llm, **params):
    llm.engine.add_request("a", "x", SamplingParams(**params))
    return list(llm.engine.core.scheduler.requests.values())


def test_bad_words_become_tokens_without_bos_and_without_their_space(llm):
    (request,) = requests_of(llm, bad_words=["ab", " c", "é", " "])
    assert [list(ids) for ids in request.bad_words_token_ids] == [
        [97, 98],
        [99],
        list("é".encode()),
        [32],
    ]


def test_bad_words_that_the_tokenizer_writes_with_their_space_are_banned_in_both_spellings():
    with LLM("smollm2", max_model_len=64, num_blocks=8, load_format="dummy") as llm:
        (request,) = requests_of(llm, bad_words=["cat"])
        tokenizer = llm.get_tokenizer()
        texts = [tokenizer.decode(ids) for ids in request.bad_words_token_ids]
    assert texts == ["cat", " cat"]


def test_bad_words_of_a_tokenizer_that_does_not_fit_are_refused(llm):
    llm.get_tokenizer().add_tokens([f"<extra-{number}>" for number in range(80)])
    with pytest.raises(RequestError, match="bad_words"):
        llm.generate("x", SamplingParams(bad_words=["<extra-79>"]), use_tqdm=False)
