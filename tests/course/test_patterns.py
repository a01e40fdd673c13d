"""Each detector says what it is for, and nothing where that is not so."""

from __future__ import annotations

import math

import pytest
import torch

from minivllm.course import diagnose, places
from minivllm.course.compare import compare_tensor
from minivllm.course.facts import shown_apart
from minivllm.course.scene import Scene

AXES = ("head", "token", "dim")


def scene(got, expected, axes=AXES, **known):
    got, expected = torch.as_tensor(got), torch.as_tensor(expected)
    wrong = ~((got == expected) | (got.isnan() & expected.isnan()))
    return Scene(got=got, expected=expected, wrong=wrong, axes=axes[: got.dim()], **known)


def right(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def spoiled(expected, *places_):
    got = expected.clone()
    for place in places_:
        got[place] = got[place] * -1.7 + 3 * torch.rand_like(got[place])
    return scene(got, expected)


@pytest.mark.parametrize(
    ("factor", "text"),
    [
        (2.0, "2 times"),
        (8**0.5, "2.828 (sqrt(8)) times"),
        (-1.0, "-1 times"),
        (0.125, "0.125 times"),
    ],
)
def test_constant_factor(factor, text):
    x = right(2, 3, 4)
    assert text in diagnose.constant_factor(scene(x * factor, x))
    assert diagnose.constant_factor(scene(x + 1, x)) is None


def test_constant_offset():
    x = right(2, 3, 4)
    assert diagnose.constant_offset(scene(x + 0.5, x)) == (
        "every wrong value is the right one plus 0.5"
    )
    assert diagnose.constant_offset(scene(x * 2, x)) is None


def test_integer_offset():
    x = torch.tensor([3, 5, 9])
    assert diagnose.integer_offset(scene(x - 1, x)).endswith("minus 1")
    assert diagnose.integer_offset(scene(x * 2, x)) is None


def test_nobody_calculates_with_token_ids():
    x = torch.tensor([3, 5, 9])
    for got in (x + 33, 2 * x):
        assert "the right one" in diagnose.pattern(scene(got, x))
        assert diagnose.pattern(scene(got, x, are_ids=True)) == "every value is wrong"


def test_two_numbers_are_shown_with_the_digits_that_tell_them_apart():
    x = torch.tensor(0.57735, dtype=torch.float64)
    assert shown_apart(x + 1, x) == ("1.577", "0.5774")
    assert shown_apart(x + 1e-8, x) == ("0.57735001", "0.57735")
    assert len(set(shown_apart(x.nextafter(x + 1), x))) == 2
    assert shown_apart(torch.tensor(7), torch.tensor(12345678)) == ("7", "12345678")


def test_permutation_names_the_axis_and_the_order():
    x = right(4, 3, 5)
    assert diagnose.permutation(scene(x[[0, 2, 1, 3]], x)).endswith("along head: 0, 2, 1, 3")
    assert "along dim: 4, 3, 2, 1, 0" in diagnose.permutation(scene(x.flip(-1), x))
    assert diagnose.permutation(scene(x + 1, x)) is None


def test_zero_and_unchanged_input():
    x = right(2, 3, 4)
    assert diagnose.all_zero(scene(torch.zeros_like(x), x)) == "every wrong value is 0"
    assert diagnose.all_zero(scene(x + 1, x)) is None
    found = diagnose.same_as_input(scene(x + 1, x, inputs={"q": x + 1}))
    assert found == "the output equals the argument q"


def test_nan_and_infinity_say_where_they_likely_come_from():
    x = right(2, 3)
    row = x.clone()
    row[1] = math.nan
    assert "whole rows" in diagnose.not_finite(scene(row, x))
    poison = scene(row, x, inputs={"cache": torch.tensor([math.nan])})
    assert "memory never written may be read" in diagnose.not_finite(poison)
    row[1] = math.inf
    assert diagnose.not_finite(scene(row, x)).startswith("infinity")
    hidden = row.clone()
    hidden[row.isinf()] = -math.inf
    assert diagnose.not_finite(scene(hidden, x)).startswith("minus infinity")
    assert diagnose.not_finite(scene(x + 1, x)) is None


def test_per_head_row_and_dim():
    x = right(8, 5, 4)
    heads = [slice(i, i + 1) for i in range(1, 7)]
    assert places.along_an_axis(spoiled(x, *heads)) == "heads 0 and 7 right, 1-6 wrong"
    row = (slice(None), 2)
    assert places.along_an_axis(spoiled(x, row)) == "token 2 wrong, the others right"
    dims = (slice(None), slice(None), slice(2, 4))
    assert places.along_an_axis(spoiled(x, dims)) == "dims 2-3 wrong, the others right"
    assert places.along_an_axis(spoiled(x, slice(None))) is None


def test_blocks_and_the_last_partial_block():
    x = right(2, 10, 3)
    last = spoiled(x, (slice(None), slice(8, 10)))
    known = Scene(**{**vars(last), "block": {"token": 4}})
    assert places.partial_block(known) == (
        "only the last, partly filled block of 4 along token is wrong"
    )
    second = spoiled(x, (slice(None), slice(4, 8)))
    known = Scene(**{**vars(second), "block": {"token": 4}})
    assert places.partial_block(known) is None
    assert places.blocks(known) == "block (of 4 along token) 1 wrong, the others right"


def test_triangles():
    x = right(2, 4, 4)
    above = torch.ones(4, 4).triu(1).bool()
    got = torch.where(above, x + 1, x)
    axes = ("head", "query", "key")
    assert places.upper_triangle(scene(got, x, axes)) == "only above the diagonal of query and key"
    assert places.upper_triangle(scene(got, x)) is None  # no place of a dim is past a token
    got = torch.where(above.T, x + 1, x)
    assert places.upper_triangle(scene(got, x, axes)) == "only below the diagonal of query and key"
    assert places.upper_triangle(scene(x + 1, x, axes)) is None


def test_minus_infinity_is_an_ordinary_wrong_value_where_it_is_right_elsewhere():
    infinity = math.inf
    expected = torch.tensor([1.0, 2.0, -infinity])
    got = torch.tensor([1.0, -infinity, -infinity])
    assert compare_tensor(got, expected, torch.zeros(3), ()).problem == "value"
    assert diagnose.not_finite(scene(got, expected)) is None
    for bad in (math.nan, infinity):
        got[1] = bad
        assert compare_tensor(got, expected, torch.zeros(3), ()).problem == "nonfinite"
    got[1] = -infinity
    assert compare_tensor(got, expected.nan_to_num(neginf=3.0), torch.zeros(3), ()).problem == (
        "nonfinite"
    )


@pytest.mark.parametrize("length", [3, torch.tensor([3, 5])])
def test_past_the_context(length):
    x = right(2, 6, 4)
    got = x.clone()
    got[0, 3:] += 1
    past = scene(got, x, valid={"token": length})
    assert (
        places.past_the_context(past) == "only places past the valid length along token are wrong"
    )
    got[0, 0] += 1
    assert places.past_the_context(scene(got, x, valid={"token": length})) is None


def test_a_pattern_joins_numbers_and_places():
    x = right(4, 3, 2)
    got = x.clone()
    got[1] *= 2
    assert diagnose.pattern(scene(got, x)) == (
        "every wrong value is 2 times the right one; head 1 wrong, the others right"
    )


def test_masks_are_told_which_way_they_are_wrong_and_have_no_factor_or_offset():
    expected = torch.tensor([[True, False], [True, True]])
    too_open = scene(torch.ones(2, 2, dtype=torch.bool), expected)
    assert diagnose.pattern(too_open).startswith("every wrong place is True and should be False")
    both_ways = scene(~expected, expected)
    assert diagnose.flipped(both_ways) is None
    assert "wrong value" not in diagnose.pattern(both_ways)
