"""From the rows of analyses to figures, as `FIGURES` declares them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from probsym.lab.report.charts import Line, Span, Track, dot_chart, ends, kind_of, line_chart, shade
from probsym.lab.report.document import Cell, Figure, Grid
from probsym.lab.report.drawing import Axes, Drawing, Tracks
from probsym.lab.report.gathered import Analysed, Row, labels_of
from probsym.lab.report.judges import means, pairs_of
from probsym.lab.report.names import colours_of, naturally, number, said, slug
from probsym.lab.report.other_figures import OTHER_FIGURES
from probsym.lab.report.paper_figures import PAPER_FIGURES

FIGURES = (*PAPER_FIGURES, *OTHER_FIGURES)
"""A new figure is one more object in either file; analyses that have none are shown as tables."""
REFERENCE, GREY = "uniform", 7
LONGEST = 60


def figures(files: Sequence[Analysed], drawings: Sequence[Drawing] = FIGURES) -> list[Figure | Grid]:
    """All figures that there are rows for, then the rows of analyses that no figure draws."""
    found: list[Figure | Grid] = []
    for drawing in drawings:
        for group in grouped(drawing, files):
            first = next(one for one in drawings if one.analysis == drawing.analysis) is drawing
            found.append(drawn(drawing, group, rows_of(group) if first else None))
    drawn_ones = {one.analysis for one in drawings}
    others = dict.fromkeys((one.analysis, one.name.task) for one in files if one.analysis not in drawn_ones)
    for analysis, task in others:
        found.append(rows_of([one for one in files if (one.analysis, one.name.task) == (analysis, task)]))
    return found


def grouped(drawing: Drawing, files: Sequence[Analysed]) -> list[list[Analysed]]:
    """The files of one figure each: a task, and if runs are joined, a base."""
    groups: dict[tuple[str, str], list[Analysed]] = {}
    for file in sorted(files, key=lambda one: naturally(one.file)):
        if file.analysis == drawing.analysis and file.rows:
            groups.setdefault((file.name.task, file.name.base if drawing.joined else ""), []).append(file)
    return list(groups.values())


def drawn(drawing: Drawing, files: Sequence[Analysed], grid: Grid | None = None) -> Figure:
    """One figure of these files."""
    name = files[0].name
    of = f"{name.task}/{name.base}" if drawing.joined else name.task
    parts = [[file] for file in files] if drawing.apart else [list(files)]
    labels = labels_of(files)
    charts: list[str] = []
    legend: dict[str, str] = {}
    for panel in drawing.panels:
        titles = [f"{labels[part[0].anchor]}: {panel.title}" if drawing.apart else panel.title for part in parts]
        if isinstance(panel, Axes):
            drawn_lines = [lines_of(drawing, panel, part, labels) for part in parts]
            points = [point for lines in drawn_lines for line in lines for point in line.points]
            span = Span([x for x, _ in points], [y for _, y in points])
            charts += [
                line_chart(
                    f"{drawing.title}: {title}",
                    lines,
                    panel.x.replace("_", " "),
                    title,
                    log_x=panel.log_x,
                    log_y=panel.log_y,
                    span=span,
                )
                for title, lines in zip(titles, drawn_lines, strict=True)
                if lines
            ]
            legend |= {line.label: kind_of(line) for lines in drawn_lines for line in lines}
        else:
            drawn_tracks = [tracks_of(drawing, panel, part, labels) for part in parts]
            span = Span([end for tracks in drawn_tracks for track in tracks for end in ends(track)])
            charts += [
                dot_chart(f"{drawing.title}: {title}", tracks, title, log=panel.log, span=span)
                for title, tracks in zip(titles, drawn_tracks, strict=True)
            ]
            legend |= {dot[0]: shade(dot[2]) for one in drawn_tracks for track in one for dot in track.dots}
    title = f"{drawing.title}: {of}" if of.strip("/") else drawing.title
    return Figure(
        f"{title} ({drawing.paper})" if drawing.paper else title,
        slug(f"figure {title}"),
        charts,
        list(legend.items()),
        drawing.text,
        [claim.on(files) for claim in drawing.claims],
        [(file.file, file.anchor) for file in files],
        grid,
    )


def lines_of(drawing: Drawing, panel: Axes, files: Sequence[Analysed], labels: dict[str, str]) -> list[Line]:
    """One line for each run and series, or for each row and series if runs are joined."""
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    reference: list[tuple[float, float]] = []
    for file in files:
        for row in drawing.rows(file.rows):
            label = ", ".join(_titles(drawing, file, row, labels))
            points = pairs_of([row], panel.x, panel.y)
            if points:
                lines.setdefault((label, "" if drawing.joined else file.anchor), []).extend(points)
            reference += pairs_of([row], panel.x, panel.reference)
    ordered = sorted(lines, key=lambda one: naturally(one[0])) if drawing.joined else list(lines)
    colours = colours_of([label for label, _ in ordered])
    found = [Line(key[0], means(lines[key]), colours[key[0]]) for key in ordered]
    return found + ([Line(REFERENCE, means(reference), GREY, dashed=True)] if reference else [])


def _titles(drawing: Drawing, file: Analysed, row: Row, labels: dict[str, str]) -> list[str]:
    series = [
        f"{column.replace('_', ' ')} {said(row[column])}"
        if number(row.get(column)) is not None
        else said(row.get(column))
        for column in drawing.series
    ]
    if series and (drawing.joined or drawing.apart):
        return series
    return [file.row.partition("/")[2] if drawing.joined else labels[file.anchor], *series]


def tracks_of(drawing: Drawing, panel: Tracks, files: Sequence[Analysed], labels: dict[str, str]) -> list[Track]:
    """One track for each run and what the panel's columns say, with means over rows that share them."""
    tracks: dict[str, list[Row]] = {}
    for file in files:
        for row in drawing.rows(file.rows):
            titles = [] if drawing.joined or drawing.apart else [labels[file.anchor]]
            title = " · ".join([*titles, *(said(row.get(column)) for column in panel.by)])
            tracks.setdefault(title, []).append(row)
    names = list(panel.values)
    if panel.dots:
        names = list(dict.fromkeys(said(row.get(panel.dots)) for rows in tracks.values() for row in rows))
    colours = colours_of([name.replace("_", " ") for name in names])
    found = []
    for title, rows in tracks.items():
        dots = []
        for name in names:
            chosen = [row for row in rows if said(row.get(panel.dots)) == name] if panel.dots else rows
            column = panel.values[0] if panel.dots else name
            values = [value for value in (number(row.get(column)) for row in chosen) if value is not None]
            margins = [value for value in (number(row.get(panel.margin)) for row in chosen) if value is not None]
            if values:
                label = name.replace("_", " ")
                margin = 2 * statistics.fmean(margins) if margins else 0.0
                dots.append((label, statistics.fmean(values), colours[label], margin))
        found.append(Track(title, dots))
    return found


def rows_of(files: Sequence[Analysed]) -> Grid:
    """The rows themselves, of all these files."""
    labels = labels_of(files)
    columns = list(dict.fromkeys(name for file in files for row in file.rows for name in row))
    rows = [
        (
            Cell(labels[file.anchor], f"seed {file.seed}" if file.seed else "", link=file.anchor),
            *(_short(row.get(name)) for name in columns),
        )
        for file in files
        for row in file.rows
    ]
    title = ", ".join(filter(None, (f"Rows of the analysis “{files[0].analysis}”", files[0].name.task)))
    return Grid(title, ["run", *(name.replace("_", " ") for name in columns)], rows, folded=True)


def _short(value: object) -> Cell:
    text = said(value)
    return Cell(text if len(text) <= LONGEST else f"{text[:LONGEST]}…")
