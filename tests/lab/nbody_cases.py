"""Twelve systems of five particles, and every recipe on four of them."""

from __future__ import annotations

import torch

from probsym.data import Particles
from probsym.data.nbody import published_start, simulate
from probsym.lab.examples import Splits
from probsym.lab.recipes.nbody import RECIPES, NBody, as_examples

NAMES = {recipe.name: recipe for recipe in RECIPES if recipe.name != "nbody/egnn"}


def particles(count: int = 12) -> Particles:
    start = published_start(count)
    frames = simulate(start, (1, 2))
    x, v, y = (torch.from_numpy(array).mT.contiguous() for array in (*frames[1], frames[2][0]))
    return Particles(x, v, torch.from_numpy(start.charges).unsqueeze(-1), y)


EXAMPLES = as_examples(particles())


class Few(NBody):
    def load(self) -> Splits:
        return Splits(*(EXAMPLES.take(slice(first, first + 4)) for first in (0, 4, 8)))
