"""Children's stories made by a program: training data for the small checkpoint.

`random_request` draws what a story is about, `ask` puts it in a user's words, `tell` tells it.
Start reading in `lexicon.py`, then `telling.py`, then one of the `plots_*.py`.
"""

from __future__ import annotations

from tools.checkpoint.stories.request import Request, ask, random_request
from tools.checkpoint.stories.story import tell

__all__ = ["Request", "ask", "random_request", "tell"]
