"""Finds a learner's exercise file, and says how one function of it is doing.

The functions live in `exercises/`, which the learner edits. `MINIVLLM_EXERCISES` names another
folder: with `MINIVLLM_EXERCISES=solutions` a notebook runs on the finished ones.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from minivllm.course.errors import ExerciseNotStarted
from minivllm.course.stubs import ROOT


def load_exercise(name: str) -> ModuleType:
    """The module `name` of the exercise folder, read anew at each call so that edits count.

    Raises:
        FileNotFoundError: There is no such file.
    """
    folder = Path(os.environ.get("MINIVLLM_EXERCISES", "exercises"))
    path = ROOT / folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"exercises.{name}", path)
    assert spec is not None, "a .py path always has a spec"
    assert spec.loader is not None, "a .py path always has a loader"
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(function: Callable[..., Any], cases: Iterable[tuple[tuple[Any, ...], Any]]) -> str:
    """One line on `function`: NOT STARTED, NOT YET with the first case that fails, or PASSED.

    Args:
        function: The learner's.
        cases: Pairs of arguments and the value expected for them.
    """
    num_cases = 0
    for arguments, expected in cases:
        call = f"{function.__name__}({', '.join(map(repr, arguments))})"
        try:
            found = function(*arguments)
        except ExerciseNotStarted as error:
            return f"{error}: NOT STARTED"
        except Exception as error:  # a learner's code may raise anything, and the notebook goes on
            return f"{call}: NOT YET, it raised {type(error).__name__}: {error}"
        if type(found) is not type(expected) or found != expected:
            return f"{call}: NOT YET, it gave {found!r}, expected {expected!r}"
        num_cases += 1
    return f"{function.__name__}: PASSED {num_cases} cases"
