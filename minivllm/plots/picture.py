"""`Picture`, a figure with words, and the few things that all figures draw.

Next file to read: `requests.py`.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minivllm.trace import Trace
from minivllm.trace.replay import steps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDTH = 8.0  # inches
FONT_SIZE = 10  # points
MAX_NUMBERED = 24  # steps up to which each has room for its own cell, with a number in it


@dataclass(frozen=True)
class Picture:
    """A figure with words.

    Attributes:
        figure: The matplotlib figure.
        summary: One sentence on what it shows.
        alt: The summary and the details, for those who can't see it.
    """

    figure: Figure
    summary: str
    alt: str

    def save(self, path: str | Path, *, dpi: int = 150) -> None:
        """Write the figure to a file; its ending (.png, .svg, .pdf) says in which format."""
        self.figure.savefig(path, dpi=dpi)

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        """What a notebook shows: the figure, with its text as the image's `alt`."""
        buffer = io.BytesIO()
        self.figure.savefig(buffer, format="png", dpi=100)
        image = base64.b64encode(buffer.getvalue()).decode()
        return {"image/png": image, "text/plain": self.alt}, {"image/png": {"alt": self.alt}}


@dataclass(frozen=True)
class Look:
    """How a state is drawn: a colour of the Okabe-Ito palette, what is written on it, a hatch."""

    face: str
    ink: str = "black"
    hatch: str = ""

    @property
    def style(self) -> dict[str, Any]:
        """As the arguments of a matplotlib patch."""
        return {"facecolor": self.face, "hatch": self.hatch, "edgecolor": "black"}


BLUE, SKY_BLUE = Look("#0072B2", "white"), Look("#56B4E9", hatch="//")
ORANGE, YELLOW = Look("#E69F00", hatch=".."), Look("#F0E442")
WHITE, CROSSED = Look("white"), Look("white", hatch="xx")


def columns_of(trace: Trace) -> range:
    """The steps that are the columns of a figure.

    Raises:
        ValueError: There are none.
    """
    columns = steps(trace)
    if not columns:
        raise ValueError("nothing ran in this trace: generate something with trace=True first")
    return columns


def has_room(columns: range) -> bool:
    """Whether each step can have its own cell, with a number in it."""
    return len(columns) <= MAX_NUMBERED


def new_axes(*, height: float) -> tuple[Figure, Axes]:
    """An empty figure `height` inches high, which no window or global list knows of.

    Raises:
        ImportError: Matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib: pip install 'minivllm[course]'") from error
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.tick_params(labelsize=FONT_SIZE)
    return figure, axes


def box(axes: Axes, corner: tuple[float, float], width: int, look: Look, text: str | None) -> None:
    """Draw one cell of a row, with `text` in its middle."""
    from matplotlib.patches import Rectangle

    x, y = corner
    axes.add_patch(Rectangle((x, y + 0.08), width, 0.84, linewidth=0.8, **look.style))
    if text is not None:
        paper = {"facecolor": look.face, "edgecolor": "none", "pad": 1.5} if look.hatch else None
        center: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": FONT_SIZE}
        axes.text(x + width / 2, y + 0.5, text, color=look.ink, bbox=paper, **center)


def label_steps(axes: Axes, columns: range) -> None:
    """A number in the middle of each step, or of every few where there are many."""
    shown = columns[:: -(-len(columns) // MAX_NUMBERED)]
    axes.set_xlim(columns.start, columns.stop)
    axes.set_xticks([step + 0.5 for step in shown], [str(step) for step in shown])
    axes.set_xlabel("step", fontsize=FONT_SIZE)


def legend(axes: Axes, looks: Mapping[str, Look], marks: Mapping[str, str] | None = None) -> None:
    """A row of keys above the axes: patches, then markers."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [Patch(label=label, **look.style) for label, look in looks.items()]
    handles += [
        Line2D([], [], color="black", marker=mark, linestyle="", label=label)
        for label, mark in (marks or {}).items()
    ]
    place: dict[str, Any] = {
        "loc": "lower center",
        "bbox_to_anchor": (0.5, 1.0),
        "ncols": len(handles),
    }
    axes.legend(handles=handles, frameon=False, fontsize=FONT_SIZE, handleheight=1.2, **place)


def count(number: int, noun: str) -> str:
    """`count(2, "step")` -> "2 steps"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
