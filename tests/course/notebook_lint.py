"""What every notebook of the course has, and what none may have; see docs/writing_a_chapter.md."""

from __future__ import annotations

import re
from typing import Any

HEADINGS = (
    "Set-up",
    "Picture",
    "Where we are",
    "By hand",
    "Predict",
    "Explore",
    "Exercise",
    "Detective",
    "Measure",
    "Break it",
    "Compare",
    "Plug in",
    "Recap",
    "The real thing",
)
ANYWHERE = ("Predict", "Exercise", "Explore")  # may stand between others, and more than once
CELLS, WORDS = range(35, 56), range(1400, 2201)
MAX_COLUMNS = 100
MIN_ALT = 40


def prose(notebook: Any) -> str:
    return "\n\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")


def code(notebook: Any) -> str:
    return "\n\n".join(c.source for c in notebook.cells if c.cell_type == "code")


def num_words(text: str) -> int:
    """Words of prose: no HTML, no address, no formula, no table line."""
    text = re.sub(r"<[^>]+>|https?://\S+|\$\$.*?\$\$|^\|[-| ]+\|$", " ", text, flags=re.S | re.M)
    return len(re.findall(r"[A-Za-z][\w'-]*", text))


def headings(notebook: Any) -> list[str]:
    """The texts of the second-level headings, in order."""
    return re.findall(r"^## +(.+)$", prose(notebook), re.M)


def lint_anatomy(notebook: Any) -> list[str]:
    """What is missing, or in the wrong order."""
    found, problems = headings(notebook), []
    titles = re.findall(r"^# .+$", prose(notebook), re.M)
    if len(titles) != 1 or not re.match(r"# \d\d · \S", titles[0]):
        problems.append(f"one title like '# 01 · Layers', not {titles}")
    present = [name for text in found for name in HEADINGS if text.startswith(name)]
    problems += [f"no heading '## {name}'" for name in HEADINGS if name not in present]
    fixed = [name for name in present if name not in ANYWHERE]
    if fixed != [name for name in HEADINGS if name in fixed]:
        problems.append(f"the order is {fixed}")
    for call, least in (("predict(", 3), ("explore(", 1), ("setup(", 1), ("show(", 1)):
        if code(notebook).count(call) < least:
            problems.append(f"fewer than {least} {call})")
    return problems


def lint_size(notebook: Any) -> list[str]:
    """Too many or too few cells or words, or too long lines."""
    problems = []
    if len(notebook.cells) not in CELLS:
        problems.append(f"{len(notebook.cells)} cells")
    if (words := num_words(prose(notebook))) not in WORDS:
        problems.append(f"{words} words")
    lines = [line for cell in notebook.cells for line in cell.source.splitlines()]
    problems += [f"{len(line)} columns: {line}" for line in lines if len(line) > MAX_COLUMNS]
    return problems


def lint_checks(notebook: Any, task_ids: list[str]) -> list[str]:
    """Each exercise has a tagged check cell of its own, and no other cell is tagged so."""
    tagged = [c.source.strip() for c in notebook.cells if "check" in c.metadata.get("tags", [])]
    wanted = [f'check("{task_id}")' for task_id in task_ids]
    return (
        [f"tagged cells {tagged}, exercises {wanted}"] if sorted(tagged) != sorted(wanted) else []
    )


def lint_contents(notebook: Any) -> list[str]:
    """Paths of a machine, addresses that code needs, errors, and figures without words."""
    problems = []
    for cell in notebook.cells:
        text = cell.source + "".join(map(str, cell.get("outputs", [])))
        problems += re.findall(r"[\s'\"](/(?:home|root|work|tmp|Users|opt)/\S*)", text)
        if cell.cell_type == "code":
            problems += re.findall(r"https?://\S+", cell.source)
            if "raises-exception" in cell.metadata.get("tags", []):
                problems.append("tag raises-exception: assert the error inside the cell")
    if "plt.show" in code(notebook):
        problems.append("plt.show: use show(figure, summary=..., alt=...)")
    for image in re.findall(r"!\[(.*?)\]\(", prose(notebook)):
        if len(image) < MIN_ALT:
            problems.append(f"image without words: {image!r}")
    return problems


def lint_outputs(notebook: Any) -> list[str]:
    """Of an executed notebook: every cell ran, no error, and each picture has its words."""
    problems = []
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    if [cell.execution_count for cell in cells] != list(range(1, len(cells) + 1)):
        problems.append("not every cell was run, in order")
    for output in (output for cell in cells for output in cell.outputs):
        if output.output_type == "error":
            problems.append(f"error: {output.ename}")
        if "image/png" in output.get("data", {}):
            alt = output.metadata.get("image/png", {}).get("alt", "")
            problems += [] if len(alt) >= MIN_ALT else [f"figure without words: {alt!r}"]
        if "application/vnd.jupyter.widget-view+json" in output.get("data", {}):
            problems.append("a stored widget: build with `make notebooks`")
    if "widgets" in notebook.metadata:
        problems.append("stored widget state")
    return problems
