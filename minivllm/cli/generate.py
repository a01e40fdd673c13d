"""`minivllm generate`: prompts in, texts or JSON Lines out.

Next file to read: `chat.py`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from minivllm.cli import options as opt
from minivllm.cli.demo import speed
from minivllm.config import DEFAULT_MODEL

if TYPE_CHECKING:
    from minivllm.outputs import CompletionOutput, RequestOutput
    from minivllm.sampling_params import SamplingParams
    from minivllm.trace import Trace

_Prompts = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROMPT", show_default=False, help="Texts; none, or - : lines of standard input."
    ),
]
_File = Annotated[
    Path | None,
    typer.Option("--file", metavar="FILE", help="Take the prompts from here, one a line."),
]
_Chat = Annotated[
    bool, typer.Option("--chat", metavar="", help="Send each prompt as a chat message.")
]
_Jsonl = Annotated[
    bool, typer.Option("--jsonl", metavar="", help="Write a JSON object for each text.")
]
_TraceFile = Annotated[
    Path | None,
    opt.output_file("Write every decision of the engine here: see minivllm trace.", "--trace"),
]


def generate(
    prompts: _Prompts = None,
    file: _File = None,
    chat: _Chat = False,
    jsonl: _Jsonl = False,
    trace: _TraceFile = None,
    max_tokens: opt.MaxTokens = 128,
    temperature: opt.Temperature = 0.0,
    top_p: opt.TopP = 1.0,
    top_k: opt.TopK = 0,
    min_p: opt.MinP = 0.0,
    repetition_penalty: opt.RepetitionPenalty = 1.0,
    seed: opt.Seed = None,
    n: opt.NumContinuations = 1,
    stop: opt.Stop = None,
    ignore_eos: opt.IgnoreEos = False,
    logprobs: opt.Logprobs = None,
    model: opt.Model = DEFAULT_MODEL,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "auto",
    max_model_len: opt.MaxModelLen = None,
    max_num_seqs: opt.MaxNumSeqs = 256,
    max_num_batched_tokens: opt.MaxNumBatchedTokens = None,
    block_size: opt.BlockSize = 16,
    num_blocks: opt.NumBlocks = None,
    no_prefix_caching: opt.NoPrefixCaching = False,
) -> None:
    """Continue each PROMPT, all in one batch, and write the texts in their order.

    Blank lines of a file are left out.
    """
    if logprobs is not None and not jsonl:
        raise typer.BadParameter("they are only written with --jsonl", param_hint="--logprobs")
    texts = _read_prompts(prompts or [], file)
    from minivllm.sampling_params import SamplingParams

    sampling: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "top_k": top_k}
    sampling |= {"min_p": min_p, "repetition_penalty": repetition_penalty, "seed": seed, "n": n}
    sampling |= {"max_tokens": max_tokens, "stop": stop, "ignore_eos": ignore_eos}
    params = SamplingParams(**sampling, logprobs=logprobs)
    engine: dict[str, Any] = {"model": model, "device": device, "dtype": dtype}
    engine |= {"load_format": load_format, "max_model_len": max_model_len}
    engine |= {"max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens}
    engine |= {"block_size": block_size, "num_blocks": num_blocks}
    engine |= {"enable_prefix_caching": not no_prefix_caching}
    outputs, events, seconds = _run(texts, params, engine | {"trace": trace is not None}, chat)
    for text, output in zip(texts, outputs, strict=True):
        for completion in output.outputs:
            print(_json_line(text, output, completion) if jsonl else completion.text)
    print(speed(outputs, seconds), file=sys.stderr)
    if trace is not None and events is not None:
        from minivllm.trace import save_trace

        save_trace(events, trace)


def _read_prompts(arguments: Sequence[str], file: Path | None) -> list[str]:
    """The prompts, wherever they are.

    Raises:
        typer.BadParameter: There are none, or they can't be read.
    """
    if file is not None:
        if arguments:
            raise typer.BadParameter("give prompts or a file, not both", param_hint="--file")
        return _lines_of(file)
    if list(arguments) == ["-"] or (not arguments and not sys.stdin.isatty()):
        return _lines_of(Path("-"))
    if not arguments:
        raise typer.BadParameter("Missing argument: give at least one.", param_hint="PROMPT...")
    for prompt in arguments:
        if any("\ud800" <= character <= "\udfff" for character in prompt):  # stray bytes
            raise typer.BadParameter(f"{prompt!r} is not UTF-8", param_hint="PROMPT...")
    return list(arguments)


def _lines_of(file: Path) -> list[str]:
    """The lines of a file, or of standard input, that are not blank."""
    is_stdin = str(file) == "-"
    name = "standard input" if is_stdin else str(file)
    try:
        data = sys.stdin.buffer.read() if is_stdin else file.read_bytes()
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise typer.BadParameter(f"{name}: {error.strerror}", param_hint="--file") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{name} is not UTF-8 ({error})") from error
    # Not str.splitlines, which also splits at characters that a prompt may well hold.
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    if not lines:
        raise typer.BadParameter(f"{name} has no prompts: write one a line")
    return lines


def _run(
    texts: Sequence[str],
    params: SamplingParams,
    engine: dict[str, Any],
    is_chat: bool,
) -> tuple[list[RequestOutput], Trace | None, float]:
    """The outputs, the trace if there is one, and the seconds it took."""
    from minivllm.llm import LLM

    show_bar = sys.stderr.isatty()
    with LLM(**engine) as llm:
        start = time.perf_counter()
        if is_chat:
            conversations = [[{"role": "user", "content": text}] for text in texts]
            outputs = llm.chat(conversations, params, use_tqdm=show_bar)
        else:
            outputs = llm.generate(texts, params, use_tqdm=show_bar)
        seconds = time.perf_counter() - start
    return outputs, llm.trace, seconds


def _json_line(prompt: str, output: RequestOutput, completion: CompletionOutput) -> str:
    """A text with all that is known of it, on one line."""
    fields: dict[str, Any] = {
        "prompt": prompt,
        "index": completion.index,
        "text": completion.text,
        "token_ids": completion.token_ids,
        "finish_reason": completion.finish_reason,
        "stop_reason": completion.stop_reason,
        "num_prompt_tokens": len(output.prompt_token_ids),
        "num_cached_tokens": output.metrics.num_cached_tokens,
        "time_to_first_token": output.metrics.time_to_first_token,
    }
    if completion.logprobs is not None:
        fields["cumulative_logprob"] = completion.cumulative_logprob
        fields["logprobs"] = [
            [
                {"token_id": i, "token": x.decoded_token, "logprob": x.logprob, "rank": x.rank}
                for i, x in place.items()
            ]
            for place in completion.logprobs
        ]
    return json.dumps(fields, ensure_ascii=False)
