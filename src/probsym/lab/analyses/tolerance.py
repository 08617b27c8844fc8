"""How many draws it takes to know a prediction to a tolerance, each input getting as many as it needs."""

from __future__ import annotations

from typing import Any

import torch

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, drawing_model, numbers_of, test_set
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived

TOLERANCES = (0.1, 0.02, 0.01, 0.005)
"""As shares of the deviation of the targets."""


def by_tolerance(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each tolerance of the standard error: the draws that inputs got, and the loss.

    `least`, `draws` and `most` are the smallest, mean and largest number of draws, which end at `samples` of the
    questions; `reached` is the share of inputs that came to the tolerance.
    """
    model = drawing_model(engine)
    examples, count, _ = test_set(engine, questions)
    targets = examples.targets[:count]
    if not targets.is_floating_point() or not targets.isfinite().all():
        raise RunError(
            f"Expected targets that are numbers, whose deviation is the scale (got those of {engine.task.name})"
        )
    scale = float(targets.double().std())
    model.eval()
    rows = []
    for place, share in enumerate(TOLERANCES):
        generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, "tolerance", place))
        counts, losses, reached = [], [], 0
        for i in range(count):
            example = examples.take(slice(i, i + 1))
            with torch.no_grad():
                until: dict[str, Any] = {"tol": share * scale, "max_samples": questions.samples}
                estimate = model.estimate(*example.inputs, **example.keywords, samples=2, generator=generator, **until)
            counts.append(estimate.samples)
            reached += bool((estimate.stderr <= share * scale).all())
            losses.append(engine.task.losses(estimate.mean.double(), example.targets.double()).cpu())
        drawn = torch.tensor(counts, dtype=torch.float64)
        rows.append(
            {
                "tolerance": share * scale,
                "examples": count,
                "least": int(drawn.min()),
                "draws": float(drawn.mean()),
                "most": int(drawn.max()),
                "reached": reached / count,
                **numbers_of(torch.cat(losses).unsqueeze(0)),
            }
        )
        show(place + 1, len(TOLERANCES), f"tolerance {share * scale:.3g}")
    return rows
