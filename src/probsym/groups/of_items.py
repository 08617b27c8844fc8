"""What groups that act on the items of an axis share; the number of items is read from the input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import GroupError, ShapeError
from probsym.groups.base import Device, Dtype, Group
from probsym.groups.element_checks import check_index


@dataclass(frozen=True, repr=False)
class OfItems(Group):
    """A group that acts on n items: elements are n integers (*batch, n), features n numbers that move with the items.

    The methods here assume that elements are permutations, as in S and Shift.
    """

    finite = True
    stratifies = True
    kinds = frozenset({"plain"})

    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        return torch.arange(self.known(size), device=device).expand(*batch, -1)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The permutation matrix, (*batch, n, n)."""
        n = self._checked(g).shape[-1]
        return torch.zeros((*g.shape, n), dtype=dtype, device=g.device).scatter_(-2, g.unsqueeze(-2), 1.0)

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return "uniform", "normal"

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return self.act(g, features)

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.known(size),)

    def axis_size(self, kind: str = "plain") -> None:
        self.check_kind(kind)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.known(size),)

    def known(self, size: int | None) -> int:
        """The number of items; raises an error if it is not given."""
        if size is None or size < 1:
            raise GroupError(f"Expected the number of items of {self!r} to be 1 or more (got size={size})")
        return size

    def _checked(self, g: Tensor) -> Tensor:
        self.check_element(g)
        return check_index(g, self)

    def _check_pair(self, g: Tensor, h: Tensor) -> None:
        if self._checked(g).shape[-1] != self._checked(h).shape[-1]:
            raise ShapeError(f"Expected elements for equally many items (got {g.shape[-1]} and {h.shape[-1]})")
