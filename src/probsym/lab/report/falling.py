"""Whether numbers fall, as far as their noise lets see."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from probsym.lab.report.claims import OPEN, REFUTED, SUPPORTED, combined
from probsym.lab.report.document import Verdict
from probsym.lab.report.gathered import Analysed, Row, labels_of
from probsym.lab.report.groups import alike, means, pairs_of, shared
from probsym.lab.report.names import number, said

Margin = Callable[[Row], float | None]
"""The standard error of a row's number over the draws."""
FALLING = (
    "Supported if it falls from the fewest to the most draws by more than twice the standard errors of both together, "
    "and rises at no step by more than those of that step, for every model of which this can be told; mixed if for "
    "some."
)


def spread(row: Row) -> float | None:
    """The standard error of a loss over repeats."""
    return number(row.get("spread"))


def error_of_mean(row: Row) -> float | None:
    """The standard error of a mean loss over repeats and examples, from the variance of an example's loss.

    `sqrt(variance / (repeats * examples))`, as draws for one example are independent of those for others.
    """
    variance, repeats, examples = (number(row.get(name)) for name in ("loss_variance", "repeats", "examples"))
    if variance is None or variance < 0 or not repeats or not examples:
        return None
    return math.sqrt(variance / repeats / examples)


def fall(rows: Sequence[Row], column: str, margin: Margin) -> Verdict:
    """Whether the means of a column over rows with the same draws fall with these; rows are of different runs."""
    points = means(pairs_of(rows, "draws", column))
    if len(points) < 2:
        return Verdict(OPEN, f"{len(points)} of the 2 numbers of draws that it takes")
    errors = {draws: _error((row for row in rows if number(row.get("draws")) == draws), margin) for draws, _ in points}
    numbers = f"{said(points[0][1], 3)} to {said(points[-1][1], 3)}"
    known = {draws: error for draws, error in errors.items() if error is not None}
    if len(known) < len(errors):
        return Verdict(OPEN, f"{numbers}, with noise that is not known")
    steps = [b - a <= 2 * (known[m] + known[n]) for (m, a), (n, b) in pairwise(points)]
    lost, room = points[0][1] - points[-1][1], 2 * (known[points[0][0]] + known[points[-1][0]])
    if not all(steps) or -lost > room or (room == 0 and lost <= 0):
        return Verdict(REFUTED, numbers)
    if lost <= room:
        return Verdict(OPEN, f"{numbers}, which may be noise: that is {said(room, 2)}")
    return Verdict(SUPPORTED, numbers)


def falls_with_draws(
    column: str, margin: Margin, rows: Callable[[Sequence[Row]], list[Row]]
) -> Callable[[Sequence[Analysed]], Verdict]:
    """That a number falls with the draws for every row and settings, mean over seeds at the draws that these share."""

    def judge(files: Sequence[Analysed]) -> Verdict:
        parts = []
        labels = labels_of(files, seeds=False)
        for group in alike(files).values():
            kept = [rows(file.rows) for file in group]
            draws = shared(kept, "draws")
            common = [row for some in kept for row in some if number(row.get("draws")) in draws]
            parts.append((labels[group[0].anchor], fall(common, column, margin)))
        return combined(parts)

    return judge


def _error(rows: Iterable[Row], margin: Margin) -> float | None:
    """Of the mean over rows, whose noise is independent; None if that of one is not known."""
    found = [margin(row) for row in rows]
    known = [one for one in found if one is not None]
    return math.hypot(*known) / len(known) if known and len(known) == len(found) else None
