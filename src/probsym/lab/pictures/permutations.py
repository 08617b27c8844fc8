"""How the distribution over permutations sharpens while a model is trained, graph by graph (paper, Figure 2)."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from torch import Tensor

from probsym.lab.analyses.analysis import AT_ONCE, drawing_model, kept_weights_of
from probsym.lab.analyses.concentration import entropies, mean_matrix
from probsym.lab.analyses.entropy import DRAWS, permuted
from probsym.lab.engine import Engine
from probsym.lab.seeds import derived, seeded
from probsym.samplers import Batch
from probsym.symmetrized import Symmetrized

COLUMNS = 5


def permutations(engines: Mapping[str, Engine], count: int = 4, seed: int = 0) -> Figure:
    """Per run one row per test input, one column per kept epoch: the mean of 50 permutation matrices, real nodes only.

    The darker a point is, the more often the node of its row comes to the place of its column. The number above is
    the mean entropy of the rows in nats. The sampler is as in the analysis of entropy.
    """
    epochs = {name: chosen(kept_weights_of(engine).epochs, COLUMNS) for name, engine in engines.items()}
    columns = max(len(shown) for shown in epochs.values())
    figure = Figure(figsize=(2 * columns + 0.5, 2.2 * count * len(engines)))
    places = figure.subplots(len(engines) * count, columns, squeeze=False)
    for place in places.flat:
        place.set_axis_off()
    for number, (name, engine) in enumerate(engines.items()):
        model, lines = drawing_model(engine), places[number * count : (number + 1) * count]
        for epoch in kept_weights_of(engine).revisited(model, "sampler"):
            if epoch not in epochs[name]:
                continue
            column = epochs[name].index(epoch)
            for place, (orders, real) in zip(lines[:, column], drawn(engine, model, seed), strict=False):
                matrix = mean_matrix(orders[None])[0].mT[real][:, : int(real.sum())]
                place.imshow(matrix.numpy(), cmap="Greys", norm=PowerNorm(0.5, 0, 1), interpolation="nearest")
                entropy = float(entropies(orders[None], real[None])["row entropy"])
                place.set_title(f"epoch {epoch}: {entropy:.2f}", fontsize=8)
        for i, place in enumerate(lines[:, 0]):
            text = {"rotation": 90, "fontsize": 8, "ha": "right", "va": "center", "transform": place.transAxes}
            place.text(-0.1, 0.5, f"{name}\ntest input {i}", **text)
    figure.tight_layout()
    return figure


def chosen(epochs: list[int], most: int) -> list[int]:
    """Some epochs from the first to the last, denser where training begins.

    >>> chosen(list(range(0, 2001, 40)), 5)
    [0, 80, 240, 720, 2000]
    """
    if len(epochs) <= most:
        return epochs
    last = len(epochs)
    indices = {round(last ** (i / (most - 1))) - 1 for i in range(most)}
    return [epochs[i] for i in sorted(indices)]


@torch.no_grad()
def drawn(engine: Engine, model: Symmetrized, seed: int) -> list[tuple[Tensor, Tensor]]:
    """Draws for the first inputs of the test set, (draws, n) and which nodes are real, (n,), on the CPU."""
    key = permuted(model)
    few = engine.data.test.take(slice(0, AT_ONCE // DRAWS))
    batch = Batch.outline(model.signature, few.inputs, few.mask, few.ids).ready()
    generator = torch.Generator(engine.device).manual_seed(derived(seed, "picture"))
    model.train()
    with seeded(engine.device, derived(seed, "picture dropout")):
        orders = model.sampler(batch, model.sampler.noise(batch, DRAWS, generator)).elements[key].cpu()
    model.eval()
    real = torch.ones_like(orders[:, 0], dtype=torch.bool) if few.mask is None else few.mask.cpu()
    return list(zip(orders, real, strict=True))
