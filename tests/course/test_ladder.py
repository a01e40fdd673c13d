"""The rungs of a tensor exercise: what is red where, what is accepted, and what is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from course_kit import ATTEND, DEMO_MUTANTS, SOLUTION, STUB, attempt, bank, report_on

from minivllm.course.bank import Bank
from minivllm.course.controls import survivors
from minivllm.course.declare import Output
from minivllm.course.examine import check_names, examine
from minivllm.course.ladder import property_mismatches
from minivllm.course.loading import run_source, take
from minivllm.course.probe import probes_of
from minivllm.course.registry import build_mutant
from minivllm.course.render import render

BODY = SOLUTION[SOLUTION.index("    group =") : SOLUTION.index("    # SOLUTION END")]
CALL = "torch.softmax(scores, dim=-1) @ values"


def written(body: str, before: str = ""):
    """The report on another body of `attend`; imports may stand before the function."""
    changes = [(BODY, "".join(f"    {line}\n" for line in body.splitlines()))]
    if before:
        changes.append(("def attend(", f"{before}\n\n\ndef attend("))
    return report_on(ATTEND, *changes)


def red_check(report) -> str:
    return report.checks[report.num_passed]


def fact(report, label: str) -> str:
    return dict(report.failure.facts)[label]


def test_the_solution_passes_every_check():
    report = report_on(ATTEND)
    assert report.passed
    assert report.num_passed == len(report.checks) == 14


def test_the_names_are_known_before_anything_runs():
    assert check_names(attempt(ATTEND, "raise SystemExit")) == list(report_on(ATTEND).checks)


@pytest.mark.parametrize(
    "body",
    [
        "heads = []\n"
        "for h in range(q.shape[1]):\n"
        "    g = h * k.shape[1] // q.shape[1]\n"
        "    s = torch.einsum('btd,bsd->bts', q[:, h], k[:, g]) * q.size(-1) ** -0.5\n"
        "    heads.append(s.softmax(-1) @ v[:, g])\n"
        "return torch.stack(heads, dim=1)",
        "b, h, t, d = q.shape\n"
        "grouped = q.reshape(b, k.size(1), -1, t, d)\n"
        "w = (torch.einsum('bgntd,bgsd->bgnts', grouped, k) / d ** 0.5).float()\n"
        "w = (w - w.amax(-1, keepdim=True)).exp()\n"
        "w = (w / w.sum(-1, keepdim=True))\n"
        "return torch.einsum('bgnts,bgsd->bgntd', w, v.float()).reshape(b, h, t, d).to(q.dtype)",
    ],
    ids=["a loop over heads", "einsum over groups, in float32"],
)
def test_right_answers_written_otherwise_are_accepted(body):
    report = written(body)
    assert report.passed, render(report)


@pytest.mark.parametrize(
    ("body", "check", "label", "text"),
    [
        ("return q[0]", "returns a tensor of the right shape", "", "shape (2,1,2), expected"),
        ("return 3", "returns a tensor of the right shape", "", "got int: 3"),
        ("return undefined", "returns a tensor of the right shape", "raised", "NameError"),
        ("raise SystemExit(0)", "returns a tensor of the right shape", "raised", "SystemExit"),
        ("return q.double()", "dtype and device", "", "dtype float64, expected float32"),
        ("return q / 0", "finite", "pattern", "NaN"),
        ("return q", "equal scores average", "pattern", "the output equals the argument q"),
    ],
)
def test_the_first_red_check_says_what_is_wrong(body, check, label, text):
    report = written(body)
    assert (report.state, red_check(report)) == ("NOT YET", check)
    assert any(text in found for name, found in report.failure.facts if name == label)


def test_an_error_points_to_the_learners_line():
    report = written("x = 1\nreturn x.missing")
    assert fact(report, "at") == "line 15 of exercises/ch90_demo.py: return x.missing"
    assert "Traceback" in report.failure.trace


def test_an_error_is_named_after_a_mutant_only_if_its_message_is_the_same():
    def raising(message):
        def attend(q, k, v):
            raise RuntimeError(message)

        return attend

    mutant = replace(DEMO_MUTANTS[0], id="attend.raises", says="an error", same_as=None)
    bank_of_one = Bank(ATTEND, [mutant], lambda _: raising("size 3 must match size 4"))
    for message, is_named in (("size 3 must match size 4", True), ("size 7 is no size", False)):
        report = examine(attempt(ATTEND, ready=raising(message)), bank_of_one)
        assert (report.failure.likely is not None) == is_named


def test_poisoned_memory_shows():
    report = written("return torch.empty_like(q)")
    assert red_check(report) == "finite"


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("def attend(q: Tensor, k:", "def attend(x: Tensor, k:", "attend(x, k, v)"),
        ("def attend(", "def attention(", "nothing of this name"),
        ("    group = q", "    group = (q", "SyntaxError"),
    ],
)
def test_signature_and_syntax(old, new, text):
    report = report_on(ATTEND, (old, new))
    assert report.num_passed == 0
    assert text in render(report)


@pytest.mark.parametrize(
    "body",
    ["pass", "...", "return None", "return", "raise NotImplementedError", "'''todo'''", "x = 1"],
)
def test_an_unfilled_body_is_not_started(body):
    report = written(body)
    assert (report.state, report.num_passed) == ("NOT STARTED", 0)
    assert len(render(report).splitlines()) == 3


def test_the_stub_is_not_started_even_behind_code():
    assert examine(attempt(ATTEND, STUB), Bank(ATTEND)).state == "NOT STARTED"
    report = written('x = q + 1\nraise ExerciseNotStarted("ch90.attend")')
    assert report.state == "NOT STARTED"


def test_a_changed_input_is_told_before_the_wrong_values_that_come_of_it():
    report = written("q *= 2\n" + "\n".join(BODY_LINES))
    assert fact(report, "changed").startswith("q ")
    assert "q[...] =" in report.failure.advice.look_at


def test_several_outputs_may_be_a_list_in_properties_too():
    outputs = (Output("a", axes="x"), Output("b", axes="x"))
    exercise = replace(ATTEND, outputs=outputs)
    x, y = torch.ones(2), torch.zeros(3)
    assert list(property_mismatches(exercise, [x, y], (x, y))) == []
    ((output, _),) = property_mismatches(exercise, [x, y], [x, y + 1])
    assert output.name == "b"


def test_a_changed_input_is_told_by_name():
    report = written("k.add_(1).sub_(1)\n" + "\n".join(BODY_LINES))
    assert (red_check(report), fact(report, "changed")) == (
        "inputs not changed",
        "k is not the same after the call",
    )


BODY_LINES = [line.removeprefix("    ") for line in BODY.splitlines()]


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("torch.set_default_dtype(torch.float64)", "torch's default dtype"),
        ("torch.set_grad_enabled(False)", "torch's grad mode"),
    ],
)
def test_a_changed_setting_of_torch_is_told_and_put_back(setting, name):
    report = written(f"{setting}\n" + "\n".join(BODY_LINES))
    assert fact(report, "changed").startswith(name)
    assert torch.get_default_dtype() == torch.float32
    assert torch.is_grad_enabled()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            "return torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)",
            "scaled_dot_product_attention is called: right, but this exercise asks you",
        ),
        ("for _ in range(600):\n    q = q * 1.0\n" + "\n".join(BODY_LINES), "operators run"),
    ],
)
def test_shortcuts_and_waste_are_seen(body, text):
    report = written(body)
    assert red_check(report) == "within the rules"
    assert text in fact(report, "rule")


@pytest.mark.parametrize(
    "line",
    [
        "from minivllm.attention.reference import attention",
        "import minivllm.attention.reference",
        "from transformers.models import qwen3",
        "import importlib\n\nimportlib.import_module('vllm')",
    ],
)
def test_importing_the_finished_part_is_seen(line):
    if "importlib" in line:
        line = "def unused():\n    import importlib\n\n    importlib.import_module('vllm')"
    report = (
        written("\n".join(BODY_LINES), before=line)
        if "def" in line
        else written(
            "\n".join(BODY_LINES),
            before=f"def unused():\n    {line}",
        )
    )
    assert red_check(report) == "built by yourself"
    assert report.failure.advice.look_at.startswith("the import")
    assert fact(report, "result") == "right, but this exercise asks you to build it"


@pytest.mark.parametrize(
    "mutant", [m for m in DEMO_MUTANTS if m.topic == "attend"], ids=lambda m: m.id
)
def test_each_mutant_is_named(mutant):
    target = build_mutant(mutant, ATTEND, SOLUTION)
    report = examine(attempt(ATTEND, ready=target), bank(ATTEND))
    if mutant.equivalent is not None:
        assert report.passed
    else:
        assert report.failure.likely[0] == mutant.id


def test_a_mistake_that_is_in_no_bank_offers_to_be_kept_without_code():
    report = written("\n".join(BODY_LINES).replace("-1) @", "-1).square() @"))
    assert report.failure.likely is None
    assert "--save" in fact(report, "unknown")
    kept = report.without_code()
    assert kept["check"] == "equal scores average"
    assert "square" not in str(kept)


def test_two_mistakes_at_once_are_not_named_as_one():
    report = written(
        "\n".join(BODY_LINES)
        .replace("k.repeat_interleave(group, dim=1)", "k.repeat(1, group, 1, 1)")
        .replace(" / q.shape[-1] ** 0.5", "")
    )
    assert report.failure.likely is None


def test_negative_controls_do_not_survive_but_would_be_seen():
    solution = take(run_source(SOLUTION, "<solution>"), ("attend",))
    probes = probes_of(ATTEND)
    assert list(survivors(ATTEND, probes, solution)) == []
    blind = [probe for probe in probes if probe.case.kind == "hand"]
    assert ("one row swapped", "out") not in survivors(ATTEND, blind, solution)


def test_the_tolerance_is_the_references_own_error():
    at_60 = next(p for p in probes_of(ATTEND) if p.case.name == "scores of 60")
    in_half = next(p for p in probes_of(ATTEND) if p.case.name == "half precision")
    assert 1e-6 < at_60.allowed[0].max() < 1e-3
    assert 1e-4 < in_half.allowed[0].max() < 1e-2
