"""How tables and the report write numbers, counts, times and anchors."""

from __future__ import annotations

import math
import re
from typing import Any


def is_number(value: Any) -> bool:
    """Whether it is a number, finite or not; truth values are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(value: Any) -> float | None:
    """A finite number, or None for anything else."""
    try:
        return float(value) if is_number(value) and math.isfinite(value) else None
    except OverflowError:  # an integer beyond what a float holds
        return None


def brief(value: Any, digits: int = 4) -> str:
    """A number with few digits; anything else as text.

    >>> brief(99.0666), brief(78811.0), brief(1.25e-14), brief(None), brief("calm"), brief(float("nan"))
    ('99.07', '78811', '1.25e-14', '', 'calm', 'not finite')
    """
    finite = number(value)
    if finite is None:
        return "" if value is None else "not finite" if isinstance(value, float) else str(value)
    return f"{finite:.0f}" if finite == round(finite) and abs(finite) < 1e9 else f"{finite:.{digits}g}"


def seconds(value: float) -> str:
    """A time in a suitable unit.

    >>> seconds(0.0024), seconds(138.9), seconds(3.7e-5)
    ('2.4 ms', '139 s', '37 µs')
    """
    unit, scale = ("s", 1.0) if value >= 1 else ("ms", 1e3) if value >= 1e-3 else ("µs", 1e6)
    scaled = value * scale
    return f"{scaled:.0f} {unit}" if scaled >= 100 else f"{scaled:.3g} {unit}"


def counted(count: int, noun: str) -> str:
    """A count and its noun.

    >>> counted(1, "seed"), counted(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def words(column: str) -> str:
    """A column's name as words."""
    return column.replace("_", " ")


def natural_key(text: str) -> list[tuple[int, str]]:
    """A sort key that puts 2 before 10.

    >>> sorted(["samples=10", "samples=2"], key=natural_key)
    ['samples=2', 'samples=10']
    """
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", text)]


def slug(text: str) -> str:
    """A text as part of an anchor or class.

    >>> slug("nbody/gnn-ps epochs=9")
    'nbody-gnn-ps-epochs-9'
    """
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
