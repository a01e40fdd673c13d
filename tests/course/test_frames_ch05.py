"""The data of chapter 05, of its widget and its figure of tiles, against numbers on paper."""

from __future__ import annotations

import math
import random

import pytest

from minivllm.course.frames.ch05 import frames, visited_tiles

SCORES = [math.log(x) for x in (1, 2, 4, 1, 8)]
VALUES = [8.0, 4.0, 2.0, 16.0, 3.0]


def test_the_steps_are_those_on_paper():
    steps = frames(SCORES, VALUES, tile=2)
    assert [(f.start, f.stop) for f in steps] == [(0, 2), (2, 4), (4, 5)]
    assert [f.row_max for f in steps] == pytest.approx([math.log(x) for x in (2, 4, 8)])
    assert [f.correction for f in steps] == pytest.approx([0, 1 / 2, 1 / 2])
    assert [f.row_sum for f in steps] == pytest.approx([1.5, 2, 2])
    assert [f.acc for f in steps] == pytest.approx([8, 10, 8])
    assert [f.output for f in steps] == pytest.approx([16 / 3, 5, 4])
    assert [f.lse for f in steps] == pytest.approx([math.log(x) for x in (3, 8, 16)])


@pytest.mark.parametrize("tile", [1, 2, 3, 5, 7, 40])
def test_the_last_frame_does_not_depend_on_the_tile(tile):
    rng = random.Random(0)
    scores = [rng.uniform(-60, 60) for _ in range(23)]
    values = [rng.uniform(-1, 1) for _ in range(23)]
    weights = [math.exp(score - max(scores)) for score in scores]
    output = sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)
    last = frames(scores, values, tile)[-1]
    assert last.output == pytest.approx(output)
    assert last.lse == pytest.approx(max(scores) + math.log(sum(weights)))


def test_a_maximum_that_stays_corrects_by_one():
    steps = frames([5.0, 1.0, 2.0, 3.0], [1.0] * 4, tile=2)
    assert steps[1].correction == 1
    assert steps[1].row_max == 5


def test_a_prompt_visits_the_triangle():
    assert visited_tiles(5, 5, 0, (2, 2)) == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
    ]
    assert sum(map(sum, visited_tiles(1024, 1024, 0, (64, 64)))) == 16 * 17 // 2


def test_a_chunk_visits_what_came_before():
    assert visited_tiles(4, 8, 4, (2, 4)) == [[True, True], [True, True]]
    assert visited_tiles(4, 8, 2, (2, 4)) == [[True, False], [True, True]]


def test_keys_that_come_later_than_all_queries_are_not_visited():
    assert visited_tiles(2, 4, -2, (2, 2)) == [[False, False]]
