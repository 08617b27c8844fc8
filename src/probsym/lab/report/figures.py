"""Figures from the rows of analyses, as `figures.toml` declares them."""

from __future__ import annotations

from collections.abc import Sequence

from probsym.lab.report.charts import GREY, Dot, Series, Track, colours_of, css_class, dot_chart, line_chart
from probsym.lab.report.claims import judge
from probsym.lab.report.document import Cell, Figure, Grid
from probsym.lab.report.figure_specs import FIGURES, Dots, FigureSpec, Lines
from probsym.lab.report.load import File, by_key
from probsym.lab.report.rows import Row, RunRows, averages, chosen, grouped, most_shared
from probsym.lab.results import average
from probsym.lab.text import brief, natural_key, number, words

REFERENCE = "uniform"
LONGEST_TEXT = 60


def figures(files: Sequence[File]) -> list[Figure | Grid]:
    """All figures that there are rows for, then the rows of analyses that no figure draws."""
    blocks: list[Figure | Grid] = []
    by_analysis = by_key(sorted(files, key=lambda file: natural_key(file.file)), lambda file: file.analysis)
    listed: set[str] = set()
    for place, spec in enumerate(FIGURES):
        some = [file for file in by_analysis.get(spec.analysis, ()) if file.rows]
        for order, group in enumerate(_by_task(some, bases=bool(spec.join))):
            grid = None if spec.analysis in listed else row_grid(group, folded=bool(spec.panels))
            blocks.append(_figure(spec, group, f"figure-{place}-{order}", grid))
        listed.add(spec.analysis)
    others = [group for name, some in by_analysis.items() if name not in listed for group in _by_task(some)]
    return [*blocks, *(row_grid(group) for group in others)]


def _by_task(files: Sequence[File], bases: bool = False) -> list[list[File]]:
    return list(by_key(files, lambda file: (file.name.task, file.name.base if bases else "")).values())


def row_grid(files: Sequence[File], folded: bool = False) -> Grid:
    """The rows themselves, of all these files."""
    columns = list(dict.fromkeys(name for file in files for row in file.rows for name in row))
    rows = [
        (
            Cell(label, f"seed {file.seed}" if file.seed else "", link=file.anchor),
            *(_short(row.get(c)) for c in columns),
        )
        for label, group in grouped(files, "seeds").items()
        for file in group
        for row in file.rows
    ]
    title = ", ".join(filter(None, (f"Rows of the analysis “{files[0].analysis}”", files[0].name.task)))
    return Grid(title, ["run", *map(words, columns)], rows, folded=folded)


def _short(value: object) -> Cell:
    text = brief(value)
    return Cell(text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}…")


def _figure(spec: FigureSpec, files: Sequence[File], anchor: str, grid: Grid | None) -> Figure:
    of = "/".join(filter(None, (files[0].name.task, files[0].name.base if spec.join else "")))
    title = f"{spec.title}: {of}" if of else spec.title
    groups = {label: chosen(group, spec.where) for label, group in grouped(files, spec.join).items()}
    if spec.most:
        groups = {label: most_shared(runs, spec.most) for label, runs in groups.items()}
    parts = [{label: runs} for label, runs in groups.items()] if spec.apart else [groups]
    legend: dict[str, str] = {}
    charts: list[str] = []
    for panel in spec.panels:
        names = [f"{next(iter(part))}: {panel.title}" if spec.apart else panel.title for part in parts]
        if isinstance(panel, Lines):
            drawn = [_lines(spec, panel, part) for part in parts]
            span = [point for lines in drawn for line in lines for point in line.points]
            options = {"log_x": panel.log_x, "log_y": panel.log_y}
            for name, lines in zip(names, drawn, strict=True):
                if lines:
                    charts.append(line_chart(f"{title}: {name}", lines, words(panel.x), name, span=span, **options))
                legend |= {line.label: css_class(line.colour, line.reference) for line in lines}
        else:
            tracks = [_tracks(spec, panel, part) for part in parts]
            ends = [end for some in tracks for track in some for end in track.ends]
            for name, some in zip(names, tracks, strict=True):
                charts.append(dot_chart(f"{title}: {name}", some, name, log=panel.log, span=ends))
                legend |= {dot.label: css_class(dot.colour) for track in some for dot in track.dots}
                legend |= {label: css_class(GREY, True) for track in some for label, _ in track.references}
    return Figure(
        f"{title} ({spec.paper})" if spec.paper else title,
        anchor,
        charts,
        list(legend.items()),
        spec.text,
        [judge(claim, files, spec.paper) for claim in spec.claims],
        [(file.file, file.anchor) for file in files],
        grid,
    )


