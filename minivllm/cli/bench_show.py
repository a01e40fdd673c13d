"""What the commands of `minivllm bench` share: their options, their tables, their JSON.

Next file to read: `doctor.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from minivllm.bench.report import Report, Row

Runs = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Measurements per figure.")]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Any other setting of the engine, such as enforce_eager=true; may be repeated.",
        rich_help_panel="Engine",
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="minivllm, or another: benchmarks/adapters/NAME.py, or a file.",
        rich_help_panel="Engine",
    ),
]


def count(help_text: str, *names: str) -> Any:
    """An option that counts something: 1 or more."""
    return typer.Option(*names, min=1, metavar="N", help=help_text)


def parse_settings(pairs: Sequence[str] | None) -> dict[str, Any]:
    """The settings in `["enforce_eager=true", "block_size=256"]`; values are JSON, or else text.

    Raises:
        BadParameter: One has no name, or no value.
    """
    settings: dict[str, Any] = {}
    for pair in pairs or ():
        name, equals, value = pair.partition("=")
        if not (name and equals):
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE", param_hint="--set")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


@contextmanager
def measuring() -> Iterator[None]:
    """Show, on a terminal, that something goes on."""
    with Console(stderr=True).status("Measuring ..."):
        yield


def finish(report: Report, json_file: Path | None) -> None:
    """Show a report, and keep it where a file is given."""
    show({report.title: report.rows}, report.settings)
    keep(report.as_json(), json_file)


def show(tables: Mapping[str, Sequence[Row]], settings: Mapping[str, Any]) -> None:
    """A table for each title, and below them what the figures belong to."""
    from minivllm.bench.report import cell_text

    console = Console(highlight=False)
    for title, rows in tables.items():
        console.print(title, markup=False, style="bold")
        table = Table()
        for name, value in rows[0].items():
            table.add_column(name, justify="left" if isinstance(value, str) else "right")
        for row in rows:
            table.add_row(*map(cell_text, row.values()))
        console.print(table)
    facts = [f"{name}: {value}" for name, value in settings.items() if value is not None]
    console.print("Medians (minimum - maximum). " + "; ".join(facts), markup=False, style="dim")


def keep(result: Mapping[str, Any], json_file: Path | None) -> None:
    """Write a result as JSON, where a file is given."""
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=2, default=asdict) + "\n", encoding="utf-8")
