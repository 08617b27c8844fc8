"""The test error on parts of the test set that the task tells apart."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym._internal.progress import Show
from probsym.lab.analyses.analysis import Questions, Row, differing, in_parts, numbers_of, precise, test_set
from probsym.lab.engine import Engine
from probsym.lab.examples import Stored
from probsym.lab.seeds import derived
from probsym.symmetrized import Symmetrized


def by_part(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each part of the test set, and for what the parts leave out; numbers as in the analysis of draws."""
    questions = differing(engine, questions)
    examples, count, parts = test_set(engine, questions)
    parts |= {f"not {name}": ~part for name, part in parts.items() if name != "all" and not part.all()}
    draws = questions.samples if engine.draws else 1
    by_repeat = []
    for repeat in range(questions.repeats):
        generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, "parts", repeat))
        means = predictions(engine, examples, count, draws, generator)
        by_repeat.append(engine.task.losses(means, precise(examples.targets[:count]).cpu()))
        show(repeat + 1, questions.repeats, "")
    losses = torch.stack(by_repeat)
    return [
        {"part": name, "examples": int(part.sum()), "draws": draws, **numbers_of(losses[:, part])}
        for name, part in parts.items()
    ]


@torch.no_grad()
def predictions(engine: Engine, examples: Stored, count: int, draws: int, generator: torch.Generator) -> Tensor:
    """What the model says of the first `count` examples, in float64 on the CPU."""
    model, outputs = engine.model.eval(), []
    for few in in_parts(examples, count, draws):
        drawn = {}
        if isinstance(model, Symmetrized):
            drawn = {"index": few.ids, "generator": generator, "samples": draws if engine.draws else None}
        outputs.append(model(*few.inputs, mask=few.mask, **drawn).double().cpu())
    return torch.cat(outputs)
