"""What the benchmarks give back: figures with their spread, and what they were measured on.

Knows nothing of what was measured. Next file to read: `throughput.py`.
"""

from __future__ import annotations

import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from minivllm.llm import LLM


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


def describe_engine(llm: LLM) -> dict[str, Any]:
    """The machine, the versions and the model that figures belong to."""
    import torch

    from minivllm.worker.worker import resolve_device, resolve_dtype

    config = llm.engine.config.model_config
    device = resolve_device(config.device)
    is_cpu = device.type == "cpu"
    cpu = f"{platform.machine()} CPU, threads in use: {torch.get_num_threads()}"
    return {
        "machine": cpu if is_cpu else torch.cuda.get_device_name(device),
        "model": str(config.model),
        "dtype": str(resolve_dtype(config.dtype_name, device)).removeprefix("torch."),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "commit": _commit(),
    }


def _commit() -> str | None:
    """The commit of this code; `None` if it is not in a git checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return run.stdout.strip()
