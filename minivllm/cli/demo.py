"""`minivllm demo`: a batch of prompts, their texts, and the speed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from minivllm.outputs import RequestOutput

CHAT_PROMPTS = (
    "Tell me a story about a dog and a red kite.",
    "Write a short story with a frog and an old boat in it.",
    "Please tell me a story about a girl called Mia and a lamp.",
)
TEXT_PROMPTS = (
    "Once upon a time",
    "One windy morning, a small mouse",
    "One night, when everybody was asleep,",
)
DUMMY_PROMPTS = ("Introduce yourself.", "List all prime numbers within 100.")
DUMMY_REPEATS = 30


def demo(
    dummy: Annotated[
        bool,
        typer.Option(
            "--dummy", metavar="", help="60 chat prompts through a small Qwen3 of random weights."
        ),
    ] = False,
) -> None:
    """Generate text for a batch of prompts and print the speed.

    The model is the one that ships with the package: it tells stories to small
    children, and nothing else.
    """
    if dummy:
        _demo_dummy()
    else:
        _demo_stories()


def _demo_stories() -> None:
    from minivllm import LLM, SamplingParams

    console = Console(highlight=False)
    params = SamplingParams(temperature=0.7, max_tokens=250, seed=7)
    with LLM() as llm:
        chats: list[Any] = [_chat_ids(llm.get_tokenizer(), prompt) for prompt in CHAT_PROMPTS]
        start = time.perf_counter()
        outputs = llm.generate([*chats, *TEXT_PROMPTS], params)
        seconds = time.perf_counter() - start
    for prompt, output in zip((*CHAT_PROMPTS, *TEXT_PROMPTS), outputs, strict=True):
        between = "\n" if prompt in CHAT_PROMPTS else ""  # an answer, or the same text going on
        _print_pair(console, prompt, between, output.output_text)
    console.print(speed(outputs, seconds), style="bold")


def _demo_dummy() -> None:
    from minivllm import LLM, SamplingParams

    console = Console(highlight=False)
    params = SamplingParams(temperature=0.6, max_tokens=256)
    with LLM("dummy-qwen3", load_format="dummy", max_model_len=512) as llm:
        prompts = [_chat_ids(llm.get_tokenizer(), prompt) for prompt in DUMMY_PROMPTS]
        start = time.perf_counter()
        outputs = llm.generate(prompts * DUMMY_REPEATS, params)
        seconds = time.perf_counter() - start
    console.print("Random weights write noise; what counts here is how they are served.\n")
    for prompt, output in zip(DUMMY_PROMPTS, outputs, strict=False):
        noise = "".join(c if c.isascii() and c.isprintable() else "." for c in output.output_text)
        _print_pair(console, prompt, "\n", noise[:70])
    console.print(speed(outputs, seconds), style="bold")


def _chat_ids(tokenizer: Any, prompt: str) -> list[int]:
    from minivllm.engine.tokenizer import chat_token_ids

    return chat_token_ids(tokenizer, [{"role": "user", "content": prompt}])


def _print_pair(console: Console, prompt: str, between: str, text: str) -> None:
    # As Text objects, square brackets are not taken for rich's markup.
    console.print(Text(prompt, style="cyan") + Text(between + text))
    console.print()


def speed(outputs: Sequence[RequestOutput], seconds: float) -> str:
    """One line: how many tokens in how much time."""
    num_tokens = sum(len(one.token_ids) for output in outputs for one in output.outputs)
    prompts = "1 prompt" if len(outputs) == 1 else f"{len(outputs)} prompts in one batch"
    per_second = num_tokens / seconds
    return f"{prompts}: {num_tokens} tokens in {seconds:.1f} s, {per_second:.0f} tokens/s"
