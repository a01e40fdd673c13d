"""The data of chapter 03's widget: rows that are written, written over, or never reached."""

from __future__ import annotations

import pytest

from minivllm.course.frames.ch03 import Frame, Piece, frames

PARTS = {"qkv": {"q": 4, "k": 2, "v": 2}, "gate_up": {"gate": 3, "up": 3}}
ORDER = ("q", "k", "gate", "up", "v")


def held(frame: Frame, parameter: str) -> list[tuple[int, int, str | None]]:
    return [(p.start, p.stop, p.tensor) for p in frame.pieces[parameter]]


def test_the_first_frame_holds_one_tensor_and_empty_rows():
    first = frames(PARTS, ORDER)[0]
    assert (first.tensor, first.parameter, first.start, first.stop) == ("q", "qkv", 0, 4)
    assert held(first, "qkv") == [(0, 4, "q"), (4, 8, None)]
    assert first.pieces["gate_up"] == (Piece(start=0, stop=6, tensor=None),)
    assert first.num_unwritten == 4 + 6


@pytest.mark.parametrize("order", [ORDER, ORDER[::-1], ("up", "v", "q", "gate", "k")])
def test_the_last_frame_is_the_same_in_any_order(order):
    last = frames(PARTS, order)[-1]
    assert held(last, "qkv") == [(0, 4, "q"), (4, 6, "k"), (6, 8, "v")]
    assert held(last, "gate_up") == [(0, 3, "gate"), (3, 6, "up")]
    assert last.num_unwritten == 0


def test_a_start_that_stays_writes_over_q_and_leaves_rows_empty():
    steps = frames(PARTS, ORDER, start_moves=False)
    assert [(f.start, f.stop) for f in steps] == [(0, 4), (0, 2), (0, 3), (0, 3), (0, 2)]
    assert held(steps[1], "qkv") == [(0, 2, "k"), (2, 4, "q"), (4, 8, None)]
    assert held(steps[-1], "qkv") == [(0, 2, "v"), (2, 4, "q"), (4, 8, None)]
    assert held(steps[-1], "gate_up") == [(0, 3, "up"), (3, 6, None)]
    assert steps[-1].num_unwritten == 4 + 3


def test_an_earlier_frame_does_not_change_when_a_later_one_is_made():
    steps = frames(PARTS, ORDER)
    assert [frame.num_unwritten for frame in steps] == [10, 8, 5, 2, 0]
