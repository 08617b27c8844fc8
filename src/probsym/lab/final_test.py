"""What a training reports of the test set, and by which names."""

from __future__ import annotations

import copy
from dataclasses import replace

import torch

from probsym.lab.engine import Engine
from probsym.lab.recipe import Task

AT_END = "_at_end"
"""Marks the test metrics of the weights after the last epoch."""
AVERAGED = "_averaged"
"""Marks the metrics of the averaged weights."""
FEW = 100
"""Examples that are enough to see which metrics there are."""


def suffixes(task: Task) -> dict[str, str]:
    """What marks the test metrics of the weights that each metric chose."""
    return {name: f"_at_best_{name}" if place else "" for place, name in enumerate(task.selects)}


def weights_in(engine: Engine) -> tuple[str, ...]:
    """What marks the metrics of each kind of weights that a training has: nothing for the plain ones."""
    return ("",) if engine.average is None else ("", AVERAGED)


def metric_names(engine: Engine) -> list[str]:
    """What a training on the engine will report, found by testing it on few examples as it is."""
    few, names = copy.copy(engine), list[str]()
    few.data = engine.data._replace(test=engine.data.test.take(slice(0, FEW)))
    few.settings = replace(engine.settings, test_repeats=min(engine.settings.test_repeats, 2), test_samples=1)
    for mark in weights_in(engine):
        for suffix in (*suffixes(engine.task).values(), AT_END):
            names += report_on_test(few, 0, f"{mark}{suffix}")
        names += [f"{kind}_{name}{mark}" for name in engine.task.selects for kind in ("valid", "best_epoch")]
    return [*names, "train_seconds"]


def report_on_test(engine: Engine, seed: int, suffix: str) -> dict[str, float]:
    """The test metrics of the weights as they are: the mean, and the deviation, over repeated evaluations.

    With other numbers of draws too if the settings say so: as `test_mse@20`, where the model makes several at all.
    Empty if there are to be no evaluations.
    """
    settings, metrics = engine.settings, dict[str, float]()
    others = settings.also_test_samples if engine.draws else ()
    for draws, mark in ((settings.test_samples, suffix), *((samples, f"{suffix}@{samples}") for samples in others)):
        repeats = range(settings.test_repeats)
        evaluations = [engine.evaluate(engine.data.test, seed, "test", repeat, samples=draws) for repeat in repeats]
        for name in evaluations[0] if evaluations else ():
            values = torch.tensor([evaluation[name] for evaluation in evaluations], dtype=torch.float64)
            metrics[f"test_{name}{mark}"] = round(float(values.mean()), 8)
            if len(repeats) > 1:
                metrics[f"test_{name}{mark}_std"] = round(float(values.std()), 8)
    return metrics
