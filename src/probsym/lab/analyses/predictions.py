"""What a model says of every example of the test set, part by part, such as the energies along a path."""

from __future__ import annotations

import torch

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, precise, test_set
from probsym.lab.analyses.parts import predictions
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived


def by_example(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each example of each part that the task tells apart, in their order, of all if it tells none.

    For models with one number for each example. Of several numbers in a target the first belongs to it.
    """
    examples, count, parts = test_set(engine, questions)
    draws = questions.samples if engine.draws else 1
    generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, "predictions"))
    outputs = predictions(engine, examples, count, draws, generator)
    if outputs.dim() != 1:
        raise RunError(f"Expected a model with one number for each example (got {tuple(outputs.shape[1:])})")
    targets = precise(examples.targets[:count]).cpu().reshape(count, -1)[:, 0]
    chosen = {name: part for name, part in parts.items() if name != "all"} or parts
    show(count, count, "")
    return [
        {
            "part": name,
            "example": example,
            "examples": count,
            "draws": draws,
            "target": float(targets[example]),
            "output": float(outputs[example]),
        }
        for name, part in chosen.items()
        for example in part.nonzero().flatten().tolist()
    ]
