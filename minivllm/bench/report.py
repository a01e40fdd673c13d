"""What the benchmarks give back: figures with their spread, and what they were measured on.

Knows nothing of what was measured. Next file to read: `floors.py`.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeAlias


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing."""

    median: float
    min: float
    max: float

    @classmethod
    def of(cls, values: Sequence[float], scale: float = 1.0) -> Spread:
        """Of `values`, each times `scale`."""
        scaled = [scale * value for value in values]
        return cls(statistics.median(scaled), min(scaled), max(scaled))


Row: TypeAlias = Mapping[str, str | int | float | Spread]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of a benchmark.

    Attributes:
        title: What was measured.
        settings: On which machine, with which model and sizes.
        rows: The figures: column -> value, the same columns in each row.
    """

    title: str
    settings: Mapping[str, Any]
    rows: Sequence[Row]

    def as_json(self) -> dict[str, Any]:
        """The report as an object to be written with `json.dump`."""
        return asdict(self)


def describe_machine(device_name: str = "auto", dtype_name: str = "auto") -> dict[str, Any]:
    """The machine, the versions and the number format that figures belong to.

    Args:
        device_name: As the engine's setting.
        dtype_name: As the engine's setting.
    """
    import torch

    from minivllm.device import has_triton
    from minivllm.worker.worker import resolve_device, resolve_dtype

    device = resolve_device(device_name)
    is_cpu = device.type == "cpu"
    cpu = f"{platform.machine()} CPU, threads in use: {torch.get_num_threads()}"
    triton = {"triton": version("triton")} if device.type == "cuda" and has_triton() else {}
    return {
        "machine": cpu if is_cpu else torch.cuda.get_device_name(device),
        "dtype": str(resolve_dtype(dtype_name, device)).removeprefix("torch."),
        "torch": torch.__version__,
        **triton,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def cell_text(value: Any) -> str:
    """A figure as a table shows it: a median with its ends, a number, or text as it is.

    Args:
        value: Of a `Row`, or of one that was read from JSON.
    """
    if isinstance(value, Mapping):
        value = Spread(**value)
    if isinstance(value, Spread):
        ends = f"{number_text(value.min)} - {number_text(value.max)}"
        return f"{number_text(value.median)} ({ends})"
    return value if isinstance(value, str) else number_text(value)


def number_text(value: float) -> str:
    """Three digits, or all that stand before the point."""
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _commit() -> str | None:
    """The commit of this code; `None` if it is not in a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()
