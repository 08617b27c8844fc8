"""What rows cost, and the benchmarks, whatever shape these have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from probsym.lab.report.document import Cell, Grid, row_of
from probsym.lab.report.gathered import Gathered, Run, Source
from probsym.lab.report.names import counted, number, said, seconds
from probsym.lab.results import average

STEPS = {"exp_classify": "exp-classify/mlp-ps"}
"""Benchmarks whose `step_seconds` are those of a row; others name their rows themselves."""
ROUNDING = 0.1
"""To how many seconds the time of a run is rounded."""
ORIGIN = ("benchmark", "command", "commit", "hardware", "threads", "torch", "date")


def cost_grid(gathered: Gathered) -> Grid:
    """Time of every row, mean over its seeds."""
    rows = []
    steps = step_times(gathered.benchmarks)
    for row, changed in dict.fromkeys((run.row, run.changed) for run in gathered.runs):
        runs = [run for run in gathered.runs if (run.row, run.changed) == (row, changed)]
        walls = [_whole(run) for run in runs]
        times = [
            None if None in walls else _mean(walls),
            _mean(_metric(run, "train_seconds") for run in runs),
        ]
        epochs = _mean(_content(run, "epochs") for run in runs)
        each = seconds(times[1] / epochs) if times[1] and epochs else ""
        hardware = ", ".join(dict.fromkeys(str(run.content["hardware"]) for run in runs))
        precision = ", ".join(dict.fromkeys(str(run.content.get("precision", "")) for run in runs))
        whole, training = ("" if one is None else seconds(one) for one in times)
        rows.append(
            row_of(
                Cell(row, changed, link=runs[0].anchor),
                hardware,
                precision,
                str(len(runs)),
                whole,
                training,
                each,
                Cell("; ".join(steps.get(row, ()))),
            )
        )
    head = ("row", "hardware", "precision", "seeds", "whole run", "training", "an epoch", "a training step")
    shown = len(head) if any(row[-1].text for row in rows) else len(head) - 1
    return Grid("Time of each row, mean over its seeds", head[:shown], [row[:shown] for row in rows], words=3)


def step_times(benchmarks: Sequence[Source]) -> dict[str, list[str]]:
    """The time of a training step by row: on each hardware, the fastest way that the latest benchmark has."""
    found: dict[str, dict[str, str]] = {}
    for source in sorted(benchmarks, key=lambda one: str(one.content.get("date", ""))):
        named = {name: value for name, value in source.content.items() if "/" in name}
        steps = source.content.get("step_seconds")
        if source.content.get("benchmark") in STEPS and steps is not None:
            named[STEPS[str(source.content["benchmark"])]] = steps
        for row, times in named.items():
            numbers = {name: number(value) for name, value in times.items()} if isinstance(times, dict) else {}
            ours = {name: value for name, value in numbers.items() if value and not name.startswith("bare")}
            if ours:
                name = min(ours, key=lambda one: ours[one])
                hardware = str(source.content.get("hardware", ""))
                found.setdefault(row, {})[hardware] = (
                    f"{seconds(ours[name])} ({name.replace('_', ' and ')}, {hardware})"
                )
    return {row: list(one.values()) for row, one in found.items()}


def benchmark_grids(benchmarks: Sequence[Source]) -> list[Grid]:
    """One table for each benchmark: its numbers line by line, a column for each file, the latest first.

    A list of records in a file, like the kernels of a step, is a table of its own behind that of its benchmark.
    """
    kinds: dict[str, list[Source]] = {}
    for source in benchmarks:
        kinds.setdefault(str(source.content.get("benchmark", source.file)), []).append(source)
    return [grid for kind, sources in sorted(kinds.items()) for grid in _benchmark(kind, sources)]


def _benchmark(kind: str, sources: Sequence[Source]) -> list[Grid]:
    ordered = sorted(sources, key=lambda one: str(one.content.get("date", "")), reverse=True)
    columns = [dict(flat({k: v for k, v in one.content.items() if k not in ORIGIN})) for one in ordered]
    titles = [one.file.removeprefix("benchmarks/").removesuffix(".json") for one in ordered]
    tables = []
    for title, column in zip(titles, columns, strict=True):
        for name, value in column.items():
            if is_records(value):
                tables.append(_records(f"{title}, {' / '.join(name)}", name, value))
                column[name] = f"{counted(len(value), 'row')}, in a table below"
    names = list(dict.fromkeys(name for one in columns for name in one))
    where = [Cell(str(one.content.get("hardware", "")), link=one.anchor) for one in ordered]
    rows = [row_of("hardware", *where)]
    rows += [row_of(" / ".join(name), *(_written(name, one.get(name)) for one in columns)) for name in names]
    caption = f"{kind.replace('_', ' ')}: {counted(len(ordered), 'file')}"
    return [Grid(caption, ("number", *titles), rows, folded=True), *tables]


def is_records(value: Any) -> bool:
    """Whether a value is a table: a list of mappings, one at least, and none of them empty."""
    return isinstance(value, list) and len(value) > 0 and all(isinstance(one, dict) and one for one in value)


def _records(caption: str, above: Sequence[str], records: Sequence[Mapping[str, Any]]) -> Grid:
    head = list(dict.fromkeys(name for one in records for name in one))
    rows = [row_of(*(_written((*above, name), one.get(name)) for name in head)) for one in records]
    return Grid(f"{caption}: {counted(len(records), 'row')}", head, rows, folded=True)


def flat(content: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Nested values with the names that lead to them."""
    for name, value in content.items():
        if isinstance(value, dict):
            yield from flat(value, (*above, str(name)))
        else:
            yield (*above, str(name)), value


def _written(name: Sequence[str], value: Any) -> str:
    found = number(value)
    timed = any(part == "seconds" or part.endswith("_seconds") for part in name) or "/" in name[0]
    return seconds(found) if timed and found is not None and found > 0 else said(value)


def _whole(run: Run) -> float | None:
    """The time of a run; None where its file has less than its training, as older ones of resumed runs have."""
    wall, training = _content(run, "wall_seconds"), _metric(run, "train_seconds")
    return None if wall is None or (training is not None and wall < training - ROUNDING) else wall


def _content(run: Run, name: str) -> float | None:
    return number(run.content.get(name))


def _metric(run: Run, name: str) -> float | None:
    return number(run.content["metrics"].get(name))


def _mean(values: Iterable[float | None]) -> float | None:
    found = [one for one in values if one is not None]
    return average(found) if found else None
