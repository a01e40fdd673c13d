"""The dials of chapter 01 show what the package's RoPE does."""

from __future__ import annotations

import math

import pytest
import torch

from minivllm.course.frames.ch01 import frames
from minivllm.layers.rope_parameters import RopeParameters
from minivllm.layers.rotary import RotaryEmbedding, apply_rotary


def turned_ones(position: int, theta: float) -> torch.Tensor:
    """A head of 16 whose eight pairs all pointed right, turned by the package."""
    rotary = RotaryEmbedding(RopeParameters(theta=theta), head_dim=16)
    head = torch.cat((torch.ones(8), torch.zeros(8)))[None, None]
    return apply_rotary(head, *rotary(torch.tensor([position]), torch.float32))[0, 0]


@pytest.mark.parametrize(("position", "distance", "theta"), [(3, 4, 1e4), (103, 64, 1e6)])
def test_the_hands_point_where_the_package_turns_them(position, distance, theta):
    frame = frames(position, distance, theta)
    for where, angles in (
        (position, [dial.key for dial in frame.dials]),
        (position + distance, [dial.query for dial in frame.dials]),
    ):
        hands = torch.tensor([[math.cos(a), math.sin(a)] for a in angles])
        torch.testing.assert_close(turned_ones(where, theta), hands.T.flatten(), atol=1e-4, rtol=0)


def test_the_score_is_the_product_of_the_two_heads():
    key, query = turned_ones(3, 1e4), turned_ones(3 + 16, 1e4)
    assert frames(3, 16, 1e4).score == pytest.approx((query @ key).item() / 8, abs=1e-5)


def test_the_score_depends_on_the_distance_alone():
    scores = {round(frames(position, 16, 1e4).score, 9) for position in (3, 13, 103, 1003)}
    assert len(scores) == 1
    assert frames(3, 4, 1e4).score != frames(3, 5, 1e4).score


def test_at_distance_zero_all_hands_agree():
    assert frames(103, 0, 1e4).score == 1


def test_a_larger_theta_makes_all_pairs_but_the_first_slower():
    small, large = frames(3, 4, 1e4).dials, frames(3, 4, 1e6).dials
    assert small[0].period == large[0].period == math.tau
    assert all(a.period < b.period for a, b in zip(small[1:], large[1:], strict=True))
