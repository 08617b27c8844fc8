"""Load what a report is about: results with their curves, and rows of analyses."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from probsym._internal.json_file import read_json
from probsym.errors import RunError
from probsym.lab.json_with_table import find_table
from probsym.lab.results import check_result, in_words, is_result, read_curve

Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)
METHODS = ("ga", "ps", "canonical", "fa", "ps-fixed-noise", "from-haar")
"""Ways to symmetrize; each has the colour of its place in every chart."""


def by_key(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """The items by their keys, in the order of the first of each.

    >>> by_key([3, 1, 4, 1, 5], lambda number: number % 2)
    {1: [3, 1, 1, 5], 0: [4]}
    """
    groups: dict[Key, list[Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


class RowName(NamedTuple):
    """The parts of a row's name; without a method, the base is all that follows the task."""

    task: str
    base: str
    method: str


def split_row(row: str) -> RowName:
    """The parts of `task/base-method`.

    >>> split_row("exp/gin-id-ps-fixed-noise"), split_row("nbody/egnn")
    (RowName(task='exp', base='gin-id', method='ps-fixed-noise'), RowName(task='nbody', base='egnn', method=''))
    """
    task, _, rest = row.partition("/")
    for method in sorted(METHODS, key=len, reverse=True):
        if rest.endswith(f"-{method}"):
            return RowName(task, rest.removesuffix(f"-{method}"), method)
    return RowName(task, rest, "")


@dataclass(frozen=True)
class File:
    """A result or an analysis: its name, its anchor in the report, what it holds, and of which run."""

    file: str
    anchor: str
    content: Mapping[str, Any]
    run: Mapping[str, Any] = field(default_factory=dict)
    curve_path: Path | None = None

    @property
    def row(self) -> str:
        return str(self.run.get("row", ""))

    @property
    def name(self) -> RowName:
        return split_row(self.row)

    @property
    def seed(self) -> str:
        return str(self.run.get("seed", ""))

    @property
    def changed(self) -> str:
        return in_words(self.run.get("changed"))

    @property
    def analysis(self) -> str:
        return str(self.content.get("analysis", ""))

    @property
    def rows(self) -> list[Mapping[str, Any]]:
        """The rows of an analysis."""
        return [row for row in self.content["rows"] if isinstance(row, dict)]

    @property
    def key(self) -> tuple[str, ...]:
        """Of files with the same key only the newest counts; studies of no run are told apart by their files."""
        return (self.analysis, self.row, self.changed, self.seed) if self.row else (self.file,)

    @property
    def title(self) -> str:
        run = ", ".join(filter(None, (self.row, f"seed {self.seed}", self.changed))) if self.row else ""
        return " of ".join(filter(None, (self.analysis, run)))

    @cached_property
    def curve(self) -> list[dict[str, float]]:
        """One mapping per epoch; nothing if the run has no curve."""
        return read_curve(self.curve_path, self.content) if self.curve_path else []

    def is_of(self, run: File) -> bool:
        """Whether this analysis is of that very run, and not of another with the same settings and seed."""
        return self.key[1:] == run.key[1:] and self.run.get("date") in (None, run.content["date"])


@dataclass(frozen=True)
class ReportData:
    """All that a report is about; `older` files do not count, since there are newer ones of the same runs."""

    runs: Sequence[File] = ()
    analyses: Sequence[File] = ()
    older: Sequence[File] = ()

    @cached_property
    def results(self) -> dict[str, list[Mapping[str, Any]]]:
        """The results by row, as `lab.tables` takes them."""
        return {row: [run.content for run in self.runs if run.row == row] for row in {run.row for run in self.runs}}

    @cached_property
    def by_settings(self) -> dict[tuple[str, str], list[File]]:
        """The runs by row and changed settings: what differs is the seed."""
        return by_key(self.runs, lambda run: (run.row, run.changed))


def load_results(folder: Path) -> ReportData:
    """Everything under a folder of results."""
    data = _load((path, str(path.relative_to(folder))) for path in sorted(folder.rglob("*.json")))
    if not data.runs:
        raise RunError(f"Expected results in {folder} (got none)")
    return data


def load_runs(folders: Iterable[Path], results: Path | None = None) -> ReportData:
    """Finished runs under these folders, with their analyses beside them and in a folder of results."""
    files: dict[Path, str] = {}
    for folder in folders:
        paths = sorted(folder.rglob("result.json"))
        if not paths:
            raise RunError(f"Expected a finished run with a result.json in {folder} (got none)")
        for path in paths:
            if not is_result(read_json(path)):
                raise RunError(f"Expected {path} to be the result of a run (got something else)")
            files |= {beside.resolve(): str(beside) for beside in sorted(path.parent.glob("*.json"))}
    others = [path for path in sorted(results.rglob("*.json")) if path.resolve() not in files] if results else []
    asked = ((path, str(path)) for path in others if _is_analysis(read_json(path)))
    return _load([*files.items(), *asked], only_of_runs=True)


def _load(files: Iterable[tuple[Path, str]], only_of_runs: bool = False) -> ReportData:
    runs, analyses = [], []
    for place, (path, name) in enumerate(files):
        content, anchor = read_json(path), f"file-{place}"
        if is_result(content):
            check_result(path, content)
            curve = path.with_name("curve.csv") if path.name == "result.json" else path.with_suffix(".csv")
            runs.append(File(name, anchor, content, content, curve))
        elif _is_analysis(content):
            find_table(path.with_suffix(".csv"), content, "`probsym analyse`, asked the same once more, mends it")
            analyses.append(File(name, anchor, content, _checked_run(path, content)))
    if only_of_runs:
        analyses = [file for file in analyses if any(map(file.is_of, runs))]
    newest = {file.key: file for file in sorted((*runs, *analyses), key=lambda file: str(file.content.get("date", "")))}
    older = [file for file in (*runs, *analyses) if newest[file.key] is not file]
    return ReportData(
        [file for file in runs if newest[file.key] is file],
        [file for file in analyses if newest[file.key] is file],
        older,
    )


def _is_analysis(content: Any) -> bool:
    return isinstance(content, dict) and "analysis" in content and isinstance(content.get("rows"), list)


def _checked_run(path: Path, content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run that an analysis is of; nothing for a study of none."""
    run = content.get("run")
    if not isinstance(run, dict | None):
        raise RunError(f"Expected {path} to name the run that was asked, or none (got {run!r})")
    changed = (run or {}).get("changed")
    if not isinstance(changed, dict | None):
        raise RunError(f"Expected {path} to have changed settings by name (got {changed!r})")
    return run or {}
