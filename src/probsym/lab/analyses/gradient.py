"""How strong a signal the base gets while a model is trained: the norm of its full gradient (paper, Figure 8)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, asked_of, kept_weights_of
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived, seeded
from probsym.symmetrized import Symmetrized


def by_epoch(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each epoch whose weights were kept: the norm of the gradient of the loss of the whole training set.

    It is that with respect to the parameters of the base alone, of the task's own loss, with as many draws as in
    training, and in training mode, as the optimiser saw it: norms use the statistics of their batch. Batches are those
    of the training set in its order. All epochs share their random numbers, so that curves are not ragged for them.
    """
    model, kept = engine.model, kept_weights_of(engine)
    if not isinstance(model, Symmetrized) or not isinstance(model.base, nn.Module):
        raise RunError(f"Expected a symmetrized module (got {type(model).__name__})")
    count = asked_of(engine.data.train, questions)
    rows, total = [], len(kept.epochs)
    for place, epoch in enumerate(kept.revisited(model)):
        gradient = full_gradient(engine, model, list(model.base.parameters()), count, questions.seed)
        norm = torch.stack([part.norm() for part in gradient]).norm()
        draws = model.samples if engine.draws else None
        rows.append({"epoch": epoch, "examples": count, "draws": draws, "norm": float(norm)})
        show(place + 1, total, f"epoch {epoch}")
    model.eval()
    return rows


def full_gradient(
    engine: Engine, model: Symmetrized, parameters: list[nn.Parameter], count: int, seed: int
) -> list[Tensor]:
    """Of the mean loss over the first examples of the training set, with respect to some parameters."""
    model.train()
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    with seeded(engine.device, derived(seed, "gradient dropout")):
        for start in range(0, count, engine.settings.batch_size):
            batch = engine.data.train.take(slice(start, min(start + engine.settings.batch_size, count)))
            generator = torch.Generator(engine.device).manual_seed(derived(seed, "gradient", start))
            with engine.fabric.autocast():
                output = model(*batch.inputs, **batch.keywords, generator=generator)
                loss = engine.task.loss(output, batch.targets)
            gradients = torch.autograd.grad(loss * (batch.size / count), parameters, allow_unused=True)
            for i, gradient in enumerate(gradients):
                if gradient is not None:
                    sums[i] += gradient
    return sums
