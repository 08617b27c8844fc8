"""From the rows of analyses to figures, as `FIGURES` declares them."""

from __future__ import annotations

from collections.abc import Sequence

from probsym.lab.report.charts import GREY, Line, Span, Track, dot_chart, ends, kind_of, line_chart, shade
from probsym.lab.report.document import Cell, Figure, Grid
from probsym.lab.report.drawing import Axes, Drawing, Tracks
from probsym.lab.report.gathered import Analysed, Row, labels_of
from probsym.lab.report.groups import alike, means, pairs_of, shared
from probsym.lab.report.names import colours_of, naturally, number, said, slug
from probsym.lab.report.other_figures import OTHER_FIGURES
from probsym.lab.report.paper_figures import PAPER_FIGURES
from probsym.lab.results import average

FIGURES = (*PAPER_FIGURES, *OTHER_FIGURES)
"""A new figure is one more object in either file; analyses that have none are shown as tables."""
REFERENCE = "uniform"
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
            marked = [label for one in drawn_tracks for track in one for label, _ in track.references]
            legend |= {label: f"{shade(GREY)} reference" for label in marked}
    title = f"{drawing.title}: {of}" if of.strip("/") else drawing.title
    return Figure(
        f"{title} ({drawing.paper})" if drawing.paper else title,
        slug(f"figure {title}"),
        charts,
        list(legend.items()),
        drawing.text,
        [claim.on(files, drawing.paper) for claim in drawing.claims],
        [(file.file, file.anchor) for file in files],
        grid,
    )


def lines_of(drawing: Drawing, panel: Axes, files: Sequence[Analysed], labels: dict[str, str]) -> list[Line]:
    """One line for each run and series.

    If runs are joined, one for each row, settings and series: the mean over seeds where all of them have a point, and
    through runs with other draws in training, each of which adds points of its own.
    """
    lines: dict[tuple[str, str], list[tuple[float, float]]] = {}
    reference: list[tuple[float, float]] = []
    groups = alike(files, training_draws=True) if drawing.joined else {file.anchor: [file] for file in files}
    for group, some in groups.items():
        for seeds in alike(some).values():
            chosen = [drawing.rows(file.rows) for file in seeds]
            common = shared(chosen, panel.x)
            for rows in chosen:
                for row in rows:
                    label = ", ".join(_titles(drawing, group if len(groups) > 1 else "", seeds[0], row, labels))
                    points = [(x, y) for x, y in pairs_of([row], panel.x, panel.y) if x in common]
                    if points:
                        lines.setdefault((label, group), []).extend(points)
                    reference += pairs_of([row], panel.x, panel.reference)
    ordered = sorted(lines, key=lambda one: naturally(one[0])) if drawing.joined else list(lines)
    colours = colours_of([label for label, _ in ordered])
    found = [Line(key[0], means(lines[key]), colours[key[0]]) for key in ordered]
    return found + ([Line(REFERENCE, means(reference), GREY, dashed=True)] if reference else [])


def _titles(drawing: Drawing, group: str, file: Analysed, row: Row, labels: dict[str, str]) -> list[str]:
    """What tells a line from others: its run, or its group if there are several, and its series."""
    series = [
        f"{column.replace('_', ' ')} {said(row[column])}"
        if number(row.get(column)) is not None
        else said(row.get(column))
        for column in drawing.series
    ]
    short = group.partition("/")[2]
    if drawing.joined:
        return [short, *series] if short else series or [file.row.partition("/")[2]]
    return series if series and drawing.apart else [labels[file.anchor], *series]


def tracks_of(drawing: Drawing, panel: Tracks, files: Sequence[Analysed], labels: dict[str, str]) -> list[Track]:
    """One track for each run and what the panel's columns say; if runs are joined, for each row and settings.

    Dots are means over the rows of a track.
    """
    groups = alike(files, training_draws=True) if drawing.joined else {file.anchor: [file] for file in files}
    tracks: dict[tuple[str, str], list[Row]] = {}
    for group, some in groups.items():
        of = group.partition("/")[2] if drawing.joined else "" if drawing.apart else labels[some[0].anchor]
        for row in (row for file in some for row in drawing.rows(file.rows)):
            first = [of] if of and not (drawing.joined and len(groups) == 1) else []
            title = " · ".join([*first, *(said(row.get(column)) for column in panel.by)])
            tracks.setdefault((group, title), []).append(row)
    names = list(panel.values)
    if panel.dots:
        names = list(dict.fromkeys(said(row.get(panel.dots)) for rows in tracks.values() for row in rows))
    colours = colours_of([name.replace("_", " ") for name in names])
    found = []
    for (_, title), rows in tracks.items():
        dots = []
        for name in names:
            chosen = [row for row in rows if said(row.get(panel.dots)) == name] if panel.dots else rows
            values = _numbers(chosen, panel.values[0] if panel.dots else name)
            margins = _numbers(chosen, panel.margin)
            if values:
                label = name.replace("_", " ")
                dots.append((label, average(values), colours[label], 2 * average(margins) if margins else 0.0))
        marked = next((values for column in panel.reference if (values := _numbers(rows, column))), [])
        found.append(Track(title, dots, [(panel.reference_title, average(marked))] if marked else []))
    return found


def _numbers(rows: Sequence[Row], column: str) -> list[float]:
    return [value for value in (number(row.get(column)) for row in rows) if value is not None]


def rows_of(files: Sequence[Analysed]) -> Grid:
    """The rows themselves, of all these files."""
    labels = labels_of(files, seeds=False)
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
