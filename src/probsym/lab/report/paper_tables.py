"""The paper's tables with ours beside, compared; those of runs with changed settings; and rows that no table has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from probsym.lab.paper import TABLES, Column, Line, PaperTable, listed_rows
from probsym.lab.report.comparison import compare
from probsym.lab.report.document import Cell, Grid, Mark, cells
from probsym.lab.report.load import File, ReportData
from probsym.lab.results import in_words, summarised
from probsym.lab.tables import Place, control_numbers, number_in_words, place_of
from probsym.lab.text import brief, words

NOT_FINITE, NOT_RUN = "not finite", "not run"


def paper_grids(data: ReportData) -> list[Grid]:
    """Every table that has a number of ours, as in the paper; after each, those with changed settings."""
    grids = []
    for table in TABLES.values():
        changes = {run.changed: run.content["changed"] for run in data.runs if run.changed and run.row in table.rows}
        for changed in [{}, *(changes[name] for name in sorted(changes))]:
            grid = paper_grid(table, data, changed)
            grids += [grid] if grid else []
    return grids


def paper_grid(table: PaperTable, data: ReportData, changed: Mapping[str, Any] | None = None) -> Grid | None:
    """One table, or None if nothing of ours is in it, without lines that have no number at all.

    With changed settings only lines and columns that have something of ours, and nothing is called better or worse:
    that may be the settings.
    """
    places = {
        (line.title, column.title): place_of(line, column, data.results, changed)
        for line in table.lines
        for column in table.columns
    }
    ours = {titles for titles, place in places.items() if place.ours}
    if not ours:
        return None
    known = ours if changed else {titles for titles, place in places.items() if place.ours or place.paper is not None}
    lines = [line for line in table.lines if any(line.title == title for title, _ in known)]
    columns = [column for column in table.columns if not changed or any(column.title == title for _, title in ours)]
    rows = []
    for line in lines:
        row = [Cell(line.title)]
        for column in columns:
            place = places[line.title, column.title]
            paper = "" if place.paper is None else f"{place.paper:g}"
            row += [Cell(paper), _ours(place, data, changed, None if changed else _mark(place, column, data))]
        rows.append(row)
    note = (
        f"; ours with {in_words(changed)}: not compared, as differences may come from the settings" if changed else ""
    )
    groups = [(f"{column.title} {'↑' if column.larger else '↓'}", 2) for column in columns]
    head = ("method", *("paper", "ours") * len(columns))
    return Grid(f"Table {table.number}. {table.title}{note}", head, rows, (("", 1), *groups))


def tally(data: ReportData) -> Counter[str]:
    """How many numbers of the paper, each row and metric once, have ours beside them with which kind of mark.

    Or with a number that is not finite, or not run: those that we have a name for, and no result with nothing changed.
    """
    kinds: dict[tuple[str, str], str] = {}
    for table in TABLES.values():
        for line in table.lines:
            for column in table.columns:
                place = place_of(line, column, data.results)
                if place.row is not None and place.paper is not None:
                    mark = _mark(place, column, data)
                    kind = mark.kind if mark else NOT_FINITE if place.ours else NOT_RUN
                    kinds.setdefault((place.row, place.metric), kind)
    return Counter(kinds.values())


def _ours(place: Place, data: ReportData, changed: Mapping[str, Any] | None, mark: Mark | None) -> Cell:
    if place.row is None or place.ours is None:
        return Cell("")
    return Cell(*number_in_words(place.ours), mark, data.by_settings[place.row, in_words(changed)][0].anchor)


def _mark(place: Place, column: Column, data: ReportData) -> Mark | None:
    if place.row is None or place.ours is None or place.paper is None:
        return None
    evaluations = summarised(data.results[place.row], f"{place.metric}_std")
    known = evaluations is not None and math.isfinite(evaluations.mean)
    return compare(place.ours, place.paper, column.larger, evaluations.mean if evaluations and known else None)


def control_grids(data: ReportData) -> list[Grid]:
    """For every table of separation: pairs left, and relabelled copies called different, by both protocols."""
    grids = []
    for table in TABLES.values():
        columns = [column for column in table.columns if column.metric == "not_separated"]
        rows = [
            cells(line.title, *(cell for c in columns for cell in _controls(line, c, data))) for line in table.lines
        ]
        rows = [row for row in rows if any(cell.text for cell in row[1:])]
        if rows:
            groups = [
                (f"{column.title}, {name}", 2) for column in columns for name in ("paper's protocol", "calibrated")
            ]
            head = ("method", *("pairs left", "copies apart") * len(groups))
            grids.append(Grid(f"What the counts of Table {table.number} are worth", head, rows, (("", 1), *groups)))
    return grids


def _controls(line: Line, column: Column, data: ReportData) -> Iterator[Cell]:
    row = f"{column.task}/{line.row}"
    totals = ("pairs", "controls", "calibrated_pairs", "controls")
    for ours, total in zip(control_numbers(line, column, data.results), totals, strict=True):
        if ours is None:
            yield Cell("")
        else:
            of = summarised(data.results[row], total)
            note = f"of {brief(of.mean)}" if of else ""
            yield Cell(number_in_words(ours)[0], note, link=data.by_settings[row, ""][0].anchor)


def other_grid(data: ReportData) -> Grid | None:
    """Rows that no table of the paper has: what was measured of them."""
    listed = listed_rows()
    rows = []
    for (row, changed), runs in data.by_settings.items():
        for metric in _metrics(runs[0]) if row not in listed else ():
            ours = summarised([run.content for run in runs], metric, runs[0].content.get("changed"))
            if ours is not None:
                cell = Cell(*number_in_words(ours), link=runs[0].anchor)
                rows.append(cells(row, changed, words(metric), cell))
    head = ("row", "settings", "metric", "ours")
    return Grid("Rows that no table of the paper has", head, rows, words=3) if rows else None


def _metrics(run: File) -> list[str]:
    """What the paper reports of the task, or every test metric if it has no such task."""
    metrics = run.content["metrics"]
    reported = [column.metric for table in TABLES.values() for column in table.columns if column.task == run.name.task]
    known = [name for name in dict.fromkeys([*reported, "not_separated_calibrated"]) if name in metrics]
    tests = [name for name in metrics if name.startswith("test_") and not name.endswith("_std")]
    return known or [name for name in tests if "_at_" not in name and "@" not in name]
