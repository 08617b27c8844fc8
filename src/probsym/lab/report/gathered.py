"""What a report is made from: result files, curves, rows of analyses and benchmarks, each with where it came from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from probsym.errors import RunError
from probsym.lab.report.names import Name, parted, slug
from probsym.lab.results import check_result, in_words, is_result, json_files, newest, read_curve, read_json

Row = Mapping[str, Any]
BENCHMARKS = "benchmarks"
CHECKED = "check"
"""Rows of `testing.assert_equivariant`, as the demonstration writes them."""


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
    def seed(self) -> str:
        return str(self.content["seed"])

    @property
    def changed(self) -> str:
        return in_words(self.content.get("changed"))

    @property
    def key(self) -> tuple[str, ...]:
        """What only one run should have."""
        return (self.row, self.changed, self.seed)

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
        return self.content.get("run") or {}

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

    @property
    def trained(self) -> str:
        """Changed settings but for the draws in training: what runs have in common that differ in these alone."""
        return in_words({name: value for name, value in (self.run.get("changed") or {}).items() if name != "samples"})

    @property
    def key(self) -> tuple[str, ...]:
        """What only one file should have; studies of no run are told apart by their files."""
        return (self.analysis, self.row, self.changed, self.seed) if self.row else (self.file,)

    def of(self, run: Run) -> bool:
        """Whether this was asked of that run, and not of another one like it."""
        same_date = self.run.get("date") in (None, run.content["date"])
        return (self.row, self.changed, self.seed) == run.key and same_date


@dataclass(frozen=True)
class Gathered:
    """All that one report is about.

    Of runs with the same row, settings and seed, and of analyses of such runs, only the newest; the others are older.
    """

    runs: Sequence[Run] = ()
    analyses: Sequence[Analysed] = ()
    benchmarks: Sequence[Source] = ()
    older_runs: Sequence[Run] = ()
    older_analyses: Sequence[Analysed] = ()

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


def gather_runs(folders: Iterable[Path], results: Path | None = None) -> Gathered:
    """Finished runs: those folders, or whatever runs are under them; and what was asked of them.

    Analyses are read from the folder of the run, and from a folder of results if there is one.
    """
    files: dict[Path, str] = {}
    for folder in folders:
        found = sorted(folder.rglob("result.json"))
        if not found:
            raise RunError(f"Expected a finished run with a result.json in {folder} (got none)")
        for path in found:
            if not is_result(read_json(path)):
                raise RunError(f"Expected {path} to be the result of a run (got something else)")
            files |= {one.resolve(): str(one) for one in sorted(path.parent.glob("*.json"))}
    asked = [path for path in json_files(results) if path.resolve() not in files] if results else []
    gathered = _sorted_out([*files.items(), *((path, str(path)) for path in asked if _is_analysis(read_json(path)))])
    analyses = [one for one in gathered.analyses if any(one.of(run) for run in gathered.runs)]
    return replace(gathered, analyses=analyses)


def _sorted_out(files: Iterable[tuple[Path, str]]) -> Gathered:
    runs, analyses, benchmarks = [], [], []
    anchors = _Anchors()
    for path, name in files:
        content = read_json(path)
        if is_result(content):
            check_result(path, content)
            curve = path.with_name("curve.csv") if path.name == "result.json" else path.with_suffix(".csv")
            anchor = anchors.new(f"run {content['row']} {in_words(content.get('changed'))}")
            runs.append(Run(name, anchor, content, curve))
        elif _is_analysis(content):
            _check_analysis(path, content)
            analyses.append(Analysed(name, anchors.new(f"analysis {Path(name).with_suffix('')}"), content))
        elif isinstance(content, dict) and (Path(name).parts[0] == BENCHMARKS or "benchmark" in content):
            benchmarks.append(Source(name, anchors.new(f"benchmark {Path(name).stem}"), content))
    counted = {id(one) for one in newest(run.content for run in runs)}
    asked: dict[tuple[str, ...], Analysed] = {}
    for one in sorted(analyses, key=lambda one: str(one.content.get("date", ""))):
        asked[one.key] = one
    return Gathered(
        [run for run in runs if id(run.content) in counted],
        [one for one in analyses if asked[one.key] is one],
        benchmarks,
        [run for run in runs if id(run.content) not in counted],
        [one for one in analyses if asked[one.key] is not one],
    )


def _is_analysis(content: Any) -> bool:
    return isinstance(content, dict) and "analysis" in content and isinstance(content.get("rows"), list)


def _check_analysis(path: Path, content: Mapping[str, Any]) -> None:
    run = content.get("run")
    if not isinstance(run, dict | None):
        raise RunError(f"Expected {path} to name the run that was asked, or none (got {run!r})")
    changed = (run or {}).get("changed")
    if not isinstance(changed, dict | None):
        raise RunError(f"Expected {path} to have changed settings by name (got {changed!r})")


def labels_of(sources: Sequence[Run | Analysed], seeds: bool = True) -> dict[str, str]:
    """A short name for each by its anchor: the row without the task.

    With the settings where a row has several, and with the seed where a row with these settings has several.
    """
    settings: dict[str, set[str]] = {}
    numbers: dict[tuple[str, str], set[str]] = {}
    for one in sources:
        settings.setdefault(one.row, set()).add(one.changed)
        numbers.setdefault((one.row, one.changed), set()).add(one.seed)
    found = {}
    for one in sources:
        parts = [one.row.partition("/")[2] or one.file]
        if len(settings[one.row]) > 1:
            parts.append(one.changed or "as in the paper")
        if seeds and len(numbers[one.row, one.changed]) > 1:
            parts.append(f"seed {one.seed}")
        found[one.anchor] = ", ".join(parts)
    return found


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
