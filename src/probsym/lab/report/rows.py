"""Rows of analyses: which runs belong together, and what their rows say on average."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from probsym.lab.report.load import File, by_key
from probsym.lab.results import average, in_words
from probsym.lab.text import number

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

    def label(file: File) -> str:
        name, changed, seed = keys[file.anchor]
        parts = [name]
        if len({kind[1] for kind in kinds if kind[0] == name}) > 1:
            parts.append(changed or "as in the paper")
        if len({kind[2] for kind in kinds if kind[:2] == (name, changed)}) > 1:
            parts.append(f"seed {seed}")
        return ", ".join(parts)

    return by_key(files, label)


def _key(file: File, join: Join, methods: bool) -> tuple[str, str, str]:
    name = (file.row.partition("/")[2] if methods else file.name.base) or file.file
    settings = file.run.get("changed") or {}
    if join == "draws":
        settings = {key: value for key, value in settings.items() if key != "samples"}
    return name, in_words(settings), "" if join else file.seed


def chosen(files: Sequence[File], where: Mapping[str, Any]) -> list[RunRows]:
    """The rows of each run that have these values, or lack the column; `method` is that of the run, if not given."""
    runs = [RunRows(file.changed, [{"method": file.name.method, **row} for row in file.rows]) for file in files]
    return _having(runs, lambda row: all(row.get(name, value) == value for name, value in where.items()))


def _having(runs: Sequence[RunRows], wanted: Callable[[Row], bool]) -> list[RunRows]:
    """The wanted rows of the runs that have such rows."""
    some = [RunRows(run.changed, list(filter(wanted, run.rows))) for run in runs]
    return [run for run in some if run.rows]


def most_shared(runs: Sequence[RunRows], column: str) -> list[RunRows]:
    """The rows with the largest number in a column that all runs have; all rows if no column is named."""
    if not column:
        return list(runs)
    shared = _shared(runs, column)
    most = max((value for value in shared if not isinstance(value, str)), default=None)
    return _having(runs, lambda row: _value(row, column) == most) if most else []


def along(runs: Sequence[RunRows], x: str, y: str) -> dict[float | str, list[Row]]:
    """The rows that have a number in y, by their value of x, in order; of seeds, where all of them have that value."""
    seeds = by_key(_having(runs, lambda row: number(row.get(y)) is not None), lambda run: run.changed)
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
    return _having(runs, lambda row: row.get(column) == value)


def _shared(runs: Sequence[RunRows], column: str) -> set[float | str]:
    values = [{value for row in run.rows if (value := _value(row, column)) is not None} for run in runs]
    return set.intersection(*values) if values else set()


def _value(row: Row, column: str) -> float | str | None:
    value = row.get(column)
    return value if isinstance(value, str) else number(value)
