"""Training in miniature: it learns, and a run that was stopped goes on as if it never had been."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from tools.checkpoint import train as stage


@pytest.fixture
def work(tmp_path, monkeypatch):
    """Rows of a language that counts up, and a model of a few thousand parameters."""
    small = {"vocab_size": 32, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1}
    small |= {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8}
    monkeypatch.setattr(stage, "CONFIG", stage.CONFIG | small)
    for name, value in {
        "ROWS_PER_STEP": 4,
        "WARM_UP": 2,
        "LOOK_EVERY": 5,
        "WORK": tmp_path,
    }.items():
        monkeypatch.setattr(stage, name, value)
    monkeypatch.setattr(stage, "HISTORY", tmp_path / "history.json")
    rows = (np.arange(12)[:, None] + np.arange(17)) % 32
    for name in ("train", *stage.HELD_OUT):
        np.save(tmp_path / f"{name}.npy", rows.astype(np.uint16))
    return tmp_path


def weights(path):
    return torch.load(path, weights_only=True)["model"]


def test_it_learns_and_keeps_its_losses(work):
    stage.train(1, 40, work / "state.pt")
    history = json.loads((work / "history.json").read_text())
    assert [look["step"] for look in history] == list(range(5, 45, 5))
    assert history[-1]["held_out_program"] < 0.7 * history[0]["held_out_program"]


def test_a_run_that_was_stopped_ends_with_the_same_weights(work, monkeypatch):
    stage.train(1, 12, work / "whole.pt")
    clock = iter(range(1000))
    monkeypatch.setattr(stage.time, "monotonic", lambda: next(clock))
    for _ in range(8):  # each call has the time for a few steps
        stage.train(4 / 60, 12, work / "parts.pt")
    assert torch.load(work / "parts.pt", weights_only=True)["step"] == 12
    for name, expected in weights(work / "whole.pt").items():
        torch.testing.assert_close(weights(work / "parts.pt")[name], expected, rtol=0, atol=0)


def test_each_pass_takes_every_row_once():
    steps = [stage.rows_of_step(step, 3 * stage.ROWS_PER_STEP + 5) for step in range(6)]
    for start in (0, 3):
        rows = np.concatenate(steps[start : start + 3])
        assert len(set(rows)) == len(rows) == 3 * stage.ROWS_PER_STEP
    assert not np.array_equal(steps[0], steps[3])


def test_the_learning_rate_rises_and_falls():
    rates = [stage.learning_rate(step, 1000) for step in range(1000)]
    assert rates[stage.WARM_UP] == max(rates) == pytest.approx(stage.PEAK_RATE)
    assert rates[0] < rates[10] < rates[100]
    assert rates[-1] == pytest.approx(0.01 * stage.PEAK_RATE, rel=0.01)
