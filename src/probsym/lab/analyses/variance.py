"""How much less an untrained model varies under a learned distribution than under the uniform one (paper, Figure 7)."""

from __future__ import annotations

import copy

import torch

from probsym._internal.progress import Show
from probsym.errors import RunError
from probsym.lab.analyses.analysis import Questions, Row, after, asked_of, redrawing_model, weights_of
from probsym.lab.analyses.draws import counts_up_to, deviation, repeated, variance
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived, seeded
from probsym.samplers import Batch, Haar, Learned
from probsym.symmetrized import Symmetrized

SETTLING = 50
"""Batches after which the running statistics of norms owe next to nothing to where they started."""


def by_method(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each distribution and number of draws: one and the same base, as the run's seed initialised it.

    The paper fixes "a randomly initialized MLP" and speaks of the distribution that "learns": `ps` is the sampler with
    the weights that the run chose, `ps-initial` as it was initialised, but for norms that have seen data, and `ga`
    uniform. The variances are those between repeats, of the prediction and of its loss, mean over the examples of the
    validation set; the deviations are their square roots, taken before the mean. Fixed noise is refused, which has
    none.

    The paper's figure was made without training: in a run of no epochs, `ps` is that sampler, its norms still as they
    were initialised. What it plots is the square of a mean deviation: that of the loss, and that of the prediction
    after a sigmoid.
    """
    model = redrawing_model(engine)
    if not isinstance(model.sampler, Learned):
        raise RunError(f"Expected a run that learned a distribution (got one with {type(model.sampler).__name__})")
    initial = copy.deepcopy(model)
    initial.load_state_dict(weights_of(engine).initial())
    settle(engine, initial, questions.seed)
    samplers = {"ps": model.sampler, "ps-initial": initial.sampler, "ga": Haar()}
    part = engine.data.valid
    size, rows, total = asked_of(part, questions), list[Row](), len(samplers) * questions.repeats
    for place, (name, sampler) in enumerate(samplers.items()):
        told = after(place * questions.repeats, show, total, name)
        symmetrized = Symmetrized(initial.base, str(model.signature), model.signature.groups, sampler)
        losses, means = repeated(engine, symmetrized, part, size, questions, told, purpose="variance")
        rows += [
            {
                "method": name,
                "draws": count,
                "examples": size,
                "repeats": questions.repeats,
                "output_variance": variance(means[:, i]),
                "loss_variance": variance(losses[:, i]),
                "output_deviation": deviation(means[:, i]),
                "loss_deviation": deviation(losses[:, i]),
            }
            for i, count in enumerate(counts_up_to(questions.samples))
        ]
    return rows


@torch.no_grad()
def settle(engine: Engine, model: Symmetrized, seed: int) -> None:
    """Let the norms of a sampler gather the statistics of training batches, while nothing is learned."""
    generator = torch.Generator(engine.device).manual_seed(derived(seed, "settling"))
    model.sampler.train()
    with seeded(engine.device, derived(seed, "settling dropout")):
        for number in range(SETTLING):
            epoch, place = divmod(number, engine.steps_per_epoch)
            few = engine.data.train.take(engine.order(seed, epoch)[place])
            batch = Batch.outline(model.signature, few.inputs, few.mask, few.ids).ready()
            model.sampler(batch, model.sampler.noise(batch, model.samples, generator))
    model.sampler.eval()
