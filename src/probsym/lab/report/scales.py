"""From numbers to places on paper, and the round numbers to write beside them."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

LARGEST, SMALLEST = sys.float_info.max, 1e-300
"""What is smaller than that counts as zero."""


@dataclass(frozen=True)
class Scale:
    """Numbers from `low` to `high`, laid from `start` to `end`, evenly or by their logarithms."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def over(cls, values: Sequence[float], start: float, end: float, log: bool = False) -> Scale:
        """A scale that holds all the values, with a little room; on a logarithmic one only positive ones count."""
        kept = [one if abs(one) >= SMALLEST else 0.0 for one in values if math.isfinite(one)]
        kept = [one for one in kept if one > 0 or not log]
        low, high = (min(kept), max(kept)) if kept else (1.0, 10.0) if log else (0.0, 1.0)
        if log:
            return cls(low / 1.15, min(high * 1.15, LARGEST), start, end, True)
        if low == high:
            low, high = (low - abs(low) * 0.1 - 1e-12, high + abs(high) * 0.1 + 1e-12) if low else (-1.0, 1.0)
            low, high = max(low, -LARGEST), min(high, LARGEST)
        room = 0.04 * high - 0.04 * low
        low = min(low, 0.0) if 0 <= low < 0.25 * high else max(low - room, -LARGEST)
        return cls(low, min(high + room, LARGEST), start, end)

    def has(self, value: float) -> bool:
        """Whether the value can be placed at all."""
        return math.isfinite(value) and (value >= SMALLEST or not self.log)

    def __call__(self, value: float) -> float:
        """The place of a value.

        >>> Scale(1, 100, 0, 50, log=True)(10), Scale(0, 4, 0, 100)(1)
        (25.0, 25.0)
        """
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        # halves, since the whole may be more than a float holds
        share = ((math.log(value) if self.log else value) / 2 - low / 2) / (high / 2 - low / 2)
        return self.start + share * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round numbers along the scale, two or more.

        >>> Scale(0, 103, 0, 1).ticks(), Scale(0.9, 230, 0, 1, log=True).ticks()
        ([0.0, 25.0, 50.0, 75.0, 100.0], [1.0, 10.0, 100.0])
        """
        if self.log:
            for factors, least in (((1,), 3), ((1, 3), 3), ((1, 2, 5), 2)):
                found = self._powers(factors)
                if len(found) >= least:
                    return found[:: math.ceil(len(found) / (most + 1))]
        each = self.high / most - self.low / most
        step = 10.0 ** math.floor(math.log10(each))
        step *= next(one for one in (1, 2, 2.5, 5, 10, 20) if each <= step * one)
        first = math.ceil(self.low / step - 1e-9)
        return [float(f"{place * step:.12g}") for place in range(first, math.floor(self.high / step + 1e-9) + 1)]

    def _powers(self, factors: Sequence[int]) -> list[float]:
        span = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        found = [float(f"{one}e{power}") for power in span for one in factors]
        return [one for one in found if self.low <= one <= self.high]


def written(value: float) -> str:
    """A tick in few characters.

    >>> written(1000.0), written(20000.0), written(0.004), written(1e-14), written(0.0)
    ('1000', '20k', '0.004', '1e-14', '0')
    """
    if value and (abs(value) < 1e-3 or abs(value) >= 1e6):
        return f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e") if _short(value) else f"{value:.1e}"
    return f"{value / 1000:g}k" if abs(value) >= 1e4 else f"{value:.4g}"


def _short(value: float) -> bool:
    return math.isclose(float(f"{value:.0e}"), value, rel_tol=1e-6)
