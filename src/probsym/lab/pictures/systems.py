"""Particles: where they were, where they came to be, and where each model said they would."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure

from probsym.errors import RunError
from probsym.lab.analyses.parts import predictions
from probsym.lab.colours import COLOURS
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived


def systems(engines: Mapping[str, Engine], count: int = 4, seed: int = 0) -> Figure:
    """The first systems of the test set, seen along the third axis.

    Grey lines lead from the first frame to the true positions, dots; crosses are the predictions of the models.
    """
    first = next(iter(engines.values()))
    count = min(count, first.data.test.size)
    examples = first.data.test.take(slice(0, count))
    if examples.targets.dim() != 3 or examples.targets.shape[-1] != 3:
        raise RunError(f"Expected a task with points in space as targets (got {first.task.name!r})")
    before, after = examples.inputs[0].cpu(), examples.targets.cpu()
    figure = Figure(figsize=(3.2 * count, 3.4))
    places = figure.subplots(1, count, squeeze=False)[0]
    for i, place in enumerate(places):
        for start, end in zip(before[i], after[i], strict=True):
            place.plot([start[0], end[0]], [start[1], end[1]], color="#999999", linewidth=1, zorder=1)
        place.scatter(*before[i, :, :2].T, s=14, facecolors="none", edgecolors="#999999", label="frame 30")
        place.scatter(*after[i, :, :2].T, s=34, color="#222222", label="frame 40, true")
        place.set_title(f"test system {i}", fontsize=10)
        place.set_aspect("equal", "datalim")
    for number, (name, engine) in enumerate(engines.items()):
        colour = COLOURS[number % len(COLOURS)]
        generator = torch.Generator(engine.device).manual_seed(derived(seed, "picture"))
        draws = engine.settings.test_samples or engine.settings.eval_samples
        predicted = predictions(engine, engine.data.test, count, draws if engine.draws else 1, generator)
        for i, place in enumerate(places):
            place.scatter(*predicted[i, :, :2].T, s=36, marker="x", color=colour, label=name, zorder=3)
    figure.legend(*places[0].get_legend_handles_labels(), loc="lower center", ncols=3 + len(engines), fontsize=9)
    figure.subplots_adjust(bottom=0.2)
    return figure
