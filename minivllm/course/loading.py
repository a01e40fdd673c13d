"""Runs an exercise file, as it lies there now, and takes out of it what an exercise is about.

Next file to read: `registry.py`.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


def run_source(source: str, filename: str) -> ModuleType:
    """The module that `source` makes; `filename` is where its tracebacks point to."""
    name = f"exercises.{Path(filename).stem}"
    module = ModuleType(name)
    module.__file__ = filename
    # Tracebacks, and Triton, read a function's text from here: the file may have changed since.
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    sys.modules[name] = module  # a dataclass looks up its module here
    exec(compile(source, filename, "exec"), module.__dict__)
    return module


def take(module: ModuleType, names: tuple[str, ...]) -> Any:
    """The one object of this name, or one with an attribute for each of several."""
    found = {name: getattr(module, name) for name in names}
    return next(iter(found.values())) if len(found) == 1 else SimpleNamespace(**found)
