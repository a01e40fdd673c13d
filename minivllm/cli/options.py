"""The options that commands have, each with its help; defaults stand where they are used.

A command's parameters are its options: in this package, and only here, a function may have many.
Next file to read: `generate.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer


def _engine(help_text: str, *names: str, metavar: str, default: str | bool = True) -> Any:
    panel: dict[str, Any] = {"rich_help_panel": "Engine", "show_default": default}
    return typer.Option(*names, help=help_text, metavar=metavar, **panel)


def _sampling(help_text: str, *names: str, metavar: str) -> Any:
    return typer.Option(*names, help=help_text, metavar=metavar, rich_help_panel="Sampling")


_FLAG = ""  # takes no value

Model = Annotated[
    str, _engine("A known name, a folder, or a Hugging Face repository.", metavar="NAME")
]
Device = Annotated[str, _engine("auto, cpu, cuda or cuda:N.", metavar="NAME")]
Dtype = Annotated[str, _engine("auto, float32, float16 or bfloat16.", metavar="NAME")]
LoadFormat = Annotated[
    str, _engine("auto, safetensors, or dummy (random weights).", metavar="NAME")
]
MaxModelLen = Annotated[
    int | None, _engine("Most tokens of prompt and output.", metavar="N", default="the model's")
]
MaxNumSeqs = Annotated[int, _engine("Most requests that run at once.", metavar="N")]
MaxNumBatchedTokens = Annotated[
    int | None, _engine("Most tokens in a step.", metavar="N", default="2048")
]
BlockSize = Annotated[
    int, _engine("Tokens in a block of the KV cache; a power of two.", metavar="N")
]
NumBlocks = Annotated[
    int | None, _engine("Blocks of the KV cache.", metavar="N", default="as many as fit")
]
NoPrefixCaching = Annotated[
    bool,
    _engine("Compute what prompts have in common anew.", "--no-prefix-caching", metavar=_FLAG),
]

NumContinuations = Annotated[int, _sampling("Continuations of each prompt.", "--n", metavar="N")]
Temperature = Annotated[float, _sampling("0 takes the most likely token.", metavar="X")]
TopP = Annotated[float, _sampling("Sample from this share of probability.", metavar="X")]
TopK = Annotated[int, _sampling("Sample from this many tokens; 0 is all.", metavar="N")]
MinP = Annotated[
    float, _sampling("Leave out tokens below this share of the likeliest.", metavar="X")
]
RepetitionPenalty = Annotated[
    float, _sampling("Above 1: repeat less of what was said.", metavar="X")
]
Seed = Annotated[int | None, _sampling("Makes sampling repeatable.", metavar="N")]
MaxTokens = Annotated[int, _sampling("Most new tokens of a text.", metavar="N")]
Stop = Annotated[
    list[str] | None,
    _sampling("End where this text appears; may be repeated.", metavar="TEXT"),
]
IgnoreEos = Annotated[
    bool, _sampling("Go on after an end-of-text token.", "--ignore-eos", metavar=_FLAG)
]
Logprobs = Annotated[
    int | None,
    _sampling("Report so many likely tokens at each place (--jsonl).", metavar="N"),
]


def output_file(help_text: str, *names: str) -> Any:
    """An option that names a file to write: refused at once if its folder is not there."""
    return typer.Option(
        *names, help=help_text, metavar="FILE", dir_okay=False, callback=_check_folder
    )


def _check_folder(path: Path | None) -> Path | None:
    if path is not None and not path.absolute().parent.is_dir():
        raise typer.BadParameter(f"the folder {path.parent} does not exist")
    return path


JsonFile = Annotated[Path | None, output_file("Write the figures as JSON, too.", "--json")]
