"""LLM.stream: pieces of text as they come, and the end of a request nobody listens to any more."""

import pytest
from checkpoints import greedy_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import speak

from minivllm import LLM, RequestError, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
PROMPT = [5, 6, 7]


def build(folder, **settings):
    keywords = {"block_size": 4, "num_blocks": 64, "max_model_len": 128, **settings}
    return LLM(str(folder), device="cpu", **keywords)


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


@pytest.fixture
def llm(folder):
    return build(folder)


def is_idle(llm):
    llm.engine.core.kv_cache_manager.check()
    return not llm.engine.has_unfinished_requests() and not llm.engine.core.scheduler.requests


@pytest.mark.parametrize("prompt", ["abc", [97, 98], {"prompt": "abc"}, {"prompt_token_ids": [1]}])
def test_the_pieces_are_the_text_that_generate_gives(llm, prompt):
    pieces = list(llm.stream(prompt, GREEDY))
    assert "".join(pieces) == llm.generate(prompt, GREEDY, use_tqdm=False)[0].output_text
    assert all(pieces)
    assert is_idle(llm)


TEXTS = {
    "emoji": "a 🙂👩‍👩‍👧 b",
    "CJK": "你好世界",
    "combining marks": "e\N{COMBINING ACUTE ACCENT} नमस्ते",
}


@pytest.mark.parametrize("name", TEXTS)
def test_characters_come_whole(llm, name):
    text = TEXTS[name]
    speak(llm, list(text.encode()))
    params = SamplingParams(temperature=0, max_tokens=len(text.encode()))
    assert list(llm.stream("x", params)) == list(text)


@settings(max_examples=25, deadline=None)
@given(data=st.binary(min_size=1, max_size=30))
def test_any_bytes_are_streamed_as_they_are_in_the_full_text(shared_llm, data):
    speak(shared_llm, list(data))
    params = SamplingParams(temperature=0, max_tokens=len(data), ignore_eos=True)
    assert "".join(shared_llm.stream("x", params)) == data.decode(errors="replace")


@pytest.fixture(scope="module")
def shared_llm(tiny_checkpoint):
    return build(tiny_checkpoint("qwen3"))


def test_a_stop_string_is_never_shown_not_even_its_beginning(llm):
    speak(llm, list(b"a<b <end> c"))
    pieces = list(llm.stream("x", SamplingParams(temperature=0, max_tokens=20, stop="<end>")))
    assert pieces == ["a", "<b", " "]


def test_a_piece_comes_before_the_next_one_is_computed(llm):
    speak(llm, list(b"abcdef"))
    stream = llm.stream("x", GREEDY)
    assert next(stream) == "a"
    assert llm.engine.core.scheduler.step == 1
    assert next(stream) == "b"
    assert llm.engine.core.scheduler.step == 2


def test_breaking_out_aborts_the_request(llm):
    speak(llm, list(b"abcdef"))
    for _ in llm.stream(PROMPT, GREEDY):
        break
    assert is_idle(llm)


@pytest.mark.parametrize("num_pieces", [0, 1, 3])
def test_closing_a_stream_aborts_the_request(llm, num_pieces):
    speak(llm, list(b"abcdef"))
    stream = llm.stream(PROMPT, GREEDY)
    for _ in range(num_pieces):
        next(stream)
    stream.close()
    assert is_idle(llm)
    assert list(stream) == []


def test_a_stream_that_is_dropped_unread_aborts_the_request(llm):
    stream = llm.stream(PROMPT, GREEDY)
    del stream
    assert is_idle(llm)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_error_in_the_users_loop_aborts_the_request(llm, error):
    speak(llm, list(b"abcdef"))

    def read():
        for _ in llm.stream(PROMPT, GREEDY):
            raise error

    with pytest.raises(error):
        read()
    assert is_idle(llm)


@pytest.mark.parametrize("error", [RuntimeError("boom"), KeyboardInterrupt()])
def test_an_error_in_a_step_ends_the_stream_and_the_next_one_works(llm, folder, error):
    executor = llm.engine.core.executor

    def fail(plan):
        del executor.execute_model
        raise error

    executor.execute_model = fail
    with pytest.raises(type(error)):
        list(llm.stream(PROMPT, GREEDY))
    assert is_idle(llm)
    expected = llm.get_tokenizer().decode(greedy_reference(folder, PROMPT, 6))
    assert "".join(llm.stream(PROMPT, GREEDY)) == expected


@pytest.mark.parametrize("prompt", ["", [], [-1], 5, None])
def test_a_bad_prompt_is_refused_before_the_first_piece(llm, prompt):
    with pytest.raises(RequestError):
        llm.stream(prompt, GREEDY)
    assert is_idle(llm)


def test_several_continuations_are_refused(llm):
    with pytest.raises(RequestError, match="n=2"):
        llm.stream(PROMPT, SamplingParams(n=2))


def test_streams_run_side_by_side(llm, folder):
    prompts = [PROMPT, [1, 2], [9]]
    decode = llm.get_tokenizer().decode
    expected = [decode(greedy_reference(folder, prompt, 6)) for prompt in prompts]
    streams, texts = [llm.stream(prompt, GREEDY) for prompt in prompts], ["", "", ""]
    for _ in range(10):
        for index, stream in enumerate(streams):
            texts[index] += next(stream, "")
    assert texts == expected
    assert is_idle(llm)


def test_a_stream_goes_on_while_generate_runs(llm, folder):
    decode = llm.get_tokenizer().decode
    stream = llm.stream(PROMPT, GREEDY)
    first = next(stream)
    (other,) = llm.generate([[1, 2]], GREEDY, use_tqdm=False)
    assert list(other.outputs[0].token_ids) == greedy_reference(folder, [1, 2], 6)
    assert first + "".join(stream) == decode(greedy_reference(folder, PROMPT, 6))


def test_a_request_of_the_engine_that_ends_while_generate_runs_is_given_by_the_next_step(
    llm, folder
):
    for request_id, is_streamed in (("a", True), ("b", False)):
        llm.engine.add_request(request_id, PROMPT, GREEDY, stream=is_streamed)
    llm.generate([[1, 2]], SamplingParams(temperature=0, max_tokens=9), use_tqdm=False)

    assert llm.engine.has_unfinished_requests()
    outputs = {output.request_id: output for output in llm.engine.step()}
    assert set(outputs) == {"a", "b"}
    for output in outputs.values():
        assert list(output.outputs[0].token_ids) == greedy_reference(folder, PROMPT, 6)
    assert is_idle(llm)


def test_a_stream_whose_request_someone_else_aborts_ends(llm):
    speak(llm, list(b"abcdef"))
    stream = llm.stream(PROMPT, GREEDY)
    first = next(stream)
    (output,) = llm.engine.abort(list(llm.engine.core.scheduler.requests))
    assert list(stream) == []
    assert output.output_text == first
    assert llm.engine.step() == []
