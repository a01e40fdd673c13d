"""`minivllm chat`: what the model sees of the conversation, and what Ctrl-C leaves of it."""

from __future__ import annotations

import shutil
from contextlib import suppress

import pytest
from command_line import DUMMY, Terminal
from command_line import run_cli as run_cli  # a fixture

from minivllm.cli.chat import Conversation
from minivllm.engine.tokenizer import chat_token_ids
from minivllm.errors import RequestError
from minivllm.hub import resolve_model
from minivllm.llm import LLM
from minivllm.sampling_params import SamplingParams

GREEDY = SamplingParams(temperature=0, max_tokens=4)
LIMIT = 160


@pytest.fixture(scope="module")
def llm():
    with LLM("dummy-qwen3", load_format="dummy", max_model_len=LIMIT) as llm:
        yield llm


@pytest.fixture
def prompts(llm, monkeypatch):
    """The prompts that the engine gets, as token ids."""
    seen = []
    stream = llm.stream

    def record(prompt, params):
        seen.append(prompt["prompt_token_ids"])
        return stream(prompt, params)

    monkeypatch.setattr(llm, "stream", record)
    return seen


def ask(conversation, question):
    pieces = []
    num_dropped = conversation.ask(question, pieces.append)
    return "".join(pieces), num_dropped


def turn(role, content):
    return {"role": role, "content": content}


def test_the_model_sees_all_turns(llm, prompts):
    conversation = Conversation(llm, GREEDY, system="Be brief.")
    answer, _ = ask(conversation, "One")
    ask(conversation, "Two")
    opening = [turn("system", "Be brief."), turn("user", "One")]
    second = [*opening, turn("assistant", answer), turn("user", "Two")]
    tokenizer = llm.get_tokenizer()
    assert prompts == [chat_token_ids(tokenizer, opening), chat_token_ids(tokenizer, second)]


def test_answer_is_what_chat_gives(llm):
    expected = llm.chat([turn("user", "Hello")], GREEDY, use_tqdm=False)[0].output_text
    assert expected
    assert ask(Conversation(llm, GREEDY), "Hello") == (expected, 0)


def test_reset_forgets_all_but_the_system_message(llm):
    conversation = Conversation(llm, GREEDY, system="Be brief.")
    ask(conversation, "One")
    conversation.reset()
    assert conversation.messages == [turn("system", "Be brief.")]


def test_oldest_turns_go_when_the_context_is_full(llm, prompts):
    conversation = Conversation(llm, GREEDY, system="Be brief.")
    dropped = [ask(conversation, f"Question {number}?")[1] for number in range(6)]
    assert dropped[0] == 0
    assert set(dropped[1:]) <= {0, 2}
    assert sum(dropped) > 0
    assert all(len(prompt) + 4 <= LIMIT for prompt in prompts)
    roles = [message["role"] for message in conversation.messages]
    assert roles == ["system", *["user", "assistant"] * (len(roles) // 2)]
    assert conversation.messages[-2] == turn("user", "Question 5?")
    assert len(prompts[-1]) + 40 > LIMIT  # no more than needed


def test_a_question_that_is_too_long_is_refused_and_changes_nothing(llm):
    conversation = Conversation(llm, GREEDY)
    ask(conversation, "One")
    before = list(conversation.messages)
    with pytest.raises(RequestError, match=f"max_model_len={LIMIT}"):
        ask(conversation, "x" * LIMIT)
    assert conversation.messages == before
    assert ask(conversation, "Two")[0]


def test_what_was_said_before_ctrl_c_stays(llm):
    conversation = Conversation(llm, SamplingParams(temperature=0, max_tokens=30))
    pieces = []

    def write(piece):
        pieces.append(piece)
        if len(pieces) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        conversation.ask("Bye bye", write)
    said = "".join(pieces)
    assert conversation.messages == [turn("user", "Bye bye"), turn("assistant", said)]
    assert ask(conversation, "Go on")[0]


def test_an_interrupted_answer_leaves_no_request_behind(llm):
    def interrupt(_):
        raise KeyboardInterrupt

    with suppress(KeyboardInterrupt):
        Conversation(llm, GREEDY).ask("Bye bye", interrupt)
    assert not llm.engine.has_unfinished_requests()


def test_a_question_without_an_answer_is_dropped(llm, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(llm, "stream", interrupted)
    conversation = Conversation(llm, GREEDY)
    with pytest.raises(KeyboardInterrupt):
        ask(conversation, "One")
    assert conversation.messages == []


CHAT = ["chat", *DUMMY, "--max-tokens", "4", "--temperature", "0"]


def test_each_line_of_a_pipe_gets_an_answer_on_stdout(run_cli, llm):
    conversation = Conversation(llm, GREEDY)
    expected = [ask(conversation, "Bye bye")[0], ask(conversation, "Two")[0]]
    code, out, err = run_cli(*CHAT, stdin="Bye bye\n\n  Two")
    assert (code, err) == (0, "")
    assert out == f"{expected[0]}\n{expected[1]}\n"


def test_commands_are_not_sent(run_cli, monkeypatch):
    sent = []
    monkeypatch.setattr(
        Conversation, "ask", lambda self, question, write: sent.append(question) or 0
    )
    lines = "One\n/reset\n/etc/hosts is what?\n/rest\n/exit\nTwo\n"
    code, _, err = run_cli(*CHAT, stdin=lines)
    assert (code, sent) == (0, ["One", "/etc/hosts is what?"])
    assert "A new conversation" in err
    assert "/rest is no command" in err


def test_a_long_line_is_refused_and_the_next_is_answered(run_cli):
    code, out, err = run_cli(*CHAT, "--max-model-len", "100", stdin=f"{'x' * 200}\nBye bye\n")
    assert code == 0
    assert len(out.splitlines()) == 1
    assert "max_model_len=100" in err


def test_bytes_that_are_no_utf8_are_no_crash(run_cli):
    code, out, err = run_cli(*CHAT, stdin=b"caf\xe9\n")
    assert (code, err) == (0, "")
    assert out.endswith("\n")


def test_a_full_context_is_said(run_cli):
    code, out, err = run_cli(*CHAT, "--max-model-len", "100", stdin="Bye bye\n" * 6)
    assert code == 0
    assert out.count("\n") == 6
    assert "oldest messages were left out" in err


def test_a_model_that_cannot_chat_is_exit_code_2(run_cli, tmp_path):
    folder = shutil.copytree(resolve_model("dummy-qwen3"), tmp_path / "no-template")
    (folder / "chat_template.jinja").unlink()
    code, out, err = run_cli(*CHAT, "--model", str(folder), stdin="Hello\n")
    assert (code, out) == (2, "")
    assert "no chat template" in err


def test_ctrl_c_stops_the_answer_and_not_the_program():
    terminal = Terminal("chat", *DUMMY, "--max-tokens", "2000", "--temperature", "0")
    terminal.wait_for("> ")
    terminal.press("Bye bye\n")
    terminal.wait_for("Bye bye\r\n")  # the terminal's echo
    terminal.wait_for_any()  # the answer begins
    terminal.press("\x03")
    terminal.wait_for("(Stopped.)")
    terminal.wait_for("> ")
    terminal.press_until("\x03", "Ctrl-D or /exit ends")
    terminal.press("/reset\n")
    terminal.wait_for("(A new conversation.)")
    terminal.end_input()
    assert terminal.wait_for_exit() == 0
    assert "Traceback" not in terminal.shown
