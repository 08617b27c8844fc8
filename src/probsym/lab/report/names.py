"""How rows, settings and numbers are written in a report."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

METHODS = ("ga", "ps", "canonical", "fa", "ps-fixed-noise", "from-haar")
"""Ways to symmetrize; each has the colour of its place in every chart."""


class Name(NamedTuple):
    """The parts of a row's name; without a method, the base is all that follows the task."""

    task: str
    base: str
    method: str


def parted(row: str) -> Name:
    """The parts of `task/base-method`.

    >>> parted("exp/gin-id-ps-fixed-noise"), parted("nbody/egnn")
    (Name(task='exp', base='gin-id', method='ps-fixed-noise'), Name(task='nbody', base='egnn', method=''))
    """
    task, _, rest = row.partition("/")
    for method in sorted(METHODS, key=len, reverse=True):
        if rest.endswith(f"-{method}"):
            return Name(task, rest.removesuffix(f"-{method}"), method)
    return Name(task, rest, "")


def number(value: Any) -> float | None:
    """A finite number, or None for whatever else stands there."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:  # an integer that is too large
        return None
    return found if math.isfinite(found) else None


def said(value: Any, digits: int = 4) -> str:
    """A number with few digits, or what else there is as text.

    >>> said(99.0666), said(78811.0), said(1.25e-14), said(None), said("calm"), said(0.0043)
    ('99.07', '78811', '1.25e-14', '', 'calm', '0.0043')
    """
    found = number(value)
    if found is None:
        return "" if value is None else "not finite" if isinstance(value, float) else str(value)
    return f"{found:.0f}" if found == round(found) and abs(found) < 1e9 else f"{found:.{digits}g}"


def seconds(value: float) -> str:
    """A time in the unit that suits it.

    >>> seconds(0.0024), seconds(138.9), seconds(3.7e-5)
    ('2.4 ms', '139 s', '37 µs')
    """
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
        if value * scale >= 1 or unit == "µs":
            scaled = value * scale
            return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"
    raise AssertionError


def counted(count: int, what: str) -> str:
    """A count and its noun: 1 seed, 3 seeds."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def naturally(text: str) -> list[tuple[int, str]]:
    """A key for sorting by which 2 comes before 10.

    >>> sorted(["samples=10", "samples=2"], key=naturally)
    ['samples=2', 'samples=10']
    """
    return [(int(one), "") if one.isdigit() else (-1, one) for one in re.split(r"(\d+)", text)]


def slug(text: str) -> str:
    """A text as part of an anchor.

    >>> slug("nbody/gnn-ps epochs=9")
    'nbody-gnn-ps-epochs-9'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def colours_of(labels: Sequence[str]) -> dict[str, int]:
    """A colour for each label: that of its method where these tell them apart, others one after the other.

    >>> colours_of(["mlp-ps", "mlp-ga", "gin"]), colours_of(["gnn-ps", "egnn-ps"])
    ({'mlp-ps': 1, 'mlp-ga': 0, 'gin': 6}, {'gnn-ps': 0, 'egnn-ps': 1})
    """
    unique = list(dict.fromkeys(labels))
    methods = {one: one if one in METHODS else parted(f"/{one}").method for one in unique}
    known = [one for one in methods.values() if one]
    if len(set(known)) < len(known) or not known:
        return {label: place for place, label in enumerate(unique)}
    others = [label for label, method in methods.items() if not method]
    return {
        label: METHODS.index(method) if method else len(METHODS) + others.index(label)
        for label, method in methods.items()
    }
