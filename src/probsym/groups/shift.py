"""Shift: the cyclic shifts of an axis whose size is read from the input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.groups.base import Axis
from probsym.groups.chosen import Chosen, largest
from probsym.groups.element_checks import check_axis
from probsym.groups.matrices import act_by_matrix
from probsym.groups.of_items import OfItems
from probsym.ops.permute import moved


@dataclass(frozen=True, repr=False)
class Shift(Chosen, OfItems):
    """The n cyclic shifts of the n entries of an axis.

    An element is an index p (*batch, n), as for S: p[j] = (k + j) mod n for the shift by k places, and `act(p, x)`
    brings the first entry to place k. Features are `scores`, one per entry, which shift with the entries. They are
    projected to the shift that brings the first entry to the place of the largest score, so undoing it brings that
    entry to the front. `act` also takes floating-point weights of the n shifts, (*batch, n), in place of an element:
    this carries the straight-through gradient, which is that of a softmax.

    >>> Shift().act(torch.tensor([2, 3, 0, 1]), torch.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([3., 4., 1., 2.])
    """

    feature_field = "scores"

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        self._check_pair(g, h)
        return (g[..., :1] + h) % g.shape[-1]

    def inverse(self, g: Tensor) -> Tensor:
        """The shift that undoes g; if g holds weights, the weights of the inverse shifts."""
        if g.is_floating_point():
            self.check_element(g)
            return torch.cat([g[..., :1], g[..., 1:].flip(-1)], -1)
        return _by(-self._checked(g)[..., 0], g.shape[-1])

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Shift x by g; if g holds weights, sum all shifts of x with these weights."""
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
        """The shift that brings the first entry to the place of the largest score; `noise` breaks exact ties."""
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
        """The product g s, where s shifts by half the entries."""
        n = self._checked(g).shape[-1]
        return (g + n // 2) % n

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        return _by(ranks, self.known(size))

    def from_uniform(
        self, u: Tensor, dtype: torch.dtype, *, noise: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The shift given by the first of n numbers; the others only determine n."""
        n = u.shape[-1]
        return _by((u[..., 0] * n).long().clamp(max=n - 1), n)


def _by(places: Tensor, n: int) -> Tensor:
    """The shifts by the given numbers of places, (*batch, n)."""
    return (places.unsqueeze(-1) + torch.arange(n, device=places.device)) % n
