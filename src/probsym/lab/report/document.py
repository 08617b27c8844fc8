"""What a report consists of, before a template makes HTML or Markdown of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Mark(NamedTuple):
    """A judgement: its kind, a sign that needs no colour, words for the sign, and a detail."""

    kind: str
    sign: str
    words: str
    detail: str = ""


class Cell(NamedTuple):
    """A cell of a table: text, small print, a judgement, and the anchor that it links to."""

    text: str
    note: str = ""
    mark: Mark | None = None
    link: str = ""


def cells(*texts: str | Cell) -> list[Cell]:
    """Cells from texts."""
    return [Cell(text) if isinstance(text, str) else text for text in texts]


@dataclass(frozen=True)
class Grid:
    """A table: titles of its columns, and rows that each begin with their own title.

    `groups` are titles over several columns, with how many; `anchors` has one per row, if links lead there; `words`
    says how many columns, from the first, hold words rather than numbers. A `folded` table is hidden until asked for.
    """

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    groups: Sequence[tuple[str, int]] = ()
    anchors: Sequence[str] = ()
    words: int = 1
    folded: bool = False


class Judgement(NamedTuple):
    """A claim, the rule that judges it, the verdict with its numbers, and the figure of the paper, if it is one."""

    claim: str
    rule: str
    mark: Mark
    numbers: str
    paper: str = ""


@dataclass(frozen=True)
class Figure:
    """Charts that belong together, each a whole SVG; a legend of labels and classes, sources with their anchors."""

    title: str
    anchor: str
    charts: Sequence[str]
    legend: Sequence[tuple[str, str]] = ()
    text: str = ""
    claims: Sequence[Judgement] = ()
    sources: Sequence[tuple[str, str]] = ()
    grid: Grid | None = None


Block = str | Grid | Figure
"""A paragraph, a table or a figure."""


class Section(NamedTuple):
    """Blocks under a heading."""

    title: str
    anchor: str
    blocks: Sequence[Block]


class Document(NamedTuple):
    """A whole report."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
