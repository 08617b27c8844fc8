"""Learning curves: small multiples, one for each task, base and metric."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from probsym.lab.paper import TABLES
from probsym.lab.report.charts import Series, colours_of, css_class, line_chart
from probsym.lab.report.document import Figure
from probsym.lab.report.load import File, by_key
from probsym.lab.report.rows import grouped
from probsym.lab.results import average
from probsym.lab.text import words

POINTS = 125
PLAIN = "not symmetrized"


def curve_figures(runs: Sequence[File]) -> list[Figure]:
    """A figure for each task and set of changed settings; settings that a single row has share one."""
    groups = _groups([run for run in runs if run.curve])
    return [_figure(title, f"curves-{place}", group) for place, (title, group) in enumerate(groups)]


def _groups(runs: Sequence[File]) -> Iterator[tuple[str, list[File]]]:
    alone: dict[str, list[File]] = {}
    for (task, changed), group in by_key(runs, lambda run: (run.name.task, run.changed)).items():
        if changed and len({run.row for run in group}) == 1:
            alone.setdefault(task, []).extend(group)
        else:
            yield f"{task}, with {changed}" if changed else task, group
    for task, group in alone.items():
        yield f"{task}, with other settings", group


def _figure(title: str, anchor: str, runs: Sequence[File]) -> Figure:
    labels = {run.anchor: label for label, group in grouped(runs, "seeds").items() for run in group}
    ordered = sorted(runs, key=lambda run: not run.name.method)
    bases = by_key(ordered, lambda run: run.name.base if run.name.method else PLAIN)
    for run in ordered:
        if run.name.method:
            labels[run.anchor] = labels[run.anchor].removeprefix(f"{run.name.base}-")
    colours = colours_of(labels[run.anchor] for group in bases.values() for run in group)
    charts = []
    for base, group in bases.items():
        for column in dict.fromkeys((*map(metric_of, group), "train_loss")):
            lines = [Series(labels[run.anchor], thinned(run, column), colours[labels[run.anchor]]) for run in group]
            lines = [line for line in lines if line.points]
            name, log = f"{base}: {_spoken(column)}", is_better_low(column)
            if lines:
                charts.append(
                    line_chart(f"{title}, {name}", _raised(lines) if log else lines, "epoch", name, log_y=log)
                )
    most = max(math.ceil(len(run.curve) / POINTS) for run in runs)
    return Figure(
        f"Learning curves: {title}",
        anchor,
        charts,
        [(label, css_class(colour)) for label, colour in colours.items()],
        "One line per seed" + (f"; each point is the mean of up to {most} epochs." if most > 1 else "."),
        sources=list({run.row: (run.row, run.anchor) for run in runs}.values()),
    )


def metric_of(run: File) -> str:
    """The column of the curve that validates what the paper's table reports, or the next best."""
    columns = dict.fromkeys(name for row in run.curve for name in row)
    reported = [column.metric for table in TABLES.values() for column in table.columns if column.task == run.name.task]
    valid = sorted((name for name in columns if name.startswith("valid_")), key=lambda name: name == "valid_loss")
    ordered = [*(metric.replace("test_", "valid_") for metric in reported), *valid]
    return next((name for name in ordered if name in columns), "train_loss")


def thinned(run: File, column: str) -> list[tuple[float, float]]:
    """Points of a curve, each the mean of a few epochs where there are many."""
    points = [(row.get("epoch", place + 1.0), row[column]) for place, row in enumerate(run.curve) if column in row]
    points = [(epoch, value) for epoch, value in points if math.isfinite(value)]
    step = max(1, math.ceil(len(points) / POINTS))
    few = [points[start : start + step] for start in range(0, len(points), step)]
    return [(average([x for x, _ in some]), average([y for _, y in some])) for some in few]


def _raised(lines: Sequence[Series]) -> list[Series]:
    """Lines that end at a billionth of the largest value: below that, a loss is zero to whoever looks."""
    floor = 1e-9 * max(y for line in lines for _, y in line.points)
    return [line._replace(points=[(x, max(y, floor)) for x, y in line.points]) for line in lines]


def is_better_low(column: str) -> bool:
    """Whether less of it is better: so for losses, and for what the paper's tables say it of.

    >>> is_better_low("valid_accuracy"), is_better_low("train_loss"), is_better_low("valid_mae")
    (False, True, True)
    """
    columns = [column for table in TABLES.values() for column in table.columns if not column.larger]
    low = {"loss", "total", *(column.metric.removeprefix("test_") for column in columns)}
    return re.sub(r"^(train|valid|test)_", "", column) in low


def _spoken(column: str) -> str:
    return words(column.replace("valid_", "validation ").replace("train_", "training "))
