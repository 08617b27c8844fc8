"""D(m): the rotations of the plane by multiples of 2 pi / m, and the reflections."""

from dataclasses import dataclass

from torch import Tensor

from probsym.groups.planar import PlanarGroup


@dataclass(frozen=True, repr=False)
class D(PlanarGroup):
    """The dihedral group of order 2m; element k + m f flips the y axis if f is 1, then rotates by k / m of a turn.

    >>> import torch
    >>> D(4).act(torch.tensor(4), torch.tensor([2.0, 3.0]))
    tensor([ 2., -3.])
    """

    @property
    def order(self) -> int:
        return 2 * self.m

    def _turn_and_flip(self, g: Tensor) -> tuple[Tensor, Tensor]:
        return g % self.m, g // self.m

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        (turn, flip), (then, other) = (self._turn_and_flip(self._checked(element)) for element in (g, h))
        return (turn + (1 - 2 * flip) * then) % self.m + self.m * ((flip + other) % 2)
