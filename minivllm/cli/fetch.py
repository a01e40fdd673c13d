"""`minivllm fetch`: bring a model to this machine."""

from __future__ import annotations

from typing import Annotated

import typer


def fetch(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A known name or a Hugging Face repository.")
    ],
    check: Annotated[
        bool,
        typer.Option("--check", metavar="", help="Compare every file's sha256 (packed models)."),
    ] = False,
) -> None:
    """Bring a model to this machine, so that later runs need no network; print its folder."""
    from minivllm.hub import resolve_model
    from minivllm.packed import PACKED_MODELS, fetch_packed

    folder = resolve_model(name)
    if check and name in PACKED_MODELS:
        folder = fetch_packed(name, check_hashes=True)
    print(folder)
