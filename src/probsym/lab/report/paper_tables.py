"""The paper's tables with ours beside, judged; those of runs with changed settings; and rows that no table has."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from probsym.lab.paper import TABLES, Column, Line, PaperTable, listed_rows
from probsym.lab.report.document import Cell, Grid, Mark, row_of
from probsym.lab.report.gathered import CHECKED, Gathered, Run
from probsym.lab.report.marks import judged
from probsym.lab.report.names import number, said
from probsym.lab.results import Summary, in_words, summarised
from probsym.lab.tables import cell, control_numbers, number_in_words

CONTROLLED = (("pairs", "controls"), ("calibrated_pairs", "controls"))
NOT_FINITE = "not finite"


def paper_grids(gathered: Gathered) -> list[Grid]:
    """Every table that has a number of ours, as in the paper; after each, those with changed settings."""
    found = []
    for table in TABLES.values():
        for changed in [{}, *_settings(table, gathered.runs)]:
            grid = paper_grid(table, gathered, changed)
            if grid is not None:
                found.append(grid)
    return found


def paper_grid(table: PaperTable, gathered: Gathered, changed: Mapping[str, Any] | None = None) -> Grid | None:
    """One table, or None if nothing of ours is in it.

    With changed settings only lines and columns that have something of ours, and nothing is said to be better or worse:
    that may be the settings.
    """
    ours = {
        (line.title, column.title): _ours(line, column, gathered, changed)
        for line in table.lines
        for column in table.columns
    }
    found = {place for place, one in ours.items() if one is not None}
    if not found:
        return None
    lines, columns = list(table.lines), list(table.columns)
    if changed:
        lines = [line for line in lines if any(line.title == one for one, _ in found)]
        columns = [column for column in columns if any(column.title == one for _, one in found)]
    rows = []
    for line in lines:
        pairs = [(_paper(line, column), ours[line.title, column.title] or "") for column in columns]
        rows.append(row_of(line.title, *(one for pair in pairs for one in pair)))
    title = f"Table {table.number}. {table.title}"
    return Grid(
        f"{title}; ours with {in_words(changed)}: differences may be of the budget, and are not judged"
        if changed
        else title,
        ("method", *("paper", "ours") * len(columns)),
        rows,
        (("", 1), *((f"{column.title} {'↑' if column.larger else '↓'}", 2) for column in columns)),
    )


def tally(gathered: Gathered) -> Counter[str]:
    """How many of our numbers have which kind of mark, or are not finite: each row and metric once."""
    found: dict[tuple[str, str], str] = {}
    for table in TABLES.values():
        for line in table.lines:
            for column in table.columns:
                place = cell(line, column, gathered.results)
                if place.row is not None and place.ours is not None and place.paper is not None:
                    mark = _mark(line, column, gathered)
                    found.setdefault((place.row, place.metric), mark.kind if mark else NOT_FINITE)
    return Counter(found.values())


def _ours(line: Line, column: Column, gathered: Gathered, changed: Mapping[str, Any] | None) -> Cell | None:
    place = cell(line, column, gathered.results, changed)
    if place.ours is None or place.row is None:
        return None
    mark = None if changed else _mark(line, column, gathered)
    return summary_cell(place.ours, gathered.anchor(place.row, in_words(changed)), mark)


def _mark(line: Line, column: Column, gathered: Gathered) -> Mark | None:
    place = cell(line, column, gathered.results)
    if place.row is None or place.ours is None or place.paper is None:
        return None
    scatter = summarised(gathered.results[place.row], f"{place.metric}_std")
    known = scatter is not None and math.isfinite(scatter.mean)
    return judged(place.ours, place.paper, column.larger, scatter.mean if scatter and known else None)


def _paper(line: Line, column: Column) -> str:
    return f"{line.numbers[column.title]:g}" if column.title in line.numbers else ""


def summary_cell(ours: Summary | None, link: str = "", mark: Mark | None = None) -> Cell:
    """Mean, deviation and number of seeds."""
    return Cell("") if ours is None else Cell(*number_in_words(ours), mark, link)


def _settings(table: PaperTable, runs: Sequence[Run]) -> list[Mapping[str, Any]]:
    """The changed settings of runs whose rows the table has."""
    found = {run.changed: run.content["changed"] for run in runs if run.row in table.rows and run.changed}
    return [found[words] for words in sorted(found)]


def control_grids(gathered: Gathered) -> list[Grid]:
    """For every table of separation: pairs left, and relabelled copies called different, by both protocols."""
    found = []
    for table in TABLES.values():
        columns = [column for column in table.columns if column.metric == "not_separated"]
        rows = []
        for line in table.lines:
            cells = [one for column in columns for one in _controls(line, column, gathered)]
            if any(one.text for one in cells):
                rows.append(row_of(line.title, *cells))
        if rows:
            groups = [
                (f"{column.title}, {name}", 2) for column in columns for name in ("paper's protocol", "calibrated")
            ]
            head = ("method", *("pairs left", "copies apart") * len(groups))
            found.append(Grid(f"What the counts of Table {table.number} are worth", head, rows, (("", 1), *groups)))
    return found


def _controls(line: Line, column: Column, gathered: Gathered) -> Iterator[Cell]:
    row = f"{column.task}/{line.row}"
    numbers = iter(control_numbers(line, column, gathered.results))
    for totals in CONTROLLED:
        for total in totals:
            ours = next(numbers)
            of = summarised(gathered.results.get(row, ()), total)
            found = summary_cell(ours, gathered.anchor(row))
            yield Cell(found.text, f"of {said(of.mean)}" if ours and of else "", link=found.link)


def other_grid(gathered: Gathered) -> Grid | None:
    """Rows that no table of the paper has: what was measured of them, with how many draws."""
    listed = listed_rows()
    rows = []
    for row, changed in dict.fromkeys((run.row, run.changed) for run in gathered.runs if run.row not in listed):
        runs = [run for run in gathered.runs if (run.row, run.changed) == (row, changed)]
        for metric in _metrics(runs[0]):
            ours = summarised([run.content for run in runs], metric, runs[0].content.get("changed"))
            cells = (
                row,
                changed,
                metric.replace("_", " "),
                summary_cell(ours, runs[0].anchor),
                _draws(runs[0], gathered),
            )
            rows.append(row_of(*cells))
    head = ("row", "settings", "metric", "ours", "draws")
    return Grid("Rows that no table of the paper has", head, rows, words=3) if rows else None


def _metrics(run: Run) -> list[str]:
    """What the paper reports of the task, or every test metric if it has no such task."""
    wanted = [column.metric for one in TABLES.values() for column in one.columns if column.task == run.name.task]
    found = [name for name in dict.fromkeys(wanted) if name in run.content["metrics"]]
    found += [name for name in ("not_separated_calibrated",) if name in run.content["metrics"]]
    tests = [name for name in run.content["metrics"] if name.startswith("test_") and not name.endswith("_std")]
    return found or [name for name in tests if "_at_" not in name and "@" not in name]


def _draws(run: Run, gathered: Gathered) -> str:
    """With how many draws a row was tested; nothing for one that shows no sign of drawing anything.

    If its equivariance was checked draw by draw, that says how many an example has. A run that was also tested with
    other numbers of draws has their metrics only if it draws several, and repeated evaluations of one that draws
    nothing are all alike.
    """
    for row in (row for one in gathered.analyses if one.analysis == CHECKED and one.of(run) for row in one.rows):
        draws, examples = number(row.get("draws")), number(row.get("examples"))
        if draws and examples:
            return said(draws / examples)
    settings, metrics = run.content.get("settings"), run.content["metrics"]
    if not isinstance(settings, dict):
        return ""
    if settings.get("also_test_samples"):
        several = any("@" in name for name in metrics)
    else:
        several = any(value for name, value in metrics.items() if name.endswith("_std"))
    return said(number(settings.get("test_samples")) or number(settings.get("eval_samples"))) if several else ""
