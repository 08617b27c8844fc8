"""Rows of analyses: which runs belong together, and what their rows say on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from probsym.lab.report.load import File
from probsym.lab.report.text import number
from probsym.lab.results import average, in_words

Row = Mapping[str, Any]
Join = Literal["", "seeds", "draws"]
"""What runs may differ in and still belong together: nothing, the seed, or also the draws in training."""


class RunRows(NamedTuple):
    """Rows about one run, with its changed settings."""

    changed: str
    rows: list[Row]


def grouped(files: Sequence[File], join: Join = "", methods: bool = True) -> dict[str, list[File]]:
    """Files that belong together, by a label: the row without its task, or the base alone if not `methods`.

    With the settings where a row has several, and with the seed where a row with these settings has several.
    """
    keys = {file.anchor: _key(file, join, methods) for file in files}
    kinds = set(keys.values())
    groups: dict[str, list[File]] = {}
    for file in files:
        name, changed, seed = keys[file.anchor]
        parts = [name]
        if len({kind[1] for kind in kinds if kind[0] == name}) > 1:
            parts.append(changed or "as in the paper")
        if len({kind[2] for kind in kinds if kind[:2] == (name, changed)}) > 1:
            parts.append(f"seed {seed}")
        groups.setdefault(", ".join(parts), []).append(file)
    return groups


def _key(file: File, join: Join, methods: bool) -> tuple[str, str, str]:
    name = (file.row.partition("/")[2] if methods else file.name.base) or file.file
    settings = file.run.get("changed") or {}
    if join == "draws":
        settings = {key: value for key, value in settings.items() if key != "samples"}
    return name, in_words(settings), "" if join else file.seed


def chosen(files: Sequence[File], where: Mapping[str, Any]) -> list[RunRows]:
    """The rows of each run that have these values, or lack the column; `method` is that of the run, if not given."""
    runs = []
    for file in files:
        rows = [{"method": file.name.method, **row} for row in file.rows]
        runs.append(RunRows(file.changed, [row for row in rows if all(row.get(k, v) == v for k, v in where.items())]))
    return [run for run in runs if run.rows]


def most_shared(runs: Sequence[RunRows], column: str) -> list[RunRows]:
    """The rows with the largest number in a column that all runs have; all rows if no column is named."""
    if not column:
        return list(runs)
    shared = _shared(runs, column)
    most = max((value for value in shared if not isinstance(value, str)), default=None)
    return [RunRows(run.changed, [row for row in run.rows if _value(row, column) == most]) for run in runs if most]


def along(runs: Sequence[RunRows], x: str, y: str) -> dict[float | str, list[Row]]:
    """The rows that have a number in y, by their value of x, in order; of seeds, where all of them have that value."""
    seeds: dict[str, list[RunRows]] = {}
    for run in runs:
        rows = [row for row in run.rows if number(row.get(y)) is not None]
        if rows:
            seeds.setdefault(run.changed, []).append(RunRows(run.changed, rows))
    by_value: dict[float | str, list[Row]] = {}
    for group in seeds.values():
        shared = _shared(group, x)
        for row in (row for run in group for row in run.rows):
            value = _value(row, x)
            if value is not None and value in shared:
                by_value.setdefault(value, []).append(row)
    return dict(sorted(by_value.items(), key=lambda item: (isinstance(item[0], str), item[0])))


def averages(runs: Sequence[RunRows], x: str, y: str) -> dict[float | str, float]:
    """The mean of y by the value of x."""
    return {value: average([float(row[y]) for row in rows]) for value, rows in along(runs, x, y).items()}


def with_value(runs: Sequence[RunRows], column: str, value: Any) -> list[RunRows]:
    """The rows that have this value in a column, of the runs that have such rows."""
    some = [RunRows(run.changed, [row for row in run.rows if row.get(column) == value]) for run in runs]
    return [run for run in some if run.rows]


def _shared(runs: Sequence[RunRows], column: str) -> set[float | str]:
    values = [{value for row in run.rows if (value := _value(row, column)) is not None} for run in runs]
    return set.intersection(*values) if values else set()


def _value(row: Row, column: str) -> float | str | None:
    value = row.get(column)
    return value if isinstance(value, str) else number(value)
