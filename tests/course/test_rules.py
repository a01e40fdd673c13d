"""What the spy sees, and the forms of exercise that the demo chapter does not have."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from course_kit import attempt

from minivllm.course.bank import Bank
from minivllm.course.declare import Exercise, Output, Rules, by_hand, sampled
from minivllm.course.examine import examine
from minivllm.course.fixtures import poisoned, ragged, strided
from minivllm.course.render import render
from minivllm.course.spy import Poison, Spy
from minivllm.course.stubs import ROOT

X = torch.ones(4, 4)


def test_the_spy_counts_operators_and_what_they_make():
    with Spy() as spy:
        y = (X + 1).T
        y @ torch.ones(4, 8)
    assert spy.calls["mm"] == 1
    assert spy.largest == 32
    assert (4, 8) in spy.shapes
    assert spy.bytes == 4 * (16 + 32 + 32)  # the sum, the ones, the product; no view
    assert spy.num_ops >= 4


@pytest.mark.parametrize(
    "call",
    [
        lambda q: F.scaled_dot_product_attention(q, q, q),
        lambda q: torch.ops.aten.scaled_dot_product_attention(q, q, q),
        lambda q: torch._C._nn.scaled_dot_product_attention(q, q, q),
    ],
)
def test_fused_attention_is_seen_however_it_is_called(call):
    with Spy() as spy:
        call(torch.ones(1, 2, 3, 4))
    assert spy.uses("scaled_dot_product_attention")
    assert not Spy().uses("scaled_dot_product_attention")


@pytest.mark.parametrize(
    "call",
    [lambda x: x.softmax(-1), lambda x: torch.softmax(x, -1), lambda x: torch.nn.Softmax(-1)(x)],
)
def test_a_banned_function_is_seen_in_each_of_its_spellings(call):
    with Spy() as spy:
        call(X)
    assert spy.uses("softmax")
    assert not spy.uses("log_softmax")


def test_squares_are_seen_but_not_rows():
    with Spy() as spy:
        torch.zeros(2, 9, 9)
        torch.zeros(2, 9, 4)
        torch.zeros(9, 1).expand(9, 9)
    assert spy.squares(9) == [(2, 9, 9)]


def test_memory_that_was_never_written_is_nan():
    with Poison():
        assert torch.empty(3).isnan().all()
        assert torch.empty_like(X).isnan().all()
        assert X.new_empty(2).isnan().all()
        assert (torch.empty(2, dtype=torch.int64) == -99).all()
        assert torch.zeros(2).isfinite().all()


def scaled(x, factor):
    return x * factor


def make(gen):
    return {"x": torch.randn(6, 5, generator=gen), "factor": 2.0}


def exercise(**changes):
    fields = {
        "id": "ch90.scaled",
        "outputs": Output("y", axes="row dim"),
        "oracle": scaled,
        "cases": (sampled("random", make),),
        "hints": ("a", "b", "c"),
        "look_at": "the product",
        "try_it": "1 times 2",
    }
    return Exercise(**{**fields, **changes})


def result(task, target):
    return examine(attempt(task, ready=target), Bank(task))


def red(report):
    return report.checks[report.num_passed], dict(report.failure.facts)


@pytest.mark.parametrize(
    ("rules", "body", "text"),
    [
        (Rules(no_square=lambda a: 6), lambda x, f: x * f + 0 * (x @ x.T)[:, :5], "(6, 6)"),
        (Rules(max_elements=lambda a: 30), lambda x, f: (x.repeat(2, 1) * f)[:6], "60 elements"),
        (Rules(max_ops=3), lambda x, f: x * 1 * 1 * 1 * f, "operators run"),
        (Rules(banned=("mul",)), scaled, "mul is called"),
    ],
)
def test_each_limit_is_kept(rules, body, text):
    assert result(exercise(rules=replace(rules, banned=())), scaled).passed
    name, facts = red(result(exercise(rules=rules), body))
    assert name == "within the rules"
    assert text in facts["rule"]


def test_executed_lines_are_limited():
    def slow(x, factor):
        for _ in range(50):
            factor = factor * 1.0
        return x * factor

    rules = Rules(max_lines=20)
    assert result(exercise(rules=rules), scaled).passed
    assert "lines of yours are executed" in red(result(exercise(rules=rules), slow))[1]["rule"]


def test_the_case_that_is_watched_can_be_named():
    small = by_hand("small", lambda: {"x": torch.ones(1, 1), "factor": 2.0}, 2 * torch.ones(1, 1))
    task = exercise(
        cases=(small, sampled("random", make)), rules=Rules(max_elements=lambda a: 1, on="small")
    )
    assert result(task, scaled).passed


def test_several_outputs_are_told_apart():
    task = exercise(
        outputs=(Output("twice", axes="row dim"), Output("sum", axes="row")),
        oracle=lambda x, f: (x * f, x.sum(-1)),
    )
    assert result(task, lambda x, f: (x * f, x.sum(-1))).passed
    report = result(task, lambda x, f: (x * f, x.sum(-1) + 1))
    assert "sum shape ok (6,)" in render(report)
    assert "returns values of the right kind" in red(result(task, lambda x, f: x * f))[0]


def write(cache, x):
    cache[1:3] = x


def make_cache(gen):
    return {"cache": poisoned(4, 3), "x": torch.randn(2, 3, generator=gen)}


def test_a_cache_that_is_written_in_place_keeps_what_it_does_not_own():
    task = exercise(
        outputs=Output("cache", axes="slot dim", inplace=True),
        oracle=write,
        cases=(sampled("random", make_cache),),
    )
    assert result(task, write).passed
    report = result(task, lambda cache, x: cache.copy_(x.repeat(2, 1)))
    assert "first mismatch at [slot=0, dim=0]" in render(report)
    assert result(task, lambda cache, x: None).state == "NOT YET"


def test_places_can_be_left_out():
    task = exercise(
        outputs=Output("y", axes="row dim", ignore=lambda a: torch.arange(5).expand(6, 5) > 3)
    )
    assert result(task, lambda x, f: torch.cat([x[:, :4] * f, x[:, 4:]], 1)).passed
    assert not result(task, lambda x, f: torch.cat([x[:, :3] * f, x[:, 3:]], 1)).passed


def test_a_class_or_several_functions_are_used_as_run_says():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return x * self.factor

    task = exercise(names=("Scale",), run=lambda mine, x, factor: mine(factor)(x))
    assert result(task, Scale).passed


@pytest.mark.parametrize(
    ("value", "passes"), [(3, True), (3.0, False), (True, False), ("3", False), (4, False)]
)
def test_python_values_are_exact_and_of_the_right_type(value, passes):
    case = by_hand("three", lambda: {"a": 1}, 3)
    task = exercise(outputs=Output("n"), oracle=lambda a: 3, cases=(case,))
    assert result(task, lambda a: value).passed is passes


def test_integer_tensors_are_exact():
    case = sampled("ids", lambda gen: {"ids": torch.tensor([3, 1, 2])})
    task = exercise(outputs=Output("order", axes="place"), oracle=torch.argsort, cases=(case,))
    assert result(task, torch.argsort).passed
    assert not result(task, lambda ids: torch.argsort(ids).int()).passed
    assert not result(task, lambda ids: torch.argsort(ids).flip(0)).passed


def test_half_precision_may_err_twice_as_much_as_a_right_answer():
    def halves(gen):
        return {"x": torch.randn(64, 64, generator=gen).half(), "factor": 3.0}

    task = exercise(cases=(sampled("half", halves),))
    assert result(task, lambda x, f: (x.float() * f).half()).passed
    assert not result(task, lambda x, f: (x.float() * (f + 0.02)).half()).passed


def test_a_reference_that_overflows_is_a_mistake_of_the_checks():
    task = exercise(
        oracle=lambda x, f: x.square(),
        cases=(sampled("large", lambda gen: {"x": torch.full((2, 2), 300.0).half(), "f": 1}),),
    )
    with pytest.raises(AssertionError, match="overflows"):
        result(task, lambda x, f: x.square())


def test_fixtures():
    x = torch.randn(3, 4)
    assert torch.equal(strided(x), x)
    assert not strided(x).is_contiguous()
    assert ragged(4) == (1, 3, 4, 5, 8, 23)
    assert poisoned(2, 3).isnan().all()
    assert math.isnan(strided(torch.ones(2)).as_strided((4,), (1,))[1])


KERNEL = """
import torch, triton, triton.language as tl
from dataclasses import replace
from minivllm.course.declare import Exercise, Output, Rules, sampled
from minivllm.course.probe import probes_of
from minivllm.course.rules import watch

@triton.jit
def double(x, y, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(y + i, tl.load(x + i) * 2)

def twice(x):
    y = torch.empty_like(x)
    double[(1,)](x, y, n=8)
    double[(1,)](x, y, n=8)
    return y

task = Exercise(id="ch90.twice", outputs=Output("y", axes="i"), oracle=lambda x: x * 2,
                cases=(sampled("r", lambda gen: {"x": torch.randn(8, generator=gen)}),),
                hints=("a", "b", "c"), look_at="", try_it="")
seen = watch(twice, probes_of(task)[0])
print(seen.num_launches, seen.error)
"""


def test_triton_launches_are_counted(tmp_path):
    pytest.importorskip("triton")
    script = tmp_path / "kernel.py"
    script.write_text(KERNEL)
    environment = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(ROOT)}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert run.stdout.strip() == "2 None", run.stderr
