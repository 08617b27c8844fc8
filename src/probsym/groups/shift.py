"""Shift: the cyclic shifts of an axis whose size is read from the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.groups.base import Axis, act_by_matrix, check_axis
from probsym.groups.chosen import Chosen, largest
from probsym.groups.of_items import OfItems
from probsym.ops.permute import moved


@dataclass(frozen=True, repr=False)
class Shift(Chosen, OfItems):
    """The n cyclic shifts of the n entries of an axis.

    An element is an index p (*batch, n), as for S: p[j] = (k + j) mod n for the shift by k places, and `act(p, x)`
    brings the first entry to place k. Features are `scores`, which shift with the entries; the largest names the shift
    that undone brings it to the front. What acts may also be weights of the n shifts, (*batch, n), floating, which is
    how the straight-through gradient, that of a softmax, passes.

    >>> Shift().act(torch.tensor([2, 3, 0, 1]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([3., 4., 1., 2.])
    """

    feature_field = "scores"

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        self._check_pair(g, h)
        return (g[..., :1] + h) % g.shape[-1]

    def inverse(self, g: Tensor) -> Tensor:
        """The shift that undoes g; of weights, the weights of the inverses."""
        if g.is_floating_point():
            self.check_element(g)
            return torch.cat([g[..., :1], g[..., 1:].flip(-1)], -1)
        return _by(-self._checked(g)[..., 0], g.shape[-1])

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Shift x, or add up all its shifts in proportion to weights g."""
        self.check_kind(kind)
        axis = check_axis(x, axis, self.check_element(g), g.shape[-1], self)
        if not g.is_floating_point():
            return moved(x, self.inverse(g), axis)
        if not x.is_floating_point():
            raise DtypeError(f"Expected a floating tensor to weigh shifts (got {x.dtype})")
        n = g.shape[-1]
        places = torch.arange(n, device=g.device)
        return act_by_matrix(g[..., (places.unsqueeze(1) - places) % n], x, axis)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The shift that brings the first entry to the largest score; exact ties go to the largest `noise`."""
        return _by(largest(features, noise), features.shape[-1])

    def contains(self, g: Tensor) -> Tensor:
        first = self._checked(g)[..., 0]
        inside = (first >= 0) & (first < g.shape[-1])
        return inside & (g == _by(first, g.shape[-1])).all(-1)

    def cardinality(self, size: int | None = None) -> int:
        return self.known(size)

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        return _by(torch.arange(self.known(size), device=device), self.known(size))

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """g after a shift by half the entries."""
        n = self._checked(g).shape[-1]
        return (g + n // 2) % n

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        return _by(ranks, self.known(size))

    def from_uniform(
        self, u: Tensor, dtype: torch.dtype, *, noise: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """By the first of n numbers; the others only tell n."""
        n = u.shape[-1]
        return _by((u[..., 0] * n).long().clamp(max=n - 1), n)


def _by(places: Tensor, n: int) -> Tensor:
    """The shifts by so many places, (*batch, n)."""
    return (places.unsqueeze(-1) + torch.arange(n, device=places.device)) % n
