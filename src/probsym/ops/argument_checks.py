"""Argument checks that kernels and groups share, and when values may be read for them."""

from __future__ import annotations

import operator
from numbers import Real
from typing import Any

from torch import Tensor, nn

from probsym.errors import RangeError
from probsym.ops.transforms import traced

SMALLEST_TAU, LARGEST_TAU = 1e-20, 1e20
"""Temperatures by which float32 can be divided."""


def readable(*tensors: Tensor) -> bool:
    """Whether values can be read without waiting: on the CPU, and not compiled, traced or under vmap.

    >>> import torch
    >>> readable(torch.zeros(2)), readable(torch.zeros(2, device="meta"))
    (True, False)
    """
    return not traced() and all(x.device.type == "cpu" and type(x) in (Tensor, nn.Parameter) for x in tensors)


def check_size(value: int, what: str, least: int = 1) -> int:
    """A number of draws, channels, layers or steps; refused if it is too small or not a whole number."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or operator.index(value) < least:
        raise RangeError(f"Expected {what} to be {least} or more (got {value})")
    return operator.index(value)


def check_tau(tau: float) -> None:
    """Refuse a temperature that is not positive, or that cannot be divided by."""
    if not tau > 0:
        raise RangeError(f"Expected tau to be positive (got {tau})")
    if not SMALLEST_TAU <= tau <= LARGEST_TAU:
        raise RangeError(f"Expected tau to be from {SMALLEST_TAU} to {LARGEST_TAU} (got {tau})")


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
