"""A report as one page of HTML that needs nothing else: no script, no font, no image from anywhere."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from probsym.lab.colours import COLOURS, DARK_COLOURS
from probsym.lab.report.claims import SIGNS
from probsym.lab.report.document import Block, Cell, Document, Figure, Grid, Judged, Section
from probsym.lab.report.names import slug

STYLE = Path(__file__).with_name("style.css")
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Whatever is written into a page, it may not fetch or run anything."""


def as_page(document: Document) -> str:
    """The whole page."""
    contents = "".join(f'<li><a href="#{one.anchor}">{escape(one.title)}</a></li>' for one in document.sections)
    lead = "".join(f'<p class="lead">{escape(one)}</p>' for one in document.lead)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark"><link rel="icon" href="data:,">\n'
        f"<title>{escape(document.title)}</title>\n<style>\n{_palette()}{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f'<body><a class="skip" href="#content">Skip to the content</a>\n'
        f"<header><h1>{escape(document.title)}</h1>{lead}</header>\n"
        f'<div class="layout"><nav aria-label="Contents"><ul>{contents}</ul></nav>\n'
        f'<main id="content" tabindex="-1">\n{"".join(map(_section, document.sections))}</main></div></body></html>\n'
    )


def _palette() -> str:
    light, dark = (
        " ".join(f"--c{place}: {one};" for place, one in enumerate(colours)) for colours in (COLOURS, DARK_COLOURS)
    )
    classes = "".join(f".c{place} {{ --colour: var(--c{place}) }}\n" for place in range(len(COLOURS)))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n{classes}"


def _section(section: Section) -> str:
    blocks = "\n".join(map(_block, section.blocks))
    name = f"{section.anchor}-title"
    return (
        f'<section id="{section.anchor}" aria-labelledby="{name}"><h2 id="{name}">{escape(section.title)}</h2>\n'
        f"{blocks}</section>\n"
    )


def _block(block: Block) -> str:
    if isinstance(block, Figure):
        return _figure(block)
    return _grid(block) if isinstance(block, Grid) else f"<p>{escape(block)}</p>"


def _grid(grid: Grid) -> str:
    caption = escape(grid.caption)
    heads = ""
    if grid.groups:
        spans = "".join(
            f'<th scope="colgroup" colspan="{count}">{escape(title)}</th>' if title else f'<td colspan="{count}"></td>'
            for title, count in grid.groups
        )
        heads = f'<tr class="groups">{spans}</tr>'
    titles = (f'<th scope="col"{_kind(grid, place)}>{escape(title)}</th>' for place, title in enumerate(grid.head))
    heads += f"<tr>{''.join(titles)}</tr>"
    body = "".join(_row(grid, place, row) for place, row in enumerate(grid.rows))
    table = f'<table><caption class="unseen">{caption}</caption><thead>{heads}</thead><tbody>{body}</tbody></table>'
    scroll = f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0">{table}</div>'
    if grid.folded:
        return f"<details><summary>{caption}</summary>{scroll}</details>"
    # the caption that is read aloud scrolls with its table, the one that is seen does not
    return f'<p class="caption" aria-hidden="true">{caption}</p>{scroll}'


def _kind(grid: Grid, place: int) -> str:
    return f' class="word in-{slug(grid.head[place])}"' if place < grid.words else ""


def _row(grid: Grid, place: int, row: Sequence[Cell]) -> str:
    anchor = f' id="{escape(grid.anchors[place])}"' if grid.anchors else ""
    cells = "".join(f"<td{_kind(grid, column)}>{_cell(one)}</td>" for column, one in enumerate(row) if column)
    return f'<tr{anchor}><th scope="row"{_kind(grid, 0)}>{_cell(row[0])}</th>{cells}</tr>'


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    parts = [f'<a href="#{escape(cell.link)}">{text}</a>' if cell.link and text else text]
    if cell.mark is not None:
        words = escape(f"{cell.mark.words}: {cell.mark.detail}" if cell.mark.detail else cell.mark.words)
        parts.append(
            f'<span class="mark {cell.mark.kind}" title="{words}"><span aria-hidden="true">{cell.mark.sign}</span>'
            f'<span class="unseen">{words}</span></span>'
        )
    if cell.note:
        parts.append(f'<span class="note">{escape(cell.note)}</span>')
    return " ".join(parts)


def _figure(figure: Figure) -> str:
    legend = "".join(
        f'<li><span class="key {kind}" aria-hidden="true"></span>{escape(label)}</li>' for label, kind in figure.legend
    )
    sources = ", ".join(f'<a href="#{escape(anchor)}">{escape(title)}</a>' for title, anchor in figure.sources)
    return (
        f'<figure id="{escape(figure.anchor)}"><h3>{escape(figure.title)}</h3>'
        f"<p>{escape(figure.text)}</p>{''.join(map(_claim, figure.claims))}"
        f'<ul class="legend" aria-label="Legend">{legend}</ul>'
        f'<div class="charts">{"".join(f"<div>{chart}</div>" for chart in figure.charts)}</div>'
        f"{_grid(figure.grid) if figure.grid is not None else ''}"
        f"<details><summary>From {len(figure.sources)} file{'s' if len(figure.sources) > 1 else ''}</summary>"
        f'<p class="sources">{sources}</p></details></figure>'
    )


def _claim(one: Judged) -> str:
    state = one.verdict.state
    return (
        f'<div class="claim {slug(state)}"><p>{escape(one.claim)}</p><p><strong><span aria-hidden="true">{SIGNS[state]}'
        f"</span> {escape(state)}</strong> <span>{escape(one.verdict.numbers)}</span></p>"
        f'<p class="rule">{escape(one.rule)}</p></div>'
    )
