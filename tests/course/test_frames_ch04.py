"""The data of chapter 04's chart and of its two loops, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from minivllm.course.frames.ch04 import computed_tokens, frames
from minivllm.sample.logits import apply_top_k_top_p

PROBS = {"a": 0.1, "b": 0.5, "c": 0.3, "d": 0.1}
LOGITS = {token: math.log(prob) for token, prob in PROBS.items()}


def by_token(*knobs):
    return {bar.token: bar for bar in frames(LOGITS, *knobs)}


def test_the_most_likely_token_comes_first():
    assert [bar.token for bar in frames(LOGITS, 1.0, 0, 1.0)] == ["b", "c", "a", "d"]


def test_without_knobs_the_chances_are_the_models_own():
    for token, bar in by_token(1.0, 0, 1.0).items():
        assert bar.before == pytest.approx(PROBS[token])
        assert bar.after == pytest.approx(PROBS[token])
        assert bar.ruled_out_by == ""


def test_a_temperature_of_a_half_squares_probabilities():
    bars = by_token(0.5, 0, 1.0)
    assert bars["b"].after == pytest.approx(0.25 / 0.36)
    assert bars["b"].before == pytest.approx(0.5)


def test_a_temperature_of_0_leaves_one_token():
    bars = by_token(0, 0, 1.0)
    assert bars["b"].after == 1
    assert [bars[token].ruled_out_by for token in "acd"] == ["greedy"] * 3


def test_top_k_shares_out_what_it_rules_out():
    bars = by_token(1.0, 2, 1.0)
    assert (bars["b"].after, bars["c"].after) == pytest.approx((0.625, 0.375))
    assert bars["a"].ruled_out_by == bars["d"].ruled_out_by == "top-k"
    assert bars["a"].after == 0


def test_top_k_keeps_ties():
    assert [bar.ruled_out_by for bar in frames(LOGITS, 1.0, 3, 1.0)] == [""] * 4


def test_top_p_keeps_the_token_with_which_the_sum_reaches_p():
    marks = {token: bar.ruled_out_by for token, bar in by_token(1.0, 0, 0.6).items()}
    assert marks == {"a": "top-p", "b": "", "c": "", "d": "top-p"}


def test_a_tiny_p_keeps_one_token():
    assert by_token(1.0, 0, 0.01)["b"].after == 1


def test_temperature_comes_before_top_p():
    num_kept = [
        sum(not bar.ruled_out_by for bar in frames(LOGITS, temperature, 0, 0.75))
        for temperature in (0.3, 1.0, 3.0)
    ]
    assert num_kept == [1, 2, 3]


def test_the_chart_agrees_with_the_package():
    gen = torch.Generator().manual_seed(3)
    for k, p in ((0, 1.0), (5, 1.0), (0, 0.7), (4, 0.8)):
        row = 2 * torch.randn(11, generator=gen)
        logits = {str(i): value for i, value in enumerate(row.tolist())}
        kept = apply_top_k_top_p(row[None] / 0.7, torch.tensor([k]), torch.tensor([p]))
        expected = kept[0].softmax(-1).tolist()
        for bar in frames(logits, 0.7, k, p):
            assert bar.after == pytest.approx(expected[int(bar.token)], abs=1e-6)


def test_the_loops_compute_n_squared_and_n():
    assert computed_tokens(3, 2) == ([3, 4], [3, 1])
    assert computed_tokens(5, 1) == ([5], [5])
    naive, cached = computed_tokens(100, 100)
    assert (sum(naive), sum(cached)) == (14_950, 199)
