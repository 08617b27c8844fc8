"""Which files belong together, and what numbers they share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from probsym.lab.report.claims import combined
from probsym.lab.report.document import Verdict
from probsym.lab.report.gathered import Analysed, Row
from probsym.lab.report.names import number
from probsym.lab.results import average

Judge = Callable[[Sequence[Analysed]], Verdict]


def alike(files: Iterable[Analysed], training_draws: bool = False) -> dict[str, list[Analysed]]:
    """Files by the row and the changed settings of their runs: what differs is the seed.

    With `training_draws`, runs that differ in these as well belong together.
    """
    found: dict[str, list[Analysed]] = {}
    for file in files:
        settings = file.trained if training_draws else file.changed
        found.setdefault(", ".join(filter(None, (file.row, settings))), []).append(file)
    return found


def apart(files: Iterable[Analysed], judge: Judge, training_draws: bool = False) -> Verdict:
    """What a judge says of each group, named if there are several."""
    groups = alike(files, training_draws)
    return combined([(title if len(groups) > 1 else "", judge(group)) for title, group in groups.items()])


def shared(many: Iterable[Iterable[Row]], column: str) -> list[float]:
    """The numbers in a column that all of several lists of rows have, in order."""
    found = [{value for row in rows if (value := number(row.get(column))) is not None} for rows in many]
    return sorted(set.intersection(*found)) if found else []


def with_number(rows: Iterable[Row], column: str, value: float) -> list[Row]:
    """The rows that have this number in a column."""
    return [row for row in rows if number(row.get(column)) == value]


def pairs_of(rows: Iterable[Row], x: str, y: str) -> list[tuple[float, float]]:
    """Numbers of two columns, in the order of the first; rows that lack one are passed over."""
    found = [(number(row.get(x)), number(row.get(y))) for row in rows]
    return sorted((a, b) for a, b in found if a is not None and b is not None)


def means(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """One point for each x, in order: the mean of those that share it."""
    by_x: dict[float, list[float]] = {}
    for x, y in points:
        by_x.setdefault(x, []).append(y)
    return [(x, average(by_x[x])) for x in sorted(by_x)]
