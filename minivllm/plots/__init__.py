"""Figures of a trace: what the scheduler and the block pool decided, step by step.

Each function gives a `Picture`: a matplotlib figure, a sentence that sums it up, and a text for
those who can't see it. States differ in lightness and hatching too, so that a figure can be read in
grey. Matplotlib is imported when the first figure is drawn.
Reading order: `picture.py`, `requests.py`, `blocks.py`.
"""

from __future__ import annotations

from minivllm.plots.blocks import plot_block_pool, plot_block_table
from minivllm.plots.picture import Picture
from minivllm.plots.requests import plot_requests

__all__ = ["Picture", "plot_block_pool", "plot_block_table", "plot_requests"]
