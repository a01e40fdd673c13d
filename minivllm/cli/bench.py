"""`minivllm bench ...`: a table for each benchmark of `minivllm/bench/`, and its figures as JSON.

Next file to read: `doctor.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from minivllm.cli import options as opt

if TYPE_CHECKING:
    from minivllm.bench.report import Row

bench = typer.Typer(
    help="Measure the engine, or a part of it, on this machine.", no_args_is_help=True
)

_Runs = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Measurements per figure.")]
_DUMMY = "dummy-qwen3"


def _count(help_text: str, *names: str) -> Any:
    return typer.Option(*names, min=1, metavar="N", help=help_text)


@bench.command()
def throughput(
    num_prompts: Annotated[int, _count("Requests, all at once.")] = 16,
    min_len: Annotated[int, _count("Fewest tokens of a prompt, and of an output.")] = 16,
    max_len: Annotated[int, _count("Most tokens of both.")] = 64,
    runs: _Runs = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    max_model_len: opt.MaxModelLen = None,
    max_num_batched_tokens: opt.MaxNumBatchedTokens = None,
) -> None:
    """Tokens per second of a batch of random prompts.

    nano-vllm's public benchmark, for a GPU: --model Qwen/Qwen3-0.6B
    --num-prompts 256 --min-len 100 --max-len 1024 --max-model-len 4096
    """
    if min_len > max_len:
        raise typer.BadParameter(
            f"{min_len} is more than --max-len {max_len}", param_hint="--min-len"
        )
    from minivllm.bench.throughput import run_throughput

    engine = _engine(model, device, dtype, load_format)
    engine |= {"max_model_len": max_model_len, "max_num_batched_tokens": max_num_batched_tokens}
    with _measuring():
        report = run_throughput(engine, num_prompts, (min_len, max_len), runs)
    _show({report.title: report.rows}, report.settings)
    _keep(report.as_json(), json_file)


@bench.command()
def latency(
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Requests per step; may be repeated."),
    ] = None,
    input_len: Annotated[int, _count("Tokens of each prompt.")] = 32,
    output_len: Annotated[int, _count("Decode steps of a run.")] = 32,
    runs: _Runs = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
) -> None:
    """Milliseconds of a decode step, for batches of 1, 8, 32 and 128 requests.

    On a GPU: --model Qwen/Qwen3-0.6B --input-len 128 --output-len 512
    """
    from minivllm.bench.latency import run_latency

    engine = _engine(model, device, dtype, load_format)
    with _measuring():
        report = run_latency(engine, batch or (1, 8, 32, 128), input_len, output_len, runs)
    _show({report.title: report.rows}, report.settings)
    _keep(report.as_json(), json_file)


@bench.command()
def prefix(
    num_prompts: Annotated[int, _count("Different prompts.")] = 20,
    shared: Annotated[int, _count("Tokens that all prompts begin with.")] = 512,
    repeats: Annotated[int, _count("How often each prompt is sent.")] = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
) -> None:
    """Hit rate and time to first token, with the prefix cache and without.

    On a GPU: --model Qwen/Qwen3-0.6B --shared 16384
    """
    from minivllm.bench.prefix import run_prefix

    engine = _engine(model, device, dtype, load_format)
    with _measuring():
        report = run_prefix(engine, num_prompts, shared, repeats)
    _show({report.title: report.rows}, report.settings)
    _keep(report.as_json(), json_file)


@bench.command()
def mixed(
    decodes: Annotated[int, _count("Requests that decode meanwhile.")] = 8,
    prompt_len: Annotated[int, _count("Tokens of the long prompt.")] = 1024,
    budget: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Tokens per step; may be repeated."),
    ] = None,
    runs: _Runs = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = _DUMMY,
    device: opt.Device = "auto",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
) -> None:
    """The longest wait for a token while a long prompt arrives.

    Once without chunked prefill, then with it, for budgets of 64, 128, 256
    and 512 tokens a step.

    On a GPU: --model Qwen/Qwen3-0.6B --decodes 32 --prompt-len 8192
    """
    from minivllm.bench.mixed import run_mixed

    engine = _engine(model, device, dtype, load_format)
    with _measuring():
        report = run_mixed(engine, decodes, prompt_len, budget or (64, 128, 256, 512), runs)
    _show({report.title: report.rows}, report.settings)
    _keep(report.as_json(), json_file)


@bench.command()
def planner(
    nano_vllm: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            metavar="FOLDER",
            help="A nano-vllm checkout to measure as well.",
        ),
    ] = None,
    runs: _Runs = 7,
    json_file: opt.JsonFile = None,
) -> None:
    """Microseconds of scheduler and block pool, without a model."""
    from minivllm.bench.planner import planner_tables, run_planner_benchmark

    with _measuring():
        result = run_planner_benchmark(nano_vllm, runs)
    settings = {name: value for name, value in result.items() if not isinstance(value, dict)}
    _show(planner_tables(result), settings)
    _keep(result, json_file)


@bench.command()
def cpu(model: opt.Model = "smollm2", runs: _Runs = 5, json_file: opt.JsonFile = None) -> None:
    """This engine beside transformers, and beside its own matrix products.

    It takes some minutes.
    """
    from minivllm.bench.cpu_engine import cpu_tables, run_cpu_benchmark

    with _measuring():
        result = run_cpu_benchmark(model, runs)
    settings = {name: value for name, value in result.items() if isinstance(value, str)}
    _show(cpu_tables(result), settings)
    _keep(result, json_file)


def _engine(model: str, device: str, dtype: str, load_format: str) -> dict[str, Any]:
    return {"model": model, "device": device, "dtype": dtype, "load_format": load_format}


@contextmanager
def _measuring() -> Iterator[None]:
    """Show, on a terminal, that something goes on."""
    with Console(stderr=True).status("Measuring ..."):
        yield


def _show(tables: Mapping[str, Sequence[Row]], settings: Mapping[str, Any]) -> None:
    """A table for each title, and below them what the figures belong to."""
    console = Console(highlight=False)
    for title, rows in tables.items():
        console.print(title, markup=False, style="bold")
        table = Table()
        for name, value in rows[0].items():
            table.add_column(name, justify="left" if isinstance(value, str) else "right")
        for row in rows:
            table.add_row(*map(_cell, row.values()))
        console.print(table)
    facts = [f"{name}: {value}" for name, value in settings.items() if value is not None]
    console.print("Medians (minimum - maximum). " + "; ".join(facts), markup=False, style="dim")


def _cell(value: Any) -> str:
    from minivllm.bench.report import Spread

    if isinstance(value, Spread):
        return f"{_number(value.median)} ({_number(value.min)} - {_number(value.max)})"
    return value if isinstance(value, str) else _number(value)


def _number(value: float) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _keep(result: Mapping[str, Any], json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
