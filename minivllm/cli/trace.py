"""`minivllm trace`: a trace file as text, as figures, or for Perfetto."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minivllm.cli.options import output_file

if TYPE_CHECKING:
    from minivllm.plots import Picture

_File = Annotated[
    Path,
    typer.Argument(
        metavar="FILE", help="From minivllm generate --trace FILE.", exists=True, dir_okay=False
    ),
]
_Timeline = Annotated[
    bool, typer.Option("--timeline", metavar="", help="Print a line for each step (the default).")
]
_Figure = Annotated[
    Path | None, output_file("Draw requests by steps: .png, .svg or .pdf.", "--figure")
]
_Pool = Annotated[Path | None, output_file("Draw the block pool over the steps.", "--pool")]
_Perfetto = Annotated[Path | None, output_file("Write JSON for ui.perfetto.dev.", "--perfetto")]


def trace(
    file: _File,
    timeline: _Timeline = False,
    figure: _Figure = None,
    pool: _Pool = None,
    perfetto: _Perfetto = None,
) -> None:
    """Show what the engine decided, step by step, from a trace FILE."""
    from minivllm.trace import chrome_trace, load_trace
    from minivllm.trace import timeline as timeline_of

    try:
        events = load_trace(file)
        if figure is not None:
            from minivllm.plots import plot_requests

            _save(plot_requests(events), figure)
        if pool is not None:
            from minivllm.plots import plot_block_pool

            _save(plot_block_pool(events), pool)
    except (ValueError, ImportError) as error:  # no trace, nothing to draw, or nothing to draw with
        print(f"minivllm: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    if perfetto is not None:
        perfetto.write_text(json.dumps(chrome_trace(events)) + "\n", encoding="utf-8")
        print(f"{perfetto}: open it at https://ui.perfetto.dev", file=sys.stderr)
    if timeline or not (figure or pool or perfetto):
        print(timeline_of(events))


def _save(picture: Picture, file: Path) -> None:
    picture.save(file)
    print(f"{file}: {picture.summary}", file=sys.stderr)
