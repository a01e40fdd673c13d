"""`minivllm bench ...` for parts of the engine: kernels, a step's profile, planner, CPU products.

Next file to read: `bench_show.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from minivllm.cli import options as opt
from minivllm.cli.bench_show import (
    Runs,
    Settings,
    count,
    finish,
    keep,
    measuring,
    parse_settings,
    show,
)


def kernels(runs: Runs = 5, json_file: opt.JsonFile = None) -> None:
    """Our Triton kernels beside PyTorch's, on a GPU.

    Attention at the sizes of the recorded figures, and the small kernels of
    a step. Each result is compared with float64 before it is timed. It
    takes two minutes, most of them to compile.
    """
    from minivllm.bench.ceilings import require_gpu

    require_gpu("bench kernels")  # before a kernel is imported, as that chooses how Triton runs
    from minivllm.bench.kernels import run_kernels

    with measuring():
        result = run_kernels(runs)
    show(result["tables"], result["settings"])
    keep(result, json_file)


def profile(
    batch: Annotated[
        list[int] | None,
        typer.Option(min=1, metavar="N", help="Requests per step; may be repeated."),
    ] = None,
    context: Annotated[int, count("Cached tokens of each request.")] = 384,
    runs: Runs = 5,
    json_file: opt.JsonFile = None,
    model: opt.Model = "qwen3-0.6b-shape",
    dtype: opt.Dtype = "auto",
    load_format: opt.LoadFormat = "dummy",
    settings: Settings = None,
) -> None:
    """What a decode step spends its time on, on a GPU.

    For batches of 1, 32, 128 and 256 requests that sample by temperature.
    """
    from minivllm.bench.profile import run_profile

    keywords = {"model": model, "device": "auto", "dtype": dtype, "load_format": load_format}
    keywords |= parse_settings(settings)
    with measuring():
        report = run_profile(keywords, batch or (1, 32, 128, 256), context, runs)
    finish(report, json_file)


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
    runs: Runs = 7,
    json_file: opt.JsonFile = None,
) -> None:
    """Microseconds of scheduler and block pool, without a model."""
    from minivllm.bench.planner import planner_tables, run_planner_benchmark

    with measuring():
        result = run_planner_benchmark(nano_vllm, runs)
    settings = {name: value for name, value in result.items() if not isinstance(value, dict)}
    show(planner_tables(result), settings)
    keep(result, json_file)


def cpu(model: opt.Model = "smollm2", runs: Runs = 5, json_file: opt.JsonFile = None) -> None:
    """This engine beside transformers, and beside its own matrix products.

    It takes some minutes.
    """
    from minivllm.bench.cpu_engine import cpu_tables, run_cpu_benchmark

    with measuring():
        result = run_cpu_benchmark(model, runs)
    settings = {name: value for name, value in result.items() if isinstance(value, str)}
    show(cpu_tables(result), settings)
    keep(result, json_file)


COMMANDS: list[Callable[..., None]] = [kernels, profile, planner, cpu]
