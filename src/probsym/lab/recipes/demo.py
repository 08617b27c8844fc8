"""The demonstration: one cycle or two, on graphs that no message passing tells apart, generated here."""

from functools import partial

import torch
from torch import nn

from probsym import bases
from probsym.data import decorated_cycles
from probsym.lab.examples import Splits
from probsym.lab.methods import symmetrized_graphs
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.recipes.graphs import Classification, as_examples

NODES = 24
SETTINGS = Settings(epochs=15, decay=True, samples=10, eval_samples=10, tau=1.0)
"""A hot relaxation learns such small graphs fastest: `results/benchmarks/sampler_settings_cpu.json`."""
METHODS = ("ps", "ga", "canonical")


class DecoratedCycles(Classification):
    """Decorated cycles: 2,000 to learn from, 200 to choose by, 400 to test."""

    name = "demo"

    def __init__(self, train: int = 2000) -> None:
        self.train = train

    def load(self) -> Splits:
        generator = torch.Generator().manual_seed(0)
        sizes = (self.train, 200, 400)
        return Splits.numbered(*(as_examples(decorated_cycles(size, NODES, generator)) for size in sizes))


def _mlp(settings: Settings, method: str) -> nn.Module:
    base = bases.MLP([NODES * NODES + 2 * NODES, 512, 512, 1], shape=())
    return symmetrized_graphs(base, method, settings, "")


RECIPES = [Recipe(f"demo/mlp-{method}", DecoratedCycles, partial(_mlp, method=method), SETTINGS) for method in METHODS]
