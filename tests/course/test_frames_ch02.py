"""The mask of chapter 02's widget is the package's."""

from __future__ import annotations

import pytest
import torch

from minivllm.attention.groups import PrefillGroup, VisibleKeys
from minivllm.course.frames.ch02 import frames


def mask_of(frame):
    mask = torch.zeros(len(frame.rows), frame.num_keys, dtype=torch.bool)
    for i, row in enumerate(frame.rows):
        mask[i, row.first : row.last + 1] = True
    return mask


@pytest.mark.parametrize(
    ("queries", "cached", "window"),
    [(2, 3, None), (4, 1, 2), (1, 8, None), (1, 8, 3), (6, 0, 4), (3, 5, 1), (3, 5, 99)],
)
def test_the_rows_see_what_the_package_shows_them(queries, cached, window):
    positions = torch.arange(cached + queries)[None]
    keys = VisibleKeys(positions, positions, torch.ones_like(positions, dtype=torch.bool))
    expected = PrefillGroup.make(slice(0, queries), keys, window).mask
    assert torch.equal(mask_of(frames(queries, cached, window)), expected)


def test_two_queries_after_three_cached_tokens():
    frame = frames(2, 3)
    assert [(row.position, row.first, row.last) for row in frame.rows] == [(3, 0, 3), (4, 0, 4)]
    assert (frame.num_keys, frame.num_seen) == (5, 9)


def test_a_prompt_is_a_triangle():
    frame = frames(5, 0)
    assert [row.num_seen for row in frame.rows] == [1, 2, 3, 4, 5]


def test_the_kind_follows_from_both_numbers():
    kinds = [frames(*pair).kind for pair in ((5, 0), (1, 0), (2, 3), (1, 3))]
    assert kinds == ["prefill", "prefill", "chunk", "decode"]


def test_a_window_limits_what_a_row_sees():
    assert [row.num_seen for row in frames(4, 0, 2).rows] == [1, 2, 2, 2]
