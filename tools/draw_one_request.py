"""Draw docs/one_request.svg: the path of a request down to the KV cache, and its token back up.

    python tools/draw_one_request.py             writes the SVG
    python tools/draw_one_request.py out.png     writes another file, to look at

The numbers are those of step 0 of request a in docs/one_request.md, which is a real run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib

matplotlib.use("agg")  # draws into files only
from matplotlib import pyplot as plt
from matplotlib.patches import FancyBboxPatch

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TARGET = Path(__file__).resolve().parents[1] / "docs" / "one_request.svg"

WIDTH, HEIGHT = 800, 922  # pixels of the picture, y downwards
LEFT, MIDDLE, RIGHT = 20, 400, 780
DOWN, UP = 60, 740  # where the arrows run
BORDER = 580
PLAIN, TENSORS = "#f2f2f2", "#bcd7ee"  # boxes above and below the border

# Top and height of a box, its file, and what happens there.
FULL_BOXES = [
    (20, 54, "llm.py", "one request per prompt, then step after step until none is left"),
    (232, 54, "engine/core.py", "step:   1. plan   ->   2. execute   ->   3. update"),
    (472, 54, "executor/uniproc.py", "carries the plan to the worker, and the tokens back"),
    (724, 54, "models/qwen3.py", "layer after layer; at the end the logits of each last token"),
    (
        830,
        72,
        "attention/sdpa.py",
        "write keys and values to their slots in the KV cache, then read each request's own\n"
        "through its row of the block table",
    ),
]
DOWN_BOXES = [
    (126, 54, "engine/input_processor.py", "text -> token ids -> Request"),
    (
        338,
        72,
        "core/scheduler.py",
        "how many tokens of whom;\ncore/kv_cache_manager.py: which blocks",
    ),
    (618, 54, "worker/model_runner.py", "prepare_inputs.py: rows -> tensors"),
]
UP_BOXES = [
    (126, 54, "engine/output_processor.py", "token ids -> text"),
    (338, 72, "core/scheduler.py", "append the token;\ncore/stop.py: is this the end?"),
    (618, 54, "sample/sampler.py", "logits -> token ids"),
]
# From y to y, and what crosses there.
DOWN_ARROWS = [
    (74, 126, '"Once upon a time,"'),
    (180, 232, "Request a: 723 1236 260 507 14"),
    (286, 338, "waiting: a, b;  budget: 8 tokens"),
    (410, 472, "SchedulerOutput\na: 5 tokens, blocks 0 1"),
    (526, 618, "the same SchedulerOutput"),
    (672, 724, "input_ids, positions, metadata"),
    (778, 830, "each layer's q, k, v;  slots 0 1 2 3 4"),
]
UP_ARROWS = [
    (830, 778, "each layer's attention output"),
    (724, 672, "logits of a's last token"),
    (618, 526, "ModelRunnerOutput a: 260"),
    (472, 410, "the same ModelRunnerOutput"),
    (338, 286, "EngineCoreOutput a: 260"),
    (232, 180, "EngineCoreOutput a: 260"),
    (126, 74, 'RequestOutput: " a"'),
]


def main() -> None:
    """Draw and write the picture."""
    plt.rcParams.update({"svg.hashsalt": "minivllm", "font.family": "DejaVu Sans"})
    figure = plt.figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(HEIGHT, 0)
    axes.axis("off")
    half = MIDDLE - LEFT - 10
    columns = ((LEFT, RIGHT - LEFT, FULL_BOXES), (LEFT, half, DOWN_BOXES))
    for left, width, boxes in (*columns, (MIDDLE + 10, half, UP_BOXES)):
        for top, height, file, text in boxes:
            draw_box(axes, (left, top, width, height), file, text)
    for x, side, arrows in ((DOWN, "left", DOWN_ARROWS), (UP, "right", UP_ARROWS)):
        for start, end, text in arrows:
            draw_arrow(axes, x, start, end)
            crosses_border = min(start, end) < BORDER < max(start, end)
            y = BORDER - 27 if crosses_border else (start + end) / 2
            indent = 14 if side == "left" else -14
            axes.text(x + indent, y, text, ha=side, va="center", fontsize=9.5)
    draw_border(axes)
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else TARGET
    figure.savefig(target, metadata={"Date": None} if target.suffix == ".svg" else None)


def draw_box(axes: Axes, place: tuple[float, float, float, float], file: str, text: str) -> None:
    """A box with a file's name in bold and what happens there."""
    left, top, width, height = place
    face = PLAIN if top < BORDER else TENSORS
    style = "round,pad=0,rounding_size=6"
    corner = (left, top)
    axes.add_patch(FancyBboxPatch(corner, width, height, style, fc=face, ec="black", lw=1))
    axes.text(left + 14, top + 17, file, va="center", fontsize=11, weight="bold")
    axes.text(left + 14, top + 28, text, va="top", fontsize=9.5, linespacing=1.3)


def draw_arrow(axes: Axes, x: float, start: float, end: float) -> None:
    """A vertical arrow."""
    style = {"arrowstyle": "-|>", "lw": 1.6, "shrinkA": 0, "shrinkB": 0, "color": "black"}
    axes.annotate("", (x, end), (x, start), arrowprops=style)


def draw_border(axes: Axes) -> None:
    """The line that only plain data crosses."""
    axes.plot([LEFT, RIGHT], [BORDER, BORDER], color="black", lw=1.2, ls=(0, (6, 4)), zorder=0)
    for y, text in ((BORDER - 14, "numbers and lists only"), (BORDER + 16, "tensors")):
        axes.text(MIDDLE, y, text, ha="center", va="center", fontsize=9.5, style="italic")


if __name__ == "__main__":
    main()
