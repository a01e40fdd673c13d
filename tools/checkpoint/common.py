"""What the stages share: where their files lie, and small helpers to read and write them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from minivllm.config import DEFAULT_MODEL

ROOT = Path(__file__).resolve().parents[2]
# Ignored by git: whatever lies there can be made again. Another folder is for an experiment.
WORK = Path(os.environ.get("CHECKPOINT_WORK", ROOT / "build" / "checkpoint"))
ASSETS = ROOT / "minivllm" / "assets"
NAME = DEFAULT_MODEL

SEED = 20261130
ONE_IN_IS_HELD_OUT = 40

END_OF_TEXT, TURN_BEGIN, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"


def is_held_out(hero: str, thing: str) -> bool:
    """Whether stories on this pair of words are kept out of training, whoever wrote them."""
    digest = hashlib.sha256(f"{SEED}/{hero}/{thing}".encode()).digest()
    return int.from_bytes(digest[:8], "big") % ONE_IN_IS_HELD_OUT == 0


def write_records(path: Path, records: Iterable[dict[str, Any]]) -> int:
    """Write gzipped JSON Lines, whole or not at all; gives the number of records."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".part")
    num_records = 0
    with gzip.open(temporary, "wt", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
            num_records += 1
    os.replace(temporary, path)
    return num_records


def read_records(*paths: Path) -> Iterator[dict[str, Any]]:
    """The records of gzipped JSON Lines files, one file after the other."""
    for path in paths:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line)


def write_json(path: Path, content: Any) -> None:
    """Write one JSON value, indented."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
