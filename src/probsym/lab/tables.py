"""The paper's tables with our numbers beside, from result files and nothing else."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, NamedTuple

from rich.table import Table

from probsym.lab.known_names import closest
from probsym.lab.paper import TABLES, Column, Line, PaperTable, listed_rows
from probsym.lab.results import Summary, in_words, summarised
from probsym.lab.text import brief, counted

Results = Mapping[str, Sequence[Mapping[str, Any]]]


class Place(NamedTuple):
    """One place of a table: the row and metric of ours that belong there, the paper's number, and ours."""

    row: str | None
    metric: str
    paper: float | None
    ours: Summary | None


def place_of(line: Line, column: Column, results: Results, changed: Mapping[str, Any] | None = None) -> Place:
    """What stands where a line and a column meet."""
    metric = line.metric or column.metric
    row = None if line.row is None else f"{column.task}/{line.row}"
    ours = None if row is None else summarised(results.get(row, ()), metric, changed)
    return Place(row, metric, line.numbers.get(column.title), ours)


def table(number: int, results: Results, changed: Mapping[str, Any] | None = None) -> Table:
    """One table: for every column the paper's number and ours, mean and deviation over the seeds.

    Ours are those of runs in which just the given settings were changed; by default none. The caption says how many
    other rows of the same tasks there are.
    """
    published = _paper_table(number)
    title = f"Table {published.number}. {published.title}"
    if changed:
        title += f"; ours with {in_words(changed)}"
    shown = Table("method", title=title)
    for column in published.columns:
        title = f"{column.title} {'↑' if column.larger else '↓'}"
        shown.add_column(f"{title}\npaper", justify="right")
        shown.add_column(f"{title}\nours", justify="right", no_wrap=True)
    for line in published.lines:
        texts = []
        for column in published.columns:
            place = place_of(line, column, results, changed)
            texts += ["" if place.paper is None else f"{place.paper:g}", spoken_number(place.ours)]
        shown.add_row(line.title, *texts)
    if others := _others({column.task for column in published.columns}, results, changed):
        rows = "row of ours is" if others == 1 else "rows of ours are"
        shown.caption = f"{others} {rows} not in it, with other models or settings; `probsym report` has them."
    return shown


def _paper_table(number: int) -> PaperTable:
    published: PaperTable = closest(
        str(number), {str(key): paper for key, paper in TABLES.items()}, "table of the paper"
    )
    return published


def _others(tasks: Container[str], results: Results, changed: Mapping[str, Any] | None) -> int:
    """How many rows of these tasks have no place in a table of the paper, or have one with other settings."""
    places, wanted = listed_rows(), in_words(changed)
    pairs = {
        (row, settings)
        for row, runs in results.items()
        if row.split("/")[0] in tasks
        for settings in {in_words(run.get("changed")) for run in runs}
    }
    return sum(row not in places or settings != wanted for row, settings in pairs)


def controls(number: int, results: Results, changed: Mapping[str, Any] | None = None) -> Table | None:
    """Beside a table of separation: what each protocol says of pairs, and of graphs against copies of themselves.

    A pair that is left is not separated. A copy that is "separated" from its original shows what the count is worth.
    """
    published = _paper_table(number)
    columns = [column for column in published.columns if column.metric == "not_separated"]
    if not columns:
        return None
    shown = Table("method", title="What the counts are worth: pairs left, and relabelled copies called different")
    for column in columns:
        for protocol in ("paper's", "calibrated"):
            shown.add_column(f"{column.title}\n{protocol}\nleft", justify="right")
            shown.add_column(f"{column.title}\n{protocol}\ncopies", justify="right")
    for line in published.lines:
        texts = [
            spoken_number(summary) for column in columns for summary in control_numbers(line, column, results, changed)
        ]
        if any(texts):
            shown.add_row(line.title, *texts)
    return shown


def control_numbers(
    line: Line, column: Column, results: Results, changed: Mapping[str, Any] | None = None
) -> list[Summary | None]:
    """Pairs left and copies called different: by the paper's protocol, then by the calibrated one."""
    ours = results.get(f"{column.task}/{line.row}", ())
    return [
        summarised(ours, f"{name}{suffix}", changed)
        for suffix in ("", "_calibrated")
        for name in ("not_separated", "control_separated")
    ]


def listing(results: Results, recipes: Container[str]) -> Table:
    """Every row of every table: its recipe, the paper's number, ours, and how things stand."""
    shown = Table("table", "method")
    for title in ("recipe", "metric", "paper", "ours"):
        shown.add_column(title, no_wrap=True)
    shown.add_column("status")
    for paper in TABLES.values():
        for line in paper.lines:
            for column in paper.columns:
                place = place_of(line, column, results)
                number = "" if place.paper is None else f"{place.paper:g}"
                status = _status(place, recipes, results.get(place.row or "", ()))
                ours = spoken_number(place.ours)
                shown.add_row(str(paper.number), line.title, place.row or "", place.metric, number, ours, status)
    return shown


def number_in_words(ours: Summary) -> tuple[str, str]:
    """Mean and deviation; and beside them the number of seeds, with the precisions if they differ.

    >>> number_in_words(Summary(99.0666, 0.15, 3)), number_in_words(Summary(float("nan"), None, 1))
    (('99.07 ± 0.15', '3 seeds'), ('not finite', '1 seed'))
    """
    mean, deviation, seeds, precisions = ours
    note = counted(seeds, "seed") + (f", in {' and '.join(precisions)}" if len(precisions) > 1 else "")
    return brief(mean) if deviation is None else f"{brief(mean)} ± {deviation:.2g}", note


def spoken_number(ours: Summary | None) -> str:
    """The same as one text; of a single seed it is not said."""
    if ours is None:
        return ""
    text, note = number_in_words(ours)
    return text if ours.seeds == 1 else f"{text} ({note})"


def _status(place: Place, recipes: Container[str], runs: Sequence[Mapping[str, Any]]) -> str:
    if place.row is None:
        return "published only" if place.paper is not None else "published as diverged, or not at all"
    if place.ours is not None:
        return f"done, {counted(place.ours.seeds, 'seed')}"
    others = {in_words(run["changed"]) for run in runs if run.get("changed")}
    if others:
        return f"only with {' and with '.join(sorted(others))}"
    return "not run yet" if place.row in recipes else "no recipe yet"
