"""Right answers to chapter 00, written otherwise than the solution."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from test_alternatives_ch02 import report_on

from minivllm.course.render import render


def with_divmod(num_tokens, block_size):
    full, rest = divmod(num_tokens, block_size)
    return full + (rest > 0)


def counted(num_tokens, block_size):
    """Slow, one block after the other: in time for the largest case, too."""
    num_blocks = 0
    while num_blocks * block_size < num_tokens:
        num_blocks += 1
    return num_blocks


def by_a_range(num_tokens, block_size):
    return len(range(0, num_tokens, block_size))


def by_fractions(num_tokens, block_size):
    return math.ceil(Fraction(num_tokens, block_size))


def last_token(num_tokens, block_size):
    """The block of the last token, from 0, and one."""
    return (num_tokens - 1) // block_size + 1


@pytest.mark.parametrize("f", [with_divmod, counted, by_a_range, by_fractions, last_token])
def test_a_right_answer_written_otherwise_passes(f):
    report = report_on("ch00.blocks_needed", f)
    assert report.passed, render(report)
