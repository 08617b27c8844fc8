"""C(m): the rotations of the plane by multiples of 2 pi / m."""

from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.groups.planar import PlanarGroup


@dataclass(frozen=True, repr=False)
class C(PlanarGroup):
    """The cyclic group of order m; element k rotates counter-clockwise by k / m of a full turn.

    >>> C(4).act(torch.tensor(1), torch.tensor([1.0, 0.0]))
    tensor([0., 1.])
    >>> C(4).act(torch.tensor(1), torch.tensor([[1, 2], [3, 4]]), axis=(-2, -1), kind="grid")
    tensor([[2, 4],
            [1, 3]])
    """

    @property
    def order(self) -> int:
        return self.m

    def _turn_and_flip(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return g, torch.zeros_like(g)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return (self._checked(g) + self._checked(h)) % self.m
