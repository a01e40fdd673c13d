"""Checks of single values."""

import math

import pytest

from minivllm.checks import check_at_least, check_bool, check_one_of, is_int, is_number
from minivllm.errors import ConfigError

NO_NUMBERS = [None, "1", [1], True, False, math.inf, -math.inf, math.nan, 10**400, 1j]


@pytest.mark.parametrize("value", [0, 1, -1, 10**400])
def test_whole_numbers(value):
    assert is_int(value)


@pytest.mark.parametrize("value", [1.0, True, False, None, "1"])
def test_what_is_no_whole_number(value):
    assert not is_int(value)


@pytest.mark.parametrize("value", [0, 1, -3, 0.5, -1e300, 2**1023])
def test_numbers(value):
    assert is_number(value)


@pytest.mark.parametrize("value", NO_NUMBERS)
def test_what_no_float_can_hold_is_no_number(value):
    assert not is_number(value)


@pytest.mark.parametrize("value", [2, 3, 10**400])
def test_enough_is_enough(value):
    check_at_least("budget", value, 2)


@pytest.mark.parametrize("value", [1, -5, 2.0, True, None, "2"])
def test_too_little_is_refused_with_name_value_and_bound(value):
    with pytest.raises(ConfigError) as error:
        check_at_least("budget", value, 2)
    assert str(error.value) == f"budget={value!r} must be a whole number of at least 2"


@pytest.mark.parametrize("value", ["", "B", None, 1])
def test_a_word_that_is_not_allowed_is_refused_with_the_list(value):
    check_one_of("policy", "a", ("a", "b"))
    with pytest.raises(ConfigError) as error:
        check_one_of("policy", value, ("a", "b"))
    assert str(error.value) == f"policy={value!r} is unknown: use one of a, b"


@pytest.mark.parametrize("value", [0, 1, None, "True"])
def test_what_is_like_true_is_not_true(value):
    check_bool("tracing", True)
    check_bool("tracing", False)
    with pytest.raises(ConfigError) as error:
        check_bool("tracing", value)
    assert str(error.value) == f"tracing={value!r} must be True or False"
