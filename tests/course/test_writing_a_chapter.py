"""The page for chapter authors is right: its example runs, and every name in it exists."""

from __future__ import annotations

import re

import torch
from course_kit import attempt

from minivllm.course import declare, notebook
from minivllm.course.bank import Bank
from minivllm.course.examine import examine
from minivllm.course.stubs import ROOT

PAGE = (ROOT / "docs" / "writing_a_chapter.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def rms_norm(x, weight, eps):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def test_the_worked_example_accepts_right_and_refuses_wrong():
    names = {"torch": torch, **vars(declare)}
    exec(BLOCKS[0], names)
    task = names["rms_norm"]
    assert examine(attempt(task, ready=rms_norm), Bank(task)).passed
    wrong = examine(attempt(task, ready=lambda x, w, eps: rms_norm(x, w, 1e-5)), Bank(task))
    assert wrong.checks[wrong.num_passed] in ("random inputs", "tiny values show eps")
    sdpa = examine(
        attempt(task, ready=lambda x, w, e: torch.nn.functional.rms_norm(x, w.shape, w, e)),
        Bank(task),
    )
    assert sdpa.checks[sdpa.num_passed] == "within the rules"


def test_every_declaration_and_notebook_function_is_named():
    assert [name for name in declare.__all__ if name not in PAGE] == []
    line = re.search(r"from minivllm.course.notebook import (.+)", PAGE)[1]
    assert set(line.split(", ")) <= set(notebook.__all__)


def test_it_is_short():
    assert len(PAGE.splitlines()) <= 150
