"""Results: one JSON file a run, never edited and never overwritten; tables read nothing else."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from probsym._internal.json_file import read_json
from probsym.errors import RunError
from probsym.lab.json_with_table import find_table, table_text, write_new
from probsym.lab.text import is_number, number

FIELDS = ("row", "metrics", "seed", "command", "commit", "hardware", "torch", "date")


class Summary(NamedTuple):
    """A metric over the seeds of a row: mean, deviation if there are several, their number, and their precisions.

    The mean is NaN, and there is no deviation, if any of them is not finite.
    """

    mean: float
    deviation: float | None
    seeds: int
    precisions: tuple[str, ...] = ()


def result_path(folder: Path, row: str, seed: int, changed: Mapping[str, Any] | None = None) -> Path:
    """Where a result belongs: `ROW/seed-N.json`, or if settings were changed, a folder deeper that says which.

    >>> str(result_path(Path("results"), "nbody/gnn-ps", 0, {"epochs": 1000, "tau": 0.2}))
    'results/nbody/gnn-ps/epochs=1000+tau=0.2/seed-0.json'
    """
    names = row.split("/") if isinstance(row, str) else [""]
    if changed:
        names.append(in_words(changed, "+"))
    if not all(map(_is_name, names)) or not isinstance(seed, int) or isinstance(seed, bool):
        raise RunError(f"Expected a row, seed and settings that name a file (got {row!r}, {seed!r}, {changed!r})")
    return folder.joinpath(*names) / f"seed-{seed}.json"


def _is_name(text: str) -> bool:
    """Whether a file can have that name: it is in no other folder, nor hidden, and not too long."""
    return Path(text).name == text != "" and not text.startswith(".") and "\0" not in text and len(text.encode()) <= 255


def in_words(changed: Mapping[str, Any] | None, between: str = ", ") -> str:
    """Changed settings on one line, in order of their names; nothing if none was changed.

    >>> in_words({"validate_every": 10, "epochs": 1000, "also_test_samples": [1, 2]})
    'also_test_samples=1,2, epochs=1000, validate_every=10'
    """
    return between.join(
        f"{name}={','.join(map(str, value)) if isinstance(value, list | tuple) else value}"
        for name, value in sorted((changed or {}).items())
    )


def apart(wanted: Mapping[str, Any], given: Mapping[str, Any]) -> tuple[str, str]:
    """The values in which two mappings differ, also those of mappings inside, by name.

    >>> apart({"seed": 1, "settings": {"epochs": 4, "tau": 0.1}}, {"seed": 1, "settings": {"epochs": 2}})
    ('settings.epochs=4, settings.tau=0.1', 'settings.epochs=2, no settings.tau')
    """
    ours, theirs = dict(_flat(wanted)), dict(_flat(given))
    names = [name for name in ours | theirs if name not in ours or name not in theirs or ours[name] != theirs[name]]

    def said(values: Mapping[str, Any]) -> str:
        return ", ".join(f"{name}={values[name]}" if name in values else f"no {name}" for name in names)

    return said(ours), said(theirs)


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def write_result(folder: Path, result: Mapping[str, Any], curve: Sequence[Mapping[str, float]] = ()) -> Path:
    """Write a result where `result_path` says, and the curve beside it as CSV; refuse to overwrite."""
    path = result_path(folder, result["row"], result["seed"], result.get("changed"))
    write_with_curve(path, path.with_suffix(".csv"), result, curve)
    return path


def write_with_curve(
    path: Path, curve_path: Path, result: Mapping[str, Any], curve: Sequence[Mapping[str, float]]
) -> dict[str, Any]:
    """Write a result and its curve, if it has one, and refuse to overwrite; what the result's file holds."""
    return write_new(path, result, curve_path, curve_text(curve)) if curve else write_new(path, result)


def curve_text(curve: Sequence[Mapping[str, float]]) -> str:
    """One line an epoch, with nothing where nothing was measured."""
    return table_text([{name: f"{value:.6g}" for name, value in row.items()} for row in curve])


def read_curve(path: Path, result: Mapping[str, Any] | None = None) -> list[dict[str, float]]:
    """A curve, one mapping an epoch; the one that a result names, if that is given; nothing if there is none."""
    path = find_table(path, result or {}, "`probsym train --resume` mends it, from the run's own folder")
    if not path.exists():
        return []
    try:
        if not path.is_file():
            raise OSError("something else than a file")
        with path.open(newline="") as file:
            return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]
    except (OSError, ValueError, TypeError, csv.Error) as error:
        raise RunError(f"Expected {path} to be the curve of a run (got: {error})") from error


def read_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All results under a folder by row, every seed of each; files of other kinds are passed over."""
    by_row: dict[str, list[dict[str, Any]]] = {}
    for path in sorted(folder.rglob("*.json")):
        result = read_json(path)
        if is_result(result):
            check_result(path, result)
            by_row.setdefault(result["row"], []).append(result)
    return by_row


def is_result(content: Any) -> bool:
    """Whether what a file holds is the result of a run."""
    return isinstance(content, dict) and all(name in content for name in FIELDS)


def check_result(path: Path, result: Mapping[str, Any]) -> None:
    """Refuse a result without a row and a seed, or whose metrics are not numbers or changed settings values by name."""
    metrics, changed = result["metrics"], result.get("changed")
    if not isinstance(result["row"], str) or not isinstance(result["seed"], int) or isinstance(result["seed"], bool):
        raise RunError(f"Expected {path} to name its row and seed (got {result['row']!r}, {result['seed']!r})")
    if not isinstance(metrics, dict):
        raise RunError(f"Expected {path} to have metrics by name (got {metrics!r})")
    for name, value in metrics.items():
        if not is_number(value):
            raise RunError(f"Expected {path} to have numbers for metrics (got {name}={value!r})")
    if not isinstance(changed, dict | None):
        raise RunError(f"Expected {path} to have changed settings by name (got {changed!r})")


def newest(results: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Of results of the same row, settings and seed the one with the latest date, in the order of the first of each."""
    latest: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for result in results:
        key = (result["row"], in_words(result.get("changed")), result["seed"])
        if key not in latest or str(result["date"]) >= str(latest[key]["date"]):
            latest[key] = result
    return list(latest.values())


def summarised(
    results: Sequence[Mapping[str, Any]], metric: str, changed: Mapping[str, Any] | None = None
) -> Summary | None:
    """A metric over the seeds, each of which counts once, by its newest run; None if nothing was measured.

    Only runs in which just these settings were changed count: others are not that row. By default none was.
    """
    wanted = in_words(changed)
    runs = newest(
        result for result in results if metric in result["metrics"] and in_words(result.get("changed")) == wanted
    )
    if not runs:
        return None
    precisions = tuple(sorted({str(run["precision"]) for run in runs if run.get("precision")}))
    values = [value for run in runs if (value := number(run["metrics"][metric])) is not None]
    if len(values) < len(runs):
        return Summary(math.nan, None, len(runs), precisions)
    mean = average(values)
    deviation = None if len(runs) == 1 else math.hypot(*(value - mean for value in values)) / math.sqrt(len(runs) - 1)
    return Summary(mean, deviation, len(runs), precisions)


def average(values: Sequence[float]) -> float:
    """The mean of some numbers, also of such whose sum is too large to be one.

    >>> average([1e308, 1.5e308])
    1.25e+308
    """
    count = len(values)
    if max(map(abs, values)) > 1e300:
        return math.fsum(value / count for value in values)
    return math.fsum(values) / count
