"""How far a model's distribution over the group is from uniform."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym._internal.progress import Show
from probsym.lab.analyses.analysis import Questions, Row, drawing_model, in_parts, test_set
from probsym.lab.engine import Engine
from probsym.lab.examples import Stored
from probsym.lab.seeds import derived
from probsym.samplers import Batch, Haar
from probsym.symmetrized import Symmetrized


def by_group(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each group and measure of the model's own draws, and of as many uniform ones, mean over examples.

    For permutations, the entropy of rows and of columns of the mean permutation matrix, over real items, in nats: zero
    if all draws are the same. For others, `1 - |mean Q|^2 / d` of their matrices: zero if all are the same, and one if
    their mean vanishes. Few draws look less spread than they are, which is why uniform ones stand beside them.
    """
    model = drawing_model(engine)
    examples, count, _ = test_set(engine, questions)
    measures = concentrations(model.eval(), examples, count, questions, show)
    return [
        {
            "group": f"{key}: {model.signature.groups[key]!r}",
            "measure": name,
            "examples": count,
            "draws": questions.samples,
            "model": own,
            "uniform": uniform,
        }
        for (key, name), (own, uniform) in measures.items()
    ]


@torch.no_grad()
def concentrations(
    model: Symmetrized, examples: Stored, count: int, questions: Questions, show: Show
) -> dict[tuple[str, str], tuple[float, float]]:
    """By group and measure, of the model's draws and of uniform ones, mean over the first examples. No base is called.

    How many draws, and which, the questions say; whether norms use their own statistics or the batch's, the model's
    mode does.
    """
    measures: dict[tuple[str, str], list[list[Tensor]]] = {}
    done = 0
    for few in in_parts(examples, count, questions.samples):
        batch = Batch.outline(model.signature, few.inputs, few.mask, few.ids).ready()
        generator = torch.Generator(batch.device).manual_seed(derived(questions.seed, "concentration", done))
        for place, sampler in enumerate((model.sampler, Haar())):
            drawn = sampler(batch, sampler.noise(batch, questions.samples, generator)).elements
            for key, group in model.signature.groups.items():
                if group.frame == "order":
                    numbers = entropies(drawn[key], few.mask)
                else:
                    mean = group.linear.matrix(drawn[key]).mean(1)
                    numbers = {"spread": 1 - mean.square().sum((-2, -1)) / mean.shape[-1]}
                for name, values in numbers.items():
                    measures.setdefault((key, name), [[], []])[place].append(values.double())
        done += few.size
        show(done, count, "examples")
    return {
        name: (float(torch.cat(own).mean()), float(torch.cat(uniform).mean()))
        for name, (own, uniform) in measures.items()
    }


def entropies(orders: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
    """Of permutations (B, K, n), real items first: the entropies of their mean matrix, mean over real items, (B,).

    >>> {name: float(value) for name, value in entropies(torch.tensor([[[0, 1, 2], [1, 0, 2]]])).items()}
    {'row entropy': 0.462..., 'column entropy': 0.462...}
    """
    batch, _, n = orders.shape
    matrix = mean_matrix(orders)
    real = torch.ones(batch, n, dtype=torch.bool, device=orders.device) if mask is None else mask
    first = torch.arange(n, device=orders.device) < real.sum(-1, keepdim=True)  # real items come first
    each = -torch.special.xlogy(matrix, matrix)
    count = real.sum(-1)
    return {
        "row entropy": torch.where(real, each.sum(1), 0).sum(-1) / count,
        "column entropy": torch.where(first, each.sum(2), 0).sum(-1) / count,
    }


def mean_matrix(orders: Tensor) -> Tensor:
    """Of permutations (B, K, n), the share of draws that bring each item to each place, (B, place, item)."""
    batch, draws, n = orders.shape
    counts = torch.zeros(batch, n, n, dtype=torch.float64, device=orders.device)
    items = orders.transpose(1, 2)
    return counts.scatter_add_(2, items, torch.ones_like(items, dtype=counts.dtype)) / draws
