"""What a report is made from: result files, curves, rows of analyses and benchmarks, each with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from probsym.errors import RunError
from probsym.lab.report.names import Name, in_words, parted, slug
from probsym.lab.results import is_result, json_files, read_curve, read_json

Row = Mapping[str, Any]
BENCHMARKS = "benchmarks"


@dataclass(frozen=True)
class Source:
    """A file: what it holds, and how the report names it."""

    file: str
    anchor: str
    content: Mapping[str, Any]


@dataclass(frozen=True)
class Run(Source):
    """The result of one run, and where its curve is if it has one."""

    curve_path: Path = field(default_factory=Path)

    @property
    def row(self) -> str:
        return str(self.content["row"])

    @property
    def name(self) -> Name:
        return parted(self.row)

    @property
    def changed(self) -> str:
        return in_words(self.content.get("changed"))

    @cached_property
    def curve(self) -> list[dict[str, float]]:
        try:
            return read_curve(self.curve_path)
        except (OSError, ValueError, TypeError) as error:
            raise RunError(f"Expected {self.curve_path} to be the curve of a run (got: {error})") from error


@dataclass(frozen=True)
class Analysed(Source):
    """What a trained run was asked, and the rows that came of it; a study asks none, and has no row."""

    @property
    def run(self) -> Mapping[str, Any]:
        return self.content["run"] or {}

    @property
    def analysis(self) -> str:
        return str(self.content["analysis"])

    @property
    def rows(self) -> list[Row]:
        return [one for one in self.content["rows"] if isinstance(one, dict)]

    @property
    def row(self) -> str:
        return str(self.run.get("row", ""))

    @property
    def name(self) -> Name:
        return parted(self.row)

    @property
    def seed(self) -> str:
        return str(self.run.get("seed", ""))

    @property
    def changed(self) -> str:
        return in_words(self.run.get("changed"))


@dataclass(frozen=True)
class Gathered:
    """All that one report is about."""

    runs: Sequence[Run] = ()
    analyses: Sequence[Analysed] = ()
    benchmarks: Sequence[Source] = ()

    @cached_property
    def results(self) -> dict[str, list[Mapping[str, Any]]]:
        """The results by row, as tables want them."""
        found: dict[str, list[Mapping[str, Any]]] = {}
        for run in self.runs:
            found.setdefault(run.row, []).append(run.content)
        return found

    def anchor(self, row: str, changed: str = "") -> str:
        """Where the runs of a row with these settings begin."""
        return next((run.anchor for run in self.runs if (run.row, run.changed) == (row, changed)), "")


def gather(folder: Path) -> Gathered:
    """Everything under a folder of results, except what was superseded."""
    found = _sorted_out((path, str(path.relative_to(folder))) for path in json_files(folder))
    if not found.runs:
        raise RunError(f"Expected results in {folder} (got none)")
    return found


def gather_runs(folders: Iterable[Path]) -> Gathered:
    """Finished runs: those folders, or whatever runs are under them."""
    files: dict[Path, str] = {}
    for folder in folders:
        found = sorted(folder.rglob("result.json"))
        if not found:
            raise RunError(f"Expected a finished run with a result.json in {folder} (got none)")
        for path in found:
            if not is_result(read_json(path)):
                raise RunError(f"Expected {path} to be the result of a run (got something else)")
            files |= {one.resolve(): str(one) for one in sorted(path.parent.glob("*.json"))}
    return _sorted_out(files.items())


def _sorted_out(files: Iterable[tuple[Path, str]]) -> Gathered:
    runs, analyses, benchmarks = [], [], []
    anchors = _Anchors()
    for path, name in files:
        content = read_json(path)
        if not isinstance(content, dict):
            continue
        if is_result(content):
            if not isinstance(content["metrics"], dict):
                raise RunError(f"Expected {path} to have metrics by name (got {content['metrics']!r})")
            curve = path.with_name("curve.csv") if path.name == "result.json" else path.with_suffix(".csv")
            anchor = anchors.new(f"run {content['row']} {in_words(content.get('changed'))}")
            runs.append(Run(name, anchor, content, curve))
        elif _is_analysis(content):
            analyses.append(Analysed(name, anchors.new(f"analysis {Path(name).with_suffix('')}"), content))
        elif Path(name).parts[0] == BENCHMARKS or "benchmark" in content:
            benchmarks.append(Source(name, anchors.new(f"benchmark {Path(name).stem}"), content))
    return Gathered(runs, analyses, benchmarks)


def _is_analysis(content: Mapping[str, Any]) -> bool:
    has_rows = "analysis" in content and isinstance(content.get("rows"), list)
    return has_rows and isinstance(content.get("run"), dict | None)


def labels_of(sources: Sequence[Run | Analysed]) -> dict[str, str]:
    """A short name for each by its anchor: the row without the task, and the settings where a row has several."""
    settings: dict[str, set[str]] = {}
    for one in sources:
        settings.setdefault(one.row, set()).add(one.changed)
    return {
        one.anchor: (one.row.partition("/")[2] or one.file)
        + (f", {one.changed or 'as in the paper'}" if len(settings[one.row]) > 1 else "")
        for one in sources
    }


class _Anchors:
    """Names that are not given twice."""

    def __init__(self) -> None:
        self.taken: set[str] = set()

    def new(self, text: str) -> str:
        name = next(one for one in self._candidates(slug(text)) if one not in self.taken)
        self.taken.add(name)
        return name

    def _candidates(self, name: str) -> Iterator[str]:
        yield name
        count = 1
        while True:
            count += 1
            yield f"{name}-{count}"
