"""Probabilities that a caller gives."""

from numbers import Real
from typing import Any

from probsym.errors import RangeError


def is_number(value: Any) -> bool:
    """Whether it is a real number of any kind, which True is not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_rate(value: Any) -> bool:
    """Whether it is a share of what is there that leaves something: a number in [0, 1)."""
    return is_number(value) and 0 <= value < 1


def check_rate(value: float, what: str) -> float:
    """A probability of being dropped, refused if it would drop everything, or is none."""
    if not is_rate(value):
        raise RangeError(f"Expected {what} to be in [0, 1) (got {value})")
    return float(value)
