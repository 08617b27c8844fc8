"""The distribution over rotations that a model learned: where it turns one axis to, on the sphere."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.figure import Figure

from probsym.errors import RunError
from probsym.lab.colours import COLOURS
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived
from probsym.symmetrized import Symmetrized

DRAWS = 1000


def rotations(engines: Mapping[str, Engine], count: int = 3, seed: int = 0) -> Figure:
    """One row a model, one column a test input: the third axis under 1,000 draws of g, all directions on one map.

    The map keeps areas: where dots are dense, p(g|x) is large. The black dot is the longest principal axis of the
    points, in both directions, to compare with.
    """
    figure = Figure(figsize=(3.4 * count, 2.1 * len(engines)))
    places = figure.subplots(len(engines), count, squeeze=False, subplot_kw={"projection": "hammer"})
    for row, (name, engine) in enumerate(engines.items()):
        model, examples = engine.model.eval(), engine.data.test.take(slice(0, count))
        keys = [
            key
            for key, group in (model.signature.groups if isinstance(model, Symmetrized) else {}).items()
            if group.linear.frame == "axes" and group.axis_size() == 3
        ]
        if not isinstance(model, Symmetrized) or not keys:
            raise RunError(f"Expected a model symmetrized under rotations of space (got {name})")
        generator = torch.Generator(engine.device).manual_seed(derived(seed, "picture"))
        with torch.no_grad():
            samples = DRAWS if engine.draws else None
            estimate = model.estimate(*examples.inputs, **examples.keywords, samples=samples, generator=generator)
        axes = estimate.elements[keys[0]][..., :3, 2].double().cpu()
        points = examples.inputs[0].double().cpu()
        centred = points - points.mean(1, keepdim=True)
        longest = torch.linalg.eigh(centred.mT @ centred)
        for i, place in enumerate(places[row]):
            place.scatter(*on_the_map(axes[i]), s=3, alpha=0.6, color=COLOURS[row % len(COLOURS)], linewidths=0)
            main = longest.eigenvectors[i, :, -1]
            place.scatter(*on_the_map(torch.stack([main, -main])), s=16, color="black")
            place.set_xticklabels([])
            place.set_yticklabels([])
            place.grid(alpha=0.3)
            place.set_title(f"{name}\ntest input {i}", fontsize=9)
    figure.tight_layout()
    return figure


def on_the_map(directions: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Longitude and latitude of directions (count, 3).

    >>> on_the_map(torch.tensor([[1.0, 0, 0], [0, 0, 1.0]]))[1]
    tensor([0.0000, 1.5708])
    """
    x, y, z = directions.unbind(-1)
    return torch.atan2(y, x), torch.asin(z.clamp(-1, 1))
