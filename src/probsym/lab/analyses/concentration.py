"""How far a model's distribution over the group is from uniform."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from probsym.errors import RunError
from probsym.groups import E, O, S
from probsym.lab.analyses.analysis import AT_ONCE, Questions, Row, test_set
from probsym.lab.engine import Engine
from probsym.lab.progress import Show
from probsym.lab.seeds import derived
from probsym.samplers import Haar
from probsym.symmetrized import Symmetrized


def by_group(engine: Engine, questions: Questions, show: Show) -> list[Row]:
    """One row for each group and measure of the model's own draws, and of as many uniform ones, mean over examples.

    For permutations, the entropy of rows and of columns of the mean permutation matrix, over real items, in nats: zero
    if all draws are the same. For rotations, `1 - |mean Q|^2 / d`: zero if all are the same, and one if their mean
    vanishes. Few draws look less spread than they are, which is why uniform ones stand beside them.
    """
    model = engine.model
    if not isinstance(model, Symmetrized) or not engine.draws:
        raise RunError("Expected a model that averages over draws (got one that draws nothing, or once)")
    examples, count, _ = test_set(engine, questions)
    uniform = Symmetrized(model.base, str(model.signature), model.signature.groups, Haar())
    model.eval()
    found: dict[tuple[str, str], list[list[Tensor]]] = {}
    step = max(1, AT_ONCE // questions.samples)
    for start in range(0, count, step):
        few = examples.take(slice(start, min(start + step, count)))
        generator = torch.Generator(engine.device).manual_seed(derived(questions.seed, "concentration", start))
        options: dict[str, Any] = {"mask": few.mask, "samples": questions.samples, "generator": generator}
        with torch.no_grad():
            own = model.estimate(*few.inputs, index=few.ids, **options).elements
        for place, elements in enumerate((own, uniform.noise(*few.inputs, **options).elements)):
            for key, group in model.signature.groups.items():
                g = elements[key]
                if isinstance(group, S):
                    numbers = entropies(g, few.mask)
                elif isinstance(group, O | E):
                    numbers = {"spread": 1 - g[..., : group.d].mean(1).square().sum((-2, -1)) / group.d}
                else:
                    continue
                for name, values in numbers.items():
                    found.setdefault((key, name), [[], []])[place].append(values.double().cpu())
        show(min(start + step, count), count, "examples")
    return [
        {
            "group": f"{key}: {model.signature.groups[key]!r}",
            "measure": name,
            "examples": count,
            "draws": questions.samples,
            "model": float(torch.cat(ours).mean()),
            "uniform": float(torch.cat(others).mean()),
        }
        for (key, name), (ours, others) in found.items()
    ]


def entropies(orders: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
    """Of permutations (B, K, n), real items first: the entropies of their mean matrix, mean over real items, (B,).

    >>> {name: float(one) for name, one in entropies(torch.tensor([[[0, 1, 2], [1, 0, 2]]])).items()}
    {'row entropy': 0.462..., 'column entropy': 0.462...}
    """
    batch, _, n = orders.shape
    matrix = torch.nn.functional.one_hot(orders, n).double().mean(1)  # place after, place before
    real = torch.ones(batch, n, dtype=torch.bool, device=orders.device) if mask is None else mask
    first = torch.arange(n, device=orders.device) < real.sum(-1, keepdim=True)  # real items come first
    each = -torch.special.xlogy(matrix, matrix)
    count = real.sum(-1)
    return {
        "row entropy": torch.where(real, each.sum(1), 0).sum(-1) / count,
        "column entropy": torch.where(first, each.sum(2), 0).sum(-1) / count,
    }