def _lines(spec: FigureSpec, panel: Lines, groups: dict[str, list[RunRows]]) -> list[Series]:
    """One line for each group of runs and series: the mean over seeds, where all of them have a point."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for label, runs in groups.items():

        def name_of(row: Row, label: str = label) -> str:
            parts = [_series_name(row, column) for column in spec.series]
            return ", ".join(parts if parts and _is_plain(spec, groups) else [label, *parts])

        series: dict[str, list[RunRows]] = {}
        for run in runs:
            for name, rows in by_key(run.rows, name_of).items():
                series.setdefault(name, []).append(RunRows(run.changed, rows))
        lines |= {name: points for name, some in series.items() if (points := _points(some, panel.x, panel.y))}
    labels = sorted(lines, key=natural_key) if spec.join else list(lines)
    colours = colours_of(labels)
    drawn = [Series(label, lines[label], colours[label]) for label in labels]
    everything = RunRows("", [row for runs in groups.values() for run in runs for row in run.rows])
    reference = _points([everything], panel.x, panel.reference)
    return [*drawn, Series(REFERENCE, reference, GREY, True)] if reference else drawn


def _is_plain(spec: FigureSpec, groups: dict[str, list[RunRows]]) -> bool:
    """Whether the runs of a chart need not be named: there is one group of them, and the figure says which."""
    return spec.apart or (len(groups) == 1 and bool(spec.join))


def _points(runs: Sequence[RunRows], x: str, y: str) -> list[tuple[float, float]]:
    return [(value, mean) for value, mean in averages(runs, x, y).items() if isinstance(value, float)]


def _series_name(row: Row, column: str) -> str:
    value = row.get(column)
    return brief(value) if number(value) is None else f"{words(column)} {brief(value)}"


def _tracks(spec: FigureSpec, panel: Dots, groups: dict[str, list[RunRows]]) -> list[Track]:
    """One track for each group of runs and value of the panel's columns; dots are means over the rows of a track."""
    tracks: dict[str, list[Row]] = {}
    for label, runs in groups.items():
        shown = [] if panel.by and _is_plain(spec, groups) else [label]
        for row in (row for run in runs for row in run.rows):
            tracks.setdefault(" · ".join([*shown, *(brief(row.get(c)) for c in panel.by)]), []).append(row)
    names = list(dict.fromkeys(brief(row.get(panel.each)) for rows in tracks.values() for row in rows))
    names = names if panel.each else list(panel.values)
    colours = colours_of(map(words, names))
    drawn = []
    for title, rows in tracks.items():
        dots = []
        for name in names:
            some = [row for row in rows if brief(row.get(panel.each)) == name] if panel.each else rows
            values, margins = _numbers(some, panel.values[0] if panel.each else name), _numbers(some, panel.margin)
            if values:
                margin = 2 * average(margins) if margins else 0.0
                dots.append(Dot(words(name), average(values), colours[words(name)], margin))
        marked = next((values for column in panel.reference if (values := _numbers(rows, column))), [])
        drawn.append(Track(title, dots, [(panel.reference_title, average(marked))] if marked else []))
    return drawn


def _numbers(rows: Sequence[Row], column: str) -> list[float]:
    return [value for row in rows if (value := number(row.get(column))) is not None]
