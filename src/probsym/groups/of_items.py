"""What groups share that act on the items of one axis, whose number is read from the input."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from probsym.errors import GroupError, ShapeError
from probsym.groups.base import Group, check_index


@dataclass(frozen=True, repr=False)
class OfItems(Group):
    """A group of n items: an element is an index (*batch, n), and features are n numbers."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.known(size),)

    def axis_size(self, kind: str = "plain") -> None:
        self.check_kind(kind)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.known(size),)

    def known(self, size: int | None) -> int:
        """The number of items, which must have been given."""
        if size is None or size < 1:
            raise GroupError(f"Expected the number of items of {self!r} to be 1 or more (got size={size})")
        return size

    def _checked(self, g: Tensor) -> Tensor:
        self.check_element(g)
        return check_index(g, self)

    def _check_pair(self, g: Tensor, h: Tensor) -> None:
        if self._checked(g).shape[-1] != self._checked(h).shape[-1]:
            raise ShapeError(f"Expected elements for equally many items (got {g.shape[-1]} and {h.shape[-1]})")
