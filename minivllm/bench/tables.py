"""Recorded results as tables of `benchmarks/README.md`.

    python -m minivllm.bench.tables            rewrites the tables from the JSON files beside them

A table stands between two marks, and what is between them is replaced:

    <!-- table of w1.json -->
    <!-- end of w1.json -->
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from minivllm.bench.report import Row, cell_text

README = Path(__file__).resolve().parents[2] / "benchmarks" / "README.md"
_REGION = re.compile(r"<!-- table of (?P<file>\S+) -->\n.*?<!-- end of (?P=file) -->", re.DOTALL)


def with_tables(text: str, folder: Path) -> str:
    """The text with each of its tables made anew from the JSON file in `folder`."""

    def region(match: re.Match[str]) -> str:
        name = match["file"]
        return f"<!-- table of {name} -->\n{markdown_of(folder / name)}\n<!-- end of {name} -->"

    return _REGION.sub(region, text)


def markdown_of(path: Path) -> str:
    """A recorded result as Markdown; that there is none, if the file is not there."""
    if not path.is_file():
        return "\nNot recorded yet.\n"
    result = json.loads(path.read_text(encoding="utf-8"))
    tables = result["tables"] if "tables" in result else {result["title"]: result["rows"]}
    facts = [f"{name}: {value}" for name, value in result["settings"].items() if value is not None]
    parts = [f"**{title}**\n\n{table(rows)}" for title, rows in tables.items()]
    return "\n" + "\n\n".join([*parts, "; ".join(facts) + "."]) + "\n"


def table(rows: Sequence[Row] | Sequence[Mapping[str, Any]]) -> str:
    """Rows with the same columns as a table in Markdown."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[cell_text(value) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def main() -> None:
    """Rewrite the README's tables."""
    text = README.read_text(encoding="utf-8")
    README.write_text(with_tables(text, README.parent), encoding="utf-8")
    print(f"rewrote the tables of {README}", file=sys.stderr)


if __name__ == "__main__":
    main()
