"""The tables of benchmarks/README.md are those of the JSON files beside it."""

from __future__ import annotations

import json
import re

from minivllm.bench import tables
from minivllm.bench.tables import README, markdown_of, table, with_tables

SPREAD = {"median": 12.34, "min": 12.0, "max": 15.1}
RESULT = {
    "title": "Latency",
    "settings": {"machine": "a GPU", "triton": None, "runs": 5},
    "rows": [
        {"engine": "minivllm", "batch": 1, "ms": SPREAD},
        {"engine": "x", "batch": 8, "ms": ""},
    ],
}


def test_the_readme_shows_what_was_recorded():
    text = README.read_text(encoding="utf-8")
    assert with_tables(text, README.parent) == text, "run `python -m minivllm.bench.tables`"


def test_each_recorded_file_is_in_the_readme():
    text = README.read_text(encoding="utf-8")
    for path in README.parent.glob("*.json"):
        assert f"`{path.name}`" in text, path.name


def test_a_result_becomes_a_table_and_what_it_was_measured_on(tmp_path):
    (tmp_path / "latency.json").write_text(json.dumps(RESULT))
    assert markdown_of(tmp_path / "latency.json") == (
        "\n**Latency**\n\n"
        "| engine | batch | ms |\n"
        "| --- | --- | --- |\n"
        "| minivllm | 1 | 12.3 (12 - 15.1) |\n"
        "| x | 8 |  |\n\n"
        "machine: a GPU; runs: 5.\n"
    )


def test_a_result_of_several_tables_shows_them_all(tmp_path):
    several = {"settings": {}, "tables": {"A": [{"x": 1}], "B": [{"y": 2000}]}}
    (tmp_path / "kernels.json").write_text(json.dumps(several))
    text = markdown_of(tmp_path / "kernels.json")
    assert re.findall(r"\*\*(.)\*\*", text) == ["A", "B"]
    assert "| 2,000 |" in text
    assert table([{"x": 0.5}]) == "| x |\n| --- |\n| 0.5 |"


def test_only_what_stands_between_the_marks_is_replaced(tmp_path, monkeypatch, capsys):
    readme = tmp_path / "README.md"
    marks = "<!-- table of latency.json -->\nold\nold\n<!-- end of latency.json -->"
    other = "<!-- table of w9.json -->\n<!-- end of w9.json -->"
    readme.write_text(f"before\n{marks}\nbetween\n{other}\nafter\n")
    (tmp_path / "latency.json").write_text(json.dumps(RESULT))
    monkeypatch.setattr(tables, "README", readme)
    tables.main()
    text = readme.read_text()
    assert "old" not in text
    assert "| minivllm | 1 |" in text
    assert "Not recorded yet." in text
    assert re.findall("before|between|after", text) == ["before", "between", "after"]
    tables.main()
    assert readme.read_text() == text
