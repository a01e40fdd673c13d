"""Figures of a notebook, each with words for those who can't see it, and figures that can be moved.

Next file to read: `notebook.py`.
"""

from __future__ import annotations

import base64
import html
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette: told apart with every kind of colour vision.
OKABE_ITO = (
    "#000000",
    "#E69F00",
    "#56B4E9",
    "#009E73",
    "#F0E442",
    "#0072B2",
    "#D55E00",
    "#CC79A7",
)
_MAX_CONTROLS = 3
_MIN_ALT = 40  # characters; less can't say what a figure shows
_DPI = 100


def png_of(figure: Figure) -> bytes:
    """The figure as a file; it is closed, so that the notebook does not show it again."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI)
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close(figure)
    return buffer.getvalue()


def show(figure: Figure, *, summary: str, alt: str) -> None:
    """Show a figure, and print one sentence on what is to be seen in it.

    Args:
        figure: The figure.
        summary: The sentence.
        alt: What the figure shows, for those who can't see it.

    Raises:
        ValueError: The text is too short to say anything.
    """
    if len(alt) < _MIN_ALT:
        raise ValueError(f"{alt=} says too little: what would you tell someone on the phone?")
    _put(figure, alt)
    print(summary)


def explore(draw: Callable[..., Figure], *, alt: str | Callable[..., str], **controls: Any) -> None:
    """Show `draw` at its first values, and below it, in a live notebook, controls to change them.

    Args:
        draw: Is called with one value of each control, by name.
        alt: What the figure shows; a function of the same values, or one text for all.
        **controls: Name -> a `range` (a slider), a list (a choice), or a bool (a box to tick).

    Raises:
        ValueError: There are more than three controls.
    """
    if not 1 <= len(controls) <= _MAX_CONTROLS:
        raise ValueError(f"{len(controls)} controls: a reader can follow one to {_MAX_CONTROLS}")
    first = {name: _first(values) for name, values in controls.items()}
    _put(draw(**first), _alt(alt, first))
    if is_live():
        _display(_moving(draw, alt, controls))


def is_live() -> bool:
    """Whether someone may move a control: not while notebooks are built, nor without ipywidgets."""
    if os.environ.get("MINIVLLM_STATIC"):
        return False
    return importlib.util.find_spec("ipywidgets") is not None


def _put(figure: Figure, alt: str) -> None:
    image = base64.b64encode(png_of(figure)).decode()
    _display(
        {"image/png": image, "text/plain": alt}, raw=True, metadata={"image/png": {"alt": alt}}
    )


def _display(*objects: Any, **options: Any) -> None:
    module: Any = importlib.import_module("IPython.display")
    module.display(*objects, **options)


def _widgets() -> Any:
    return importlib.import_module("ipywidgets")


def _moving(draw: Callable[..., Figure], alt: str | Callable[..., str], controls: Any) -> Any:
    ipywidgets = _widgets()

    boxes = {name: _control(name, values) for name, values in controls.items()}
    picture = ipywidgets.HTML("Move a control: the figure is drawn again here.")

    def redraw(_: Any) -> None:
        values = {name: box.value for name, box in boxes.items()}
        image = base64.b64encode(png_of(draw(**values))).decode()
        text = html.escape(_alt(alt, values), quote=True)
        picture.value = f'<img src="data:image/png;base64,{image}" alt="{text}">'

    for box in boxes.values():
        box.observe(redraw, names="value")
    return ipywidgets.VBox([*boxes.values(), picture])


def _control(name: str, values: Any) -> Any:
    ipywidgets = _widgets()

    options: dict[str, Any] = {
        "description": name.replace("_", " "),
        "style": {"description_width": "initial"},
    }
    if isinstance(values, bool):
        return ipywidgets.Checkbox(value=values, **options)
    if isinstance(values, range):
        return ipywidgets.IntSlider(
            value=values.start,
            min=values.start,
            max=values[-1],
            step=values.step,
            continuous_update=False,
            **options,
        )
    return ipywidgets.Dropdown(options=list(values), value=values[0], **options)


def _first(values: Any) -> Any:
    return values if isinstance(values, bool) else values[0]


def _alt(alt: str | Callable[..., str], values: dict[str, Any]) -> str:
    return alt if isinstance(alt, str) else alt(**values)
