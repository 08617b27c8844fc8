"""What the number of draws does in training and in inference (paper, Figures 4 to 6)."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from probsym._internal.progress import Show
from probsym.lab.analyses.analysis import Questions, Row, after, asked_of, precise, redrawing_model
from probsym.lab.analyses.draws import counts_up_to, repeated, variance
from probsym.lab.analyses.entropy import DRAWS, permutation_entropies
from probsym.lab.engine import Engine
from probsym.lab.examples import Stored


def by_sample_size(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each number of draws in inference, of a model trained with `train_draws`.

    As in the paper, on the validation set: the variance between repeats of the prediction and of its loss, and the mean
    loss, all mean over examples. A repeat with K draws takes the first K of its own. The entropies are of the model
    rather than of a number of draws, and the same in all rows: of the mean of 50 permutation matrices. Only `accuracy`
    is of the test set, mean over repeats, and None where the task has no such metric. Fixed noise is refused, which has
    no variance between repeats.
    """
    model, part = redrawing_model(engine), engine.data.valid
    size, counts = asked_of(part, questions), counts_up_to(questions.samples)
    entropies = permutation_entropies(model.eval(), part, size, replace(questions, samples=DRAWS))
    total = 2 * questions.repeats
    told = after(0, show, total, "validation set")
    losses, means = repeated(engine, model, part, size, questions, told, purpose="sample size")
    accuracies: list[float | None] = [None for _ in counts]
    if "accuracy" in _metrics(engine, part, means[0, 0]):
        accuracies = list(_accuracies(engine, questions, show))
    return [
        {
            "train_draws": model.samples,
            "draws": count,
            "examples": size,
            "repeats": questions.repeats,
            "accuracy": accuracies[i],
            "loss_mean": float(losses[:, i].mean()),
            "loss_variance": variance(losses[:, i]),
            "output_variance": variance(means[:, i]),
            **entropies,
        }
        for i, count in enumerate(counts)
    ]


def _accuracies(engine: Engine, questions: Questions, show: Show) -> list[float]:
    """On the test set, for each number of draws."""
    part, model = engine.data.test, redrawing_model(engine)
    size, told = asked_of(part, questions), after(questions.repeats, show, 2 * questions.repeats, "test set")
    _, means = repeated(engine, model, part, size, questions, told, purpose="sample size test")
    each = [[float(_metrics(engine, part, mean)["accuracy"]) for mean in repeat] for repeat in means]
    return torch.tensor(each, dtype=torch.float64).mean(0).tolist()


def _metrics(engine: Engine, part: Stored, predictions: Tensor) -> dict[str, Tensor]:
    """Of predictions for the first examples of a set, on the CPU."""
    size = len(predictions)
    mask = None if part.mask is None else part.mask[:size].cpu()
    return engine.task.metrics(predictions, precise(part.targets[:size]).cpu(), mask)
