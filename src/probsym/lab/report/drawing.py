"""The figures, one small object each: which analysis, which columns against which, and the claims about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from probsym.lab.report.claims import Claim
from probsym.lab.report.gathered import Row
from probsym.lab.report.names import number


@dataclass(frozen=True)
class Axes:
    """A panel of lines: one column against another, with a dashed reference from a third if there is one."""

    title: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    reference: str = ""


@dataclass(frozen=True)
class Tracks:
    """A panel of dots: a track for each run and what the columns `by` say, a dot for each of the columns `values`.

    With `dots`, the values of that column are the dots instead, each with the mean of the first of `values`. Bars are
    twice the column `margin` to either side. A dash stands at the first of the columns `reference` that a row has, and
    is called `reference_title`.
    """

    title: str
    by: tuple[str, ...]
    values: tuple[str, ...]
    log: bool = False
    margin: str = ""
    dots: str = ""
    reference: tuple[str, ...] = ()
    reference_title: str = ""


@dataclass(frozen=True)
class Drawing:
    """A figure.

    Args:
        analysis: whose rows are drawn.
        title: of the figure.
        text: what was measured.
        panels: its charts.
        paper: which figure of the paper it is, if one.
        claims: about it, of the paper if it is a figure of the paper, else of our own.
        series: columns that tell lines apart, beside the run.
        rows: chooses rows of a run.
        joined: whether runs that differ in their seeds and draws in training alone are one line, rather than one each.
        apart: whether every run has a panel of its own.
    """

    analysis: str
    title: str
    text: str
    panels: tuple[Axes | Tracks, ...]
    paper: str = ""
    claims: tuple[Claim, ...] = ()
    series: tuple[str, ...] = ()
    rows: Callable[[Sequence[Row]], Sequence[Row]] = list
    joined: bool = False
    apart: bool = False


def most_draws(rows: Sequence[Row]) -> list[Row]:
    """The rows with the largest number of draws."""
    most = max((number(row.get("draws")) or 0 for row in rows), default=0)
    return [row for row in rows if (number(row.get("draws")) or 0) == most]


def whole(rows: Sequence[Row]) -> list[Row]:
    """Rows about the whole test set."""
    return [row for row in rows if row.get("part", "all") == "all"]


def independent(rows: Sequence[Row]) -> list[Row]:
    """Of these, rows of independent draws."""
    return [row for row in whole(rows) if row.get("coupling", "independent") == "independent"]
