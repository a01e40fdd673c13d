"""The n-gram models against sums by hand, and copied spans against a search word by word."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.checkpoint.baselines import NGramModel, longest_copies, span_hashes

ROWS = np.array([[0, 1, 2, 0, 1, 2, 1], [1, 2, 2, 0, 1, 0, 2]], np.uint16)


def witten_bell(rows, vocab_size, context, token):
    """The probability of `token` after `context`, straight from the definition."""
    if len(context) == 0:
        lower = 1 / vocab_size
    else:
        lower = witten_bell(rows, vocab_size, context[1:], token)
    length = len(context) + 1
    spans = [tuple(row[i : i + length]) for row in rows for i in range(len(row) - length + 1)]
    followers = Counter(span[-1] for span in spans if span[:-1] == tuple(context))
    total, kinds = sum(followers.values()), len(followers)
    return (followers[token] + kinds * lower) / (total + kinds) if total else lower


@pytest.mark.parametrize("order", [1, 2, 3])
def test_loss_is_that_of_the_definition(order):
    test_rows = np.array([[2, 1, 0, 0, 2, 1]], np.uint16)
    rows = ROWS.tolist()
    probs = [
        witten_bell(rows, 3, test_rows[0, i - order + 1 : i].tolist(), test_rows[0, i])
        for i in range(order - 1, 6)
    ]
    expected = -sum(map(math.log, probs)) / len(probs)
    assert NGramModel(ROWS, order).loss(test_rows) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("context", [(), (1,), (1, 2), (2, 2), (0, 0)])
def test_probabilities_add_up_to_one(context):
    order = len(context) + 1
    model = NGramModel(ROWS, order)
    probs = [math.exp(-model.loss(np.array([[*context, token]]))) for token in range(3)]
    assert sum(probs) == pytest.approx(1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 60))
def test_equal_spans_and_no_others_have_equal_hashes(tokens, length):
    if length > len(tokens):
        return
    hashes = span_hashes(np.array(tokens, np.uint16), length).tolist()
    spans = [tuple(tokens[i : i + length]) for i in range(len(tokens) - length + 1)]
    assert len(hashes) == len(spans)
    assert len(set(zip(spans, hashes, strict=True))) == len(set(spans)) == len(set(hashes))


def longest_common_span(text, sample):
    text_of = ",".join(map(str, text)) + ","
    best = 0
    for i in range(len(sample)):
        while ("," + text_of).find("," + ",".join(map(str, sample[i : i + best + 1])) + ",") >= 0:
            if i + best >= len(sample):
                break
            best += 1
    return best


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 2), min_size=20, max_size=80),
    st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=4),
)
def test_the_longest_copy_is_found(text, samples):
    rows = np.array([[*text, 0]], np.uint16)  # the last token of a row is only a target
    expected = max(longest_common_span(text, sample) for sample in samples)
    assert longest_copies(rows, samples)["longest"] == expected
