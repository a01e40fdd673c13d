"""`minivllm bench ...`: a table for each benchmark of `minivllm/bench/`, and its figures as JSON.

Here are those of the whole engine, each with a preset: the workload that the recorded figures in
`benchmarks/` are of, on a GPU. Those of its parts are in `bench_parts.py`.
Next file to read: `bench_parts.py`.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from minivllm.cli import bench_parts
from minivllm.cli import options as opt
from minivllm.cli.bench_show import Engine, Runs, Settings, count, finish, measuring, parse_settings

bench = typer.Typer(
    help="Measure the engine, or a part of it, on this machine.", no_args_is_help=True
)

_DUMMY = "dummy-qwen3"


def _workload(name: str) -> Any:
    def check(value: str | None) -> str | None:
        if value not in (None, name):
            raise typer.BadParameter(f"{value!r} is not {name}, the only one here")
        return value

    help_text = f"{name}: sizes, model and dtype of the recorded figures, for a GPU."
    return typer.Option("--workload", metavar=name, help=help_text, callback=check)


@bench.command()
def throughput(
    workload: Annotated[str | None, _workload("w1")] = None,
    num_prompts: Annotated[int, count("Requests, all at once.")] = 16,
    min_len: Annotated[int, count("Fewest tokens of a prompt, and of an output.")] = 16,
    max_len: Annotated[int, count("Most tokens of both.")] = 64,
    runs: Runs = 5,
    json_file: opt.JsonFile = None,
    engine: Engine = "minivllm",
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    max_model_len: opt.MaxModelLen = None,
    max_num_batched_tokens: opt.MaxNumBatchedTokens = None,
    settings: Settings = None,
) -> None:
    """Tokens per second of a batch of random prompts.

    With --workload w1: nano-vllm's public benchmark, 256 prompts of 100 to
    1,024 tokens and as many new ones, Qwen3-0.6B's shape in bfloat16.
    """
    if min_len > max_len:
        raise typer.BadParameter(
            f"{min_len} is more than --max-len {max_len}", param_hint="--min-len"
        )
    from minivllm.bench.adapter import find_adapter
    from minivllm.bench.throughput import W1, Workload, run_throughput

    if workload is None:
        work = Workload(num_prompts=num_prompts, lengths=(min_len, max_len))
    else:
        work, max_model_len = W1, 4096
        max_num_batched_tokens = max_num_batched_tokens or 16_384  # as vLLM and nano-vllm take
    model, dtype = _model(workload, model, dtype)
    keywords = {"max_model_len": max_model_len, "max_num_batched_tokens": max_num_batched_tokens}
    keywords |= _engine(device, dtype, load_format) | parse_settings(settings)
    build = find_adapter(engine)
    with measuring():
        report = run_throughput(build, model, keywords, work, runs)
    finish(report, json_file)


@bench.command()
def latency(
    workload: Annotated[str | None, _workload("w2")] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Requests per step; may be repeated."),
    ] = None,
    input_len: Annotated[int, count("Tokens of each prompt.")] = 32,
    output_len: Annotated[
        int, typer.Option(min=2, metavar="N", help="Tokens that each request gets.")
    ] = 32,
    runs: Runs = 5,
    json_file: opt.JsonFile = None,
    engine: Engine = "minivllm",
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    settings: Settings = None,
) -> None:
    """Milliseconds of a decode step, for batches of 1, 8, 32 and 128 requests.

    With --workload w2: after prompts of 128 tokens, 512 new ones, greedy,
    Qwen3-0.6B's shape in bfloat16.
    """
    from minivllm.bench.adapter import find_adapter
    from minivllm.bench.latency import W2, Batches, run_latency

    sizes = tuple(batch or W2.sizes)
    batches = W2 if workload else Batches(sizes=sizes, input_len=input_len, output_len=output_len)
    model, dtype = _model(workload, model, dtype)
    keywords = _engine(device, dtype, load_format) | parse_settings(settings)
    build = find_adapter(engine)
    with measuring():
        report = run_latency(build, model, keywords, batches, runs)
    finish(report, json_file)


@bench.command()
def prefix(
    workload: Annotated[str | None, _workload("w4")] = None,
    num_prompts: Annotated[int, count("Different prompts.")] = 20,
    shared: Annotated[int, count("Tokens that all prompts begin with.")] = 512,
    repeats: Annotated[int, count("How often each prompt is sent.")] = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    settings: Settings = None,
) -> None:
    """Hit rate and time to first token, with the prefix cache and without.

    With --workload w4: 20 prompts that share 16,384 tokens, sent 5 times,
    Qwen3-0.6B's shape in bfloat16.
    """
    from minivllm.bench.prefix import run_prefix

    if workload is not None:
        num_prompts, shared, repeats = 20, 16_384, 5
    model, dtype = _model(workload, model, dtype)
    keywords = {"model": model, **_engine(device, dtype, load_format), **parse_settings(settings)}
    with measuring():
        report = run_prefix(keywords, num_prompts, shared, repeats)
    finish(report, json_file)


@bench.command()
def mixed(
    workload: Annotated[str | None, _workload("w5")] = None,
    decodes: Annotated[int, count("Requests that decode meanwhile.")] = 8,
    prompt_len: Annotated[int, count("Tokens of the long prompt.")] = 1024,
    budget: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Tokens per step; may be repeated."),
    ] = None,
    runs: Runs = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    settings: Settings = None,
) -> None:
    """The longest wait for a token while a long prompt arrives.

    Once without chunked prefill, then with it, for budgets of 64, 128, 256
    and 512 tokens a step.

    With --workload w5: a prompt of 8,192 tokens among 32 decodes, budgets up
    to 4,096 as well, Qwen3-0.6B's shape in bfloat16.
    """
    from minivllm.bench.mixed import run_mixed

    budgets = budget or [64, 128, 256, 512]
    if workload is not None:
        decodes, prompt_len = 32, 8192
        budgets = budget or [64, 128, 256, 512, 1024, 2048, 4096]
    model, dtype = _model(workload, model, dtype)
    keywords = {"model": model, **_engine(device, dtype, load_format), **parse_settings(settings)}
    with measuring():
        report = run_mixed(keywords, decodes, prompt_len, budgets, runs)
    finish(report, json_file)


def _engine(device: str, dtype: str, load_format: str) -> dict[str, Any]:
    return {"device": device, "dtype": dtype, "load_format": load_format}


def _model(workload: str | None, model: str, dtype: str) -> tuple[str, str]:
    """Model and dtype; those of a workload, unless others are asked for."""
    from minivllm.bench.qwen3_shape import QWEN3_SHAPE

    if workload is None:
        return model, dtype
    return (QWEN3_SHAPE if model == _DUMMY else model), ("bfloat16" if dtype == "auto" else dtype)


for _command in bench_parts.COMMANDS:
    bench.command()(_command)
