"""Bases for particles that read how pairs move relative to each other, and let them move in stages."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

SOFTENING = 0.05
"""Added to squared distances, so that their inverses stay moderate where particles meet."""


def pairs_of(charges: Tensor, position: Tensor) -> Tensor:
    """Features of pairs as in the paper: products of charges (batch, n, n), and squared distances."""
    return torch.stack([charges, (position.unsqueeze(1) - position.unsqueeze(2)).square().sum(-1)], -1)


class RelativeMotion(nn.Module):
    """A base that also reads how the particles of each pair move relative to each other.

    With r the softened distance, four features are added, none of which a rigid motion or a common velocity changes:
    1 / r, the product of the charges divided by r, how fast r grows, and the square of the relative speed.
    """

    def __init__(self, base: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.base = base

    def forward(self, position: Tensor, velocity: Tensor, pairs: Tensor) -> Tensor:
        """What the base makes of the system."""
        charges, squares = pairs.split(1, -1)
        inverse = (squares + SOFTENING).rsqrt()
        apart, motion = (x.unsqueeze(1) - x.unsqueeze(2) for x in (position, velocity))
        growth = (apart * motion).sum(-1, keepdim=True) * inverse
        speeds = motion.square().sum(-1, keepdim=True)
        return self.base(position, velocity, torch.cat([pairs, inverse, charges * inverse, growth, speeds], -1))


class Stages(nn.Module):
    """Displacements in several stages, as a solver of differential equations takes steps.

    The base of each stage says how positions and velocities change, (batch, n, 6), and reads the system as the stages
    before have left it, distances too. All stages are gone through `rounds` times.
    """

    def __init__(self, stages: Iterable[nn.Module], rounds: int = 1) -> None:
        super().__init__()
        self.stages, self.rounds = nn.ModuleList(stages), rounds

    def forward(self, position: Tensor, velocity: Tensor, pairs: Tensor) -> Tensor:
        """How far the particles move in all stages together, (batch, n, 3)."""
        start, charges = position, pairs[..., 0]
        for stage in [*self.stages] * self.rounds:
            moves, pushes = stage(position, velocity, pairs_of(charges, position)).chunk(2, -1)
            position, velocity = position + moves, velocity + pushes
        return position - start
