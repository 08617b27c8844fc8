"""The test error against the number of draws, for independent draws and for coupled ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from probsym._internal.progress import Show
from probsym.errors import ProbsymError
from probsym.lab.analyses.analysis import (
    Questions,
    Row,
    after,
    differing,
    drawing_model,
    in_parts,
    numbers_of,
    precise,
    test_set,
)
from probsym.lab.engine import Engine
from probsym.lab.examples import Examples, Stored
from probsym.lab.seeds import derived
from probsym.samplers.couplings import COUPLINGS, INDEPENDENT
from probsym.symmetrized import Symmetrized

COUNTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000)


def by_draws(engine: Engine, questions: Questions, show: Show, couplings: Sequence[str] | None = None) -> list[Row]:
    """One row for each coupling, number of draws and part of the test set; all couplings there are if None is given.

    `loss` is the mean over examples and repeats, `spread` its standard error over the repeats, which is what the draws
    leave open, and `stderr` that over the examples, which is what the size of the test set does. `variance` is that of
    the prediction between repeats, for one number of it. All numbers of draws share theirs: the first K of each repeat,
    which for every coupling are K draws coupled like that. Where the noise is fixed there is one repeat, hence neither
    spread nor variance.
    """
    model, questions = drawing_model(engine), differing(engine, questions)
    part, size, parts = test_set(engine, questions)
    counts = counts_up_to(questions.samples)
    names = couplings_of(model, part.take(slice(0, 1))) if couplings is None else list(couplings)
    rows, total = [], len(names) * questions.repeats
    for place, name in enumerate(names):
        told = after(place * questions.repeats, show, total, name)
        losses, means = repeated(engine, model, part, size, questions, told, coupling=name, purpose=f"draws {name}")
        for title, chosen in parts.items():
            rows += [
                {
                    **{"coupling": name, "draws": count, "part": title, "examples": int(chosen.sum())},
                    **numbers_of(losses[:, i, chosen]),
                    "variance": variance(means[:, i, chosen]),
                }
                for i, count in enumerate(counts)
            ]
    return rows


def counts_up_to(most: int) -> list[int]:
    """The numbers of draws to look at, the last as given.

    >>> counts_up_to(12)
    [1, 2, 5, 10, 12]
    """
    return [count for count in COUNTS if count < most] + [most]


def variance(repeats: Tensor) -> float | None:
    """Between repeats, the first axis, mean over all others; None for a single one."""
    return float(repeats.var(0).mean()) if len(repeats) > 1 else None


def deviation(repeats: Tensor) -> float | None:
    """The same of the square root of the variance."""
    return float(repeats.std(0).mean()) if len(repeats) > 1 else None


def repeated(
    engine: Engine,
    model: Symmetrized,
    part: Stored,
    size: int,
    questions: Questions,
    told: Callable[[int], None],
    *,
    coupling: str = INDEPENDENT,
    purpose: str,
) -> tuple[Tensor, Tensor]:
    """What a model says of the first examples with `counts_up_to` the questions' draws, anew for every repeat.

    The losses (repeats, counts, size) and the predictions (repeats, counts, size, ...), in float64 on the CPU. `told`
    hears how many repeats are done, and `purpose` keeps the random numbers apart from those of others.
    """
    model.eval()
    losses, predictions = [], []
    targets = precise(part.targets[:size]).cpu()
    for repeat in range(questions.repeats):
        generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, purpose, repeat))
        means = means_by_draws(model, part, size, counts_up_to(questions.samples), coupling, generator)
        losses.append(torch.stack([engine.task.losses(mean, targets) for mean in means]))
        predictions.append(means)
        told(repeat + 1)
    return torch.stack(losses), torch.stack(predictions)


def couplings_of(model: Symmetrized, example: Examples) -> list[str]:
    """The couplings that there are for the model's sampler and inputs of such a size."""
    couplings = []
    for name in COUPLINGS:
        try:
            model.noise(*example.inputs, **example.keywords, samples=1, coupling=name)
        except ProbsymError:
            continue
        couplings.append(name)
    return couplings


@torch.no_grad()
def means_by_draws(
    model: Symmetrized, part: Stored, size: int, counts: list[int], coupling: str, generator: torch.Generator
) -> Tensor:
    """The mean prediction over the first draws for examples, (counts, size, ...), in float64 on the CPU."""
    most, means = max(counts), []
    for few in in_parts(part, size, most):
        estimate = model.estimate(
            *few.inputs, **few.keywords, samples=most, generator=generator, coupling=coupling, keep_values=True
        )
        sums = estimate.values.double().cumsum(1)
        means.append(torch.stack([sums[:, count - 1] / count for count in counts]))
    return torch.cat(means, 1).cpu()
