"""Results: one JSON file a run, never edited and never overwritten; tables read nothing else."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from probsym.errors import RunError

SUPERSEDED = "superseded"
FIELDS = ("row", "metrics", "seed", "command", "commit", "hardware", "torch", "date")


def result_path(folder: Path, row: str, seed: int, changed: Mapping[str, Any] | None = None) -> Path:
    """Where a result belongs: `ROW/seed-N.json`, or if settings were changed, a folder deeper that says which.

    >>> str(result_path(Path("results"), "nbody/gnn-ps", 0, {"epochs": 1000, "tau": 0.2}))
    'results/nbody/gnn-ps/epochs=1000+tau=0.2/seed-0.json'
    """
    place = folder / row
    if changed:
        place /= "+".join(f"{name}={_in_words(value)}" for name, value in sorted(changed.items()))
    return place / f"seed-{seed}.json"


def _in_words(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def write_result(folder: Path, result: Mapping[str, Any], curve: Sequence[Mapping[str, float]] = ()) -> Path:
    """Write a result where `result_path` says, and the curve beside it as CSV; refuse to overwrite."""
    path = result_path(folder, result["row"], result["seed"], result.get("changed"))
    path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, result)
    if curve:
        write_curve(path.with_suffix(".csv"), curve)
    return path


def write_new(path: Path, result: Mapping[str, Any]) -> None:
    """Write a file of JSON that is whole or not there, and refuse to overwrite one."""
    beside = path.with_name(f".{path.name}.partial")
    beside.write_text(json.dumps(result, indent=1) + "\n")
    try:
        os.link(beside, path)  # a rename would overwrite
    except FileExistsError as error:
        raise RunError(f"Expected no result at {path}, which is never overwritten (got one)") from error
    except OSError:  # a file system without links
        beside.rename(path)
    finally:
        beside.unlink(missing_ok=True)


def read_json(path: Path) -> Any:
    """What a file of JSON holds."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"Expected {path} to be JSON (got: {error})") from error


def write_curve(path: Path, curve: Sequence[Mapping[str, float]]) -> None:
    """One line an epoch, with nothing where nothing was measured."""
    names = dict.fromkeys(name for row in curve for name in row)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(names))
        writer.writeheader()
        writer.writerows({name: f"{value:.6g}" for name, value in row.items()} for row in curve)


def read_curve(path: Path) -> list[dict[str, float]]:
    """What `write_curve` wrote, one mapping an epoch; nothing if there is no such file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [{name: float(value) for name, value in row.items() if value} for row in csv.DictReader(file)]


def read_results(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """All results under a folder by row, every seed of each; files of other kinds are passed over.

    So is the folder SUPERSEDED in it: runs that were made again, since something was wrong with them, and are kept.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for path in json_files(folder):
        result = read_json(path)
        if is_result(result):
            found.setdefault(result["row"], []).append(result)
    return found


def json_files(folder: Path) -> list[Path]:
    """The files of JSON under a folder, but for SUPERSEDED."""
    return [path for path in sorted(folder.rglob("*.json")) if path.relative_to(folder).parts[0] != SUPERSEDED]


def is_result(content: Any) -> bool:
    """Whether what a file holds is the result of a run."""
    return isinstance(content, dict) and all(name in content for name in FIELDS)


def summarised(
    results: Sequence[Mapping[str, Any]], metric: str, changed: Mapping[str, Any] | None = None
) -> tuple[float, float | None, int] | None:
    """Mean over the seeds, deviation if there are several, and their number; None if nothing was measured.

    Only runs in which just these settings were changed count: others are not that row. By default none was.
    """
    wanted = {name: _in_words(value) for name, value in (changed or {}).items()}
    values = [
        one["metrics"][metric]
        for one in results
        if metric in one["metrics"] and wanted == {n: _in_words(v) for n, v in (one.get("changed") or {}).items()}
    ]
    if not values:
        return None
    mean = sum(values) / len(values)
    if len(values) == 1:
        return mean, None, 1
    return mean, (sum((one - mean) ** 2 for one in values) / (len(values) - 1)) ** 0.5, len(values)
