"""Checks of single values; what starts with `check_` raises `ConfigError` with name and remedy."""

from __future__ import annotations

import sys
from typing import TypeGuard

from minivllm.errors import ConfigError


def is_int(value: object) -> TypeGuard[int]:
    """Whether `value` is a whole number; `True` is not one here."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is a number that a float can hold; `True`, infinity and NaN are not."""
    return (is_int(value) or isinstance(value, float)) and abs(value) <= sys.float_info.max


def check_at_least(name: str, value: object, minimum: int) -> None:
    """Refuse what is not a whole number of at least `minimum`."""
    if not is_int(value) or value < minimum:
        raise ConfigError(f"{name}={value!r} must be a whole number of at least {minimum}")


def check_one_of(name: str, value: object, allowed: tuple[str, ...]) -> None:
    """Refuse what is not among `allowed`."""
    if value not in allowed:
        raise ConfigError(f"{name}={value!r} is unknown: use one of {', '.join(allowed)}")


def check_bool(name: str, value: object) -> None:
    """Refuse what is neither `True` nor `False`."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name}={value!r} must be True or False")
