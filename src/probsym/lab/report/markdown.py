"""A report's tables and claims as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from probsym.lab.report.document import Cell, Document, Figure, Grid


def as_markdown(document: Document) -> str:
    """The whole report, without its charts."""
    return "\n".join(_lines(document)).rstrip() + "\n"


def grid_as_markdown(grid: Grid) -> str:
    """One table; titles over several columns are written into each."""
    over = [title for title, count in grid.groups for _ in range(count)] or [""] * len(grid.head)
    head = [f"{above}, {title}" if above else title for above, title in zip(over, grid.head, strict=True)]
    lines = [_line(escaped(title) for title in head)]
    lines.append(_line("---" if place < grid.words else "---:" for place in range(len(head))))
    lines += [_line(_cell(cell) for cell in row) for row in grid.rows]
    return "\n".join(lines)


def escaped(text: str) -> str:
    """A text that means itself in a table: no markup, no new columns, no new lines."""
    return re.sub(r"([\\`*_\[\]|<>])", r"\\\1", " ".join(text.split())).replace("\\<", "&lt;").replace("\\>", "&gt;")


def _cell(cell: Cell) -> str:
    note = f" ({escaped(cell.note)})" if cell.note else ""
    return f"{escaped(cell.text)}{note}{f' {cell.mark.sign}' if cell.mark else ''}"


def _line(cells: Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _lines(document: Document) -> Iterator[str]:
    yield f"# {escaped(document.title)}\n"
    yield from (f"{escaped(one)}\n" for one in document.lead)
    for section in document.sections:
        yield f"## {escaped(section.title)}\n"
        for block in section.blocks:
            if isinstance(block, Figure):
                yield from _figure(block)
            elif isinstance(block, Grid):
                yield f"**{escaped(block.caption)}**\n\n{grid_as_markdown(block)}\n"
            else:
                yield f"{escaped(block)}\n"


def _figure(figure: Figure) -> Iterator[str]:
    yield f"### {escaped(figure.title)}\n\n{escaped(figure.text)}\n"
    for claim, rule, verdict, _ in figure.claims:
        yield f"- {escaped(claim)} **{verdict.state}**: {escaped(verdict.numbers)}. {escaped(rule)}\n"
    if figure.grid is not None:
        yield f"{grid_as_markdown(figure.grid)}\n"
