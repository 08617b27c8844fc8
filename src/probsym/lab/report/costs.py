"""What rows cost."""

from __future__ import annotations

from collections.abc import Iterable

from probsym.lab.report.document import Cell, Grid, cells
from probsym.lab.report.load import File, ReportData
from probsym.lab.results import average
from probsym.lab.text import number, seconds

ROUNDING = 0.1
"""To how many seconds the time of a run is rounded."""


def cost_grid(data: ReportData) -> Grid:
    """Time of every row, mean over its seeds."""
    rows = []
    for (row, changed), runs in data.by_settings.items():
        walls = [_wall_seconds(run) for run in runs]
        training = _mean(number(run.content["metrics"].get("train_seconds")) for run in runs)
        epochs = _mean(number(run.content.get("epochs")) for run in runs)
        hardware, precision = (
            ", ".join(dict.fromkeys(str(run.content.get(name, "")) for run in runs))
            for name in ("hardware", "precision")
        )
        times = [None if None in walls else _mean(walls), training, training / epochs if training and epochs else None]
        texts = ["" if time is None else seconds(time) for time in times]
        rows.append(cells(Cell(row, changed, link=runs[0].anchor), hardware, precision, str(len(runs)), *texts))
    head = ("row", "hardware", "precision", "seeds", "whole run", "training", "one epoch")
    return Grid("Time of each row, mean over its seeds", head, rows, words=3)


def _wall_seconds(run: File) -> float | None:
    """The time of a run; None where it is less than that of its training, as in older files of resumed runs."""
    wall, training = number(run.content.get("wall_seconds")), number(run.content["metrics"].get("train_seconds"))
    return None if wall is None or (training is not None and wall < training - ROUNDING) else wall


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return average(known) if known else None
