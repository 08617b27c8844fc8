"""Learning curves: small multiples, one for each task, base and metric."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from probsym.lab.paper import TABLES
from probsym.lab.report.charts import Line, line_chart, shade
from probsym.lab.report.document import Cell, Figure, Grid
from probsym.lab.report.gathered import Run, labels_of
from probsym.lab.report.names import colours_of, said, slug
from probsym.lab.results import average

POINTS = 125
PLAIN = "not symmetrized"


def curve_figures(runs: Sequence[Run]) -> list[Figure]:
    """A figure for each task and set of changed settings; settings that a single row has share one."""
    return [_figure(title, group) for title, group in _groups([run for run in runs if run.curve])]


def _groups(runs: Sequence[Run]) -> Iterator[tuple[str, list[Run]]]:
    together: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        together.setdefault((run.name.task, run.changed), []).append(run)
    alone: dict[str, list[Run]] = {}
    for (task, changed), group in together.items():
        if changed and len({run.row for run in group}) == 1:
            alone.setdefault(task, []).extend(group)
        else:
            yield f"{task}, with {changed}" if changed else task, group
    for task, group in alone.items():
        yield f"{task}, with other settings", group


def metric_of(run: Run) -> str:
    """The column of the curve that validates what the paper's table reports, or the next best."""
    columns = dict.fromkeys(name for row in run.curve for name in row)
    wanted = [
        c.metric.replace("test_", "valid_") for t in TABLES.values() for c in t.columns if c.task == run.name.task
    ]
    others = [name for name in columns if name.startswith("valid_")]
    ordered = [*wanted, *(name for name in others if name != "valid_loss"), *others, "train_loss"]
    return next((name for name in ordered if name in columns), "train_loss")


def thinned(run: Run, column: str) -> list[tuple[float, float]]:
    """Points of a curve, each the mean of a few epochs where there are many."""
    points = [(row.get("epoch", float(place + 1)), row[column]) for place, row in enumerate(run.curve) if column in row]
    points = [(epoch, value) for epoch, value in points if math.isfinite(value)]
    step = max(1, math.ceil(len(points) / POINTS))
    few = [points[start : start + step] for start in range(0, len(points), step)]
    return [(average([x for x, _ in one]), average([y for _, y in one])) for one in few]


def _figure(title: str, runs: Sequence[Run]) -> Figure:
    bases: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda one: not one.name.method):
        bases.setdefault(run.name.base if run.name.method else PLAIN, []).append(run)
    several = labels_of(runs, seeds=False)
    labels = {
        run.anchor: several[run.anchor].removeprefix(f"{run.name.base}-") if run.name.method else several[run.anchor]
        for group in bases.values()
        for run in group
    }
    colours = colours_of(list(labels.values()))
    charts, raised = [], False
    for base, group in bases.items():
        for column in dict.fromkeys((*map(metric_of, group), "train_loss")):
            lines = [Line(labels[run.anchor], thinned(run, column), colours[labels[run.anchor]]) for run in group]
            lines = [line for line in lines if line.points]
            if lines:
                name = f"{base}: {said_metric(column)}"
                log = larger(column) is False
                seen = _raised(lines) if log else lines
                raised |= seen != lines
                charts.append(line_chart(f"{title}, {name}", seen, "epoch", name, log_y=log))
    most = max((math.ceil(len(run.curve) / POINTS) for run in runs), default=1)
    text = "One line a seed" + (f"; each point is the mean of up to {most} epochs" if most > 1 else "")
    return Figure(
        f"Learning curves: {title}",
        slug(f"curves {title}"),
        charts,
        [(label, shade(colour)) for label, colour in colours.items()],
        f"{text}. Losses end at a billionth of the largest." if raised else f"{text}.",
        sources=list({run.row: (run.row, run.anchor) for run in runs}.values()),
        grid=_numbers(title, runs),
    )


def _raised(lines: Sequence[Line]) -> list[Line]:
    """Lines that end at a billionth of the largest value: below that, a loss is zero to whoever looks."""
    floor = 1e-9 * max(y for line in lines for _, y in line.points)
    return [line._replace(points=[(x, max(y, floor)) for x, y in line.points]) for line in lines]


def larger(column: str) -> bool | None:
    """Whether more of it is better, as the paper's tables have it; less of a loss is, and of others it is not known.

    >>> larger("valid_accuracy"), larger("train_loss"), larger("valid_mae"), larger("valid_surprise")
    (True, False, False, None)
    """
    return LARGER.get(_metric(column))


def _metric(column: str) -> str:
    """What is measured, of whichever part of the data."""
    return re.sub(r"^(train|valid|test)_", "", column).removesuffix("_whole")


LARGER = {_metric(column.metric): column.larger for table in TABLES.values() for column in table.columns}
LARGER |= {"loss": False, "total": False}
"""The total is the loss with what is added to it in training."""


def said_metric(column: str) -> str:
    """A column of a curve in words."""
    return column.replace("valid_", "validation ").replace("train_", "training ").replace("_", " ")


def _numbers(title: str, runs: Sequence[Run]) -> Grid:
    rows = []
    for run in runs:
        column = metric_of(run)
        values = [row[column] for row in run.curve if column in row]
        known = [value for value in values if math.isfinite(value)]
        more = larger(column)
        best = None if more is None or not known else max(known) if more else min(known)
        ends = [values[0], best, values[-1]] if values else [None] * 3
        seed = f"seed {run.seed}"
        texts = (said_metric(column), str(len(run.curve)), *map(said, ends))
        rows.append((Cell(run.row, seed, link=run.anchor), *map(Cell, texts)))
    head = ("row", "metric", "epochs", "first", "best", "last")
    return Grid(f"Curves in numbers: {title}", head, rows, words=2, folded=True)
