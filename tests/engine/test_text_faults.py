"""What goes wrong on the text side, or between it and the core, costs no other request a token."""

import pytest
from checkpoints import greedy_reference
from interrupt import InterruptError, interrupt_after
from scripted import speak

from minivllm import LLM, SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=6, ignore_eos=True)
PROMPTS = [[5, 6, 7, 8, 9, 10, 11], [1, 2, 3], [9, 8]]


@pytest.fixture
def folder(tiny_checkpoint):
    return tiny_checkpoint("qwen3")


@pytest.fixture
def llm(folder):
    return LLM(str(folder), device="cpu", block_size=4, num_blocks=32, max_model_len=64)


def fail_on(llm, bad_token_id, error):
    """Let the tokenizer fail to decode one token."""
    decode = type(llm.get_tokenizer()).decode

    def failing(token_ids, **options):
        if bad_token_id in token_ids:
            raise error
        return decode(llm.get_tokenizer(), token_ids, **options)

    llm.get_tokenizer().decode = failing


def is_idle(llm):
    llm.engine.core.kv_cache_manager.check()
    return not llm.engine.has_unfinished_requests() and llm.engine.core.kv_cache_manager.usage == 0


def test_generate_passes_the_tokenizers_error_on_and_the_next_call_works(llm, folder):
    fail_on(llm, ord("x"), RuntimeError("no such token"))
    speak(llm, b"abxab")
    with pytest.raises(RuntimeError, match="no such token"):
        llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert is_idle(llm)
    speak(llm, b"ab")
    outputs = llm.generate(PROMPTS, GREEDY, use_tqdm=False)
    assert [output.output_text for output in outputs] == ["ababab"] * 3


def test_a_tokenizer_that_always_fails_leaves_nothing_behind(llm):
    llm.get_tokenizer().decode = None
    for stop in (None, "x"):
        with pytest.raises(TypeError):
            llm.generate(PROMPTS, SamplingParams(stop=stop), use_tqdm=False)
        assert is_idle(llm)
    with pytest.raises(TypeError):
        list(llm.stream(PROMPTS[0], GREEDY))
    assert is_idle(llm)


@pytest.mark.parametrize("bad", ["0", "1", "2"])
def test_only_the_request_that_has_no_text_is_aborted(llm, bad):
    fail_on(llm, ord("x"), RuntimeError("no such token"))
    speak(llm, {name: b"abxabc" if name == bad else b"uvw" for name in "012"})
    for name, prompt in zip("012", PROMPTS, strict=True):
        llm.engine.add_request(name, prompt, GREEDY)
    outputs, num_errors = {}, 0
    while llm.engine.has_unfinished_requests():
        try:
            outputs.update({output.request_id: output for output in llm.engine.step()})
        except RuntimeError:
            num_errors += 1
    assert num_errors == 1
    texts = {name: (o.output_text, o.outputs[0].finish_reason) for name, o in outputs.items()}
    good = {name: ("uvwuvw", "length") for name in "012" if name != bad}
    assert texts == {**good, bad: ("ab", "abort")}
    assert is_idle(llm)


def test_a_stream_ends_if_its_text_fails_in_the_call_of_another(llm):
    stream = llm.stream(PROMPTS[0], GREEDY)
    speak(llm, b"abx")
    assert next(stream) == "a"
    fail_on(llm, ord("x"), RuntimeError("no such token"))
    with pytest.raises(RuntimeError, match="no such token"):
        llm.generate([PROMPTS[1]], SamplingParams(max_tokens=2, temperature=0), use_tqdm=False)
    assert "".join(stream) == "b"
    assert is_idle(llm)


@pytest.mark.parametrize("is_streamed", [True, False])
@pytest.mark.parametrize("first_line", [0, 10, 20, 30, 40])
def test_a_step_of_the_planner_interrupted_anywhere_loses_no_token(
    llm, folder, first_line, is_streamed
):
    """Also where tokens were entered already, or had ended their request."""
    expected = [greedy_reference(folder, prompt, 6) for prompt in PROMPTS]
    for num_lines in range(first_line, 400, 50):
        for name, prompt in zip("012", PROMPTS, strict=True):
            llm.engine.add_request(name, prompt, GREEDY, stream=is_streamed)
        outputs = {}
        for step in range(100):
            if not llm.engine.has_unfinished_requests():
                break
            try:
                with interrupt_after(num_lines if step % 2 else 10**9):
                    got = llm.engine.step()
            except InterruptError:
                continue
            outputs.update({output.request_id: output for output in got})
        tokens = [list(outputs[name].outputs[0].token_ids) for name in "012"]
        assert tokens == expected
        assert all(output.finished for output in outputs.values())
        assert is_idle(llm)


def test_ctrl_c_while_text_is_made_loses_nothing(llm):
    speak(llm, b"abcdef")
    llm.engine.add_request("a", PROMPTS[0], GREEDY)
    fail_on(llm, ord("c"), KeyboardInterrupt())
    llm.engine.step()
    llm.engine.step()
    with pytest.raises(KeyboardInterrupt):
        llm.engine.step()
    del llm.get_tokenizer().decode
    while llm.engine.has_unfinished_requests():
        (output,) = llm.engine.step()
    assert output.output_text == "abcdef"
    assert output.finished


def test_abort_ends_every_request_even_if_no_text_can_be_made(llm):
    speak(llm, b"\xc3\xa9")  # one letter in two tokens: after the first, half of it is held
    streams = [llm.stream(prompt, GREEDY) for prompt in PROMPTS]
    llm.engine.advance()
    llm.get_tokenizer().decode = None
    with pytest.raises(TypeError):
        llm.engine.abort(list(llm.engine.core.scheduler.requests))
    assert [list(stream) for stream in streams] == [[], [], []]
    assert is_idle(llm)
