"""`minivllm chat`: a conversation in the terminal, or with lines from a pipe.

Ctrl-C stops an answer, not the program; what was said of it stays in the conversation, as the user
has read it. `Conversation` knows no terminal.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import typer

from minivllm.cli import options as opt
from minivllm.config import DEFAULT_MODEL
from minivllm.errors import RequestError

if TYPE_CHECKING:
    from minivllm.llm import LLM
    from minivllm.sampling_params import SamplingParams

_COMMANDS = "/reset starts a new conversation, /exit or Ctrl-D ends, Ctrl-C stops an answer"
_System = Annotated[
    str | None, typer.Option("--system", metavar="TEXT", help="What the model should know first.")
]


class Conversation:
    """What was said so far.

    Attributes:
        messages: All turns that the model still sees, in the order of the chat.
    """

    def __init__(self, llm: LLM, params: SamplingParams, system: str | None = None) -> None:
        """Start without a turn.

        Raises:
            RequestError: The model can't chat.
        """
        self._llm = llm
        self._params = params
        self._opening = [] if system is None else [{"role": "system", "content": system}]
        self.messages = list(self._opening)
        self._token_ids([*self._opening, {"role": "user", "content": "Hello"}])

    def reset(self) -> None:
        """Forget all turns."""
        self.messages = list(self._opening)

    def ask(self, question: str, write: Callable[[str], None]) -> int:
        """Give the answer to `write`, piece by piece; returns how many old messages were dropped.

        However it ends, the conversation then holds what was written. If that is nothing, it does
        not hold the question either.

        Raises:
            RequestError: The question alone is too long.
        """
        turn = {"role": "user", "content": question}
        kept, token_ids = self._fit(turn)
        num_dropped = len(self.messages) - len(kept)
        answer = ""
        try:
            for piece in self._llm.stream({"prompt_token_ids": token_ids}, self._params):
                answer += piece
                write(piece)
        finally:  # after a Ctrl-C, too
            if answer:
                self.messages = [*kept, turn, {"role": "assistant", "content": answer}]
        return num_dropped

    def _fit(self, turn: dict[str, str]) -> tuple[list[dict[str, str]], list[int]]:
        """The messages to keep, and the prompt: oldest turns go until an answer has room."""
        limit = self._llm.engine.config.scheduler_config.max_model_len
        assert limit is not None, "the engine's own config has no None left"
        room = min(self._params.max_tokens or limit, limit // 4)
        kept = list(self.messages)
        token_ids = self._token_ids([*kept, turn])
        while len(token_ids) + room > limit and len(kept) > len(self._opening):
            del kept[len(self._opening) : len(self._opening) + 2]  # a question and its answer
            token_ids = self._token_ids([*kept, turn])
        return kept, token_ids

    def _token_ids(self, messages: list[dict[str, str]]) -> list[int]:
        from minivllm.engine.tokenizer import chat_token_ids

        return chat_token_ids(self._llm.get_tokenizer(), messages)


def chat(
    system: _System = None,
    max_tokens: opt.MaxTokens = 512,
    temperature: opt.Temperature = 0.6,
    top_p: opt.TopP = 0.95,
    seed: opt.Seed = None,
    model: opt.Model = DEFAULT_MODEL,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "auto",
    max_model_len: opt.MaxModelLen = None,
) -> None:
    """Talk with a model. Lines may come from a pipe, too: each gets its answer.

    /reset starts a new conversation, /exit or Ctrl-D ends. Ctrl-C stops an
    answer; what you saw of it stays in the conversation. Once the context is
    full, the oldest turns are left out.
    """
    from minivllm import LLM, SamplingParams

    params = SamplingParams(temperature=temperature, top_p=top_p, seed=seed, max_tokens=max_tokens)
    engine = {"device": device, "dtype": dtype, "load_format": load_format}
    with LLM(model, max_model_len=max_model_len, **engine) as llm:
        conversation = Conversation(llm, params, system)
        if sys.stdin.isatty():
            with suppress(ImportError):
                import readline  # noqa: F401  # gives input() a history and an editable line
            _say(f"{_COMMANDS}.\n")
        while (line := _read_line()) is not None:
            _take_turn(conversation, line.strip())


def _read_line() -> str | None:
    """The next line; `None` at the end."""
    if not sys.stdin.isatty():
        return sys.stdin.readline() or None
    try:
        if sys.stdout.isatty():
            return input("> ")
        print("> ", end="", file=sys.stderr, flush=True)
        return input()
    except EOFError:
        _say()
        return None
    except KeyboardInterrupt:
        _say("\n(Ctrl-D or /exit ends.)")
        return ""


def _take_turn(conversation: Conversation, line: str) -> None:
    is_command = line.startswith("/") and len(line.split()) == 1 and line.count("/") == 1
    if line == "/exit":
        raise typer.Exit
    if line == "/reset":
        conversation.reset()
        _say("(A new conversation.)")
    elif is_command:
        _say(f"({line} is no command: {_COMMANDS}.)")
    elif line:
        _answer(conversation, line)


def _answer(conversation: Conversation, question: str) -> None:
    try:
        num_dropped = conversation.ask(question, lambda piece: print(piece, end="", flush=True))
    except KeyboardInterrupt:
        print(flush=True)
        _say("(Stopped.)")
    except RequestError as error:
        _say(f"(Not sent: {error}.)")
    else:
        print("\n" if sys.stdin.isatty() else "", flush=True)
        if num_dropped:
            _say(f"(The context is full: the {num_dropped} oldest messages were left out.)")


def _say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)
