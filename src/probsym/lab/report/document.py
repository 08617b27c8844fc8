"""What a report is made of, before it becomes HTML or Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """A judgement in a word, with a sign that needs no colour, and what is to be known of it."""

    kind: str
    sign: str
    words: str
    detail: str = ""


@dataclass(frozen=True)
class Cell:
    """One place of a grid: its text, small print, a judgement, and the anchor where the number comes from."""

    text: str
    note: str = ""
    mark: Mark | None = None
    link: str = ""


@dataclass(frozen=True)
class Grid:
    """A table.

    Args:
        caption: what it shows.
        head: the titles of its columns.
        rows: each begins with its own title.
        groups: titles over several columns each, with how many; empty if there are none.
        anchors: one a row, if links lead there.
        words: how many columns, from the first, hold words rather than numbers.
        folded: whether it is only seen when asked for.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    groups: Sequence[tuple[str, int]] = ()
    anchors: Sequence[str] = ()
    words: int = 1
    folded: bool = False


class Verdict(NamedTuple):
    """Whether numbers support a claim, and which numbers these are."""

    state: str
    numbers: str


class Judged(NamedTuple):
    """A claim with the rule that judges it, what came of it, and the figure of the paper that makes it, if one does."""

    claim: str
    rule: str
    verdict: Verdict
    paper: str = ""


@dataclass(frozen=True)
class Figure:
    """Charts that belong together.

    Args:
        title: of the figure.
        anchor: by which it is linked.
        charts: each a whole SVG.
        legend: labels with the classes of their lines.
        text: what was measured.
        claims: of the paper or of our own, judged.
        sources: titles and anchors of where the numbers come from.
        grid: the numbers.
    """

    title: str
    anchor: str
    charts: Sequence[str]
    legend: Sequence[tuple[str, str]] = ()
    text: str = ""
    claims: Sequence[Judged] = ()
    sources: Sequence[tuple[str, str]] = ()
    grid: Grid | None = None


Block = str | Grid | Figure
"""A paragraph, a table or a figure."""


@dataclass(frozen=True)
class Section:
    """A part of the report under its own heading; one without blocks is left out."""

    title: str
    anchor: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """A whole report."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]


def row_of(*texts: str | Cell) -> tuple[Cell, ...]:
    """Cells from texts."""
    return tuple(one if isinstance(one, Cell) else Cell(one) for one in texts)
