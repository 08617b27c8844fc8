"""Tetrahedral, Octahedral and Icosahedral: the rotations of the regular solids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from probsym.groups.finite import Finite

GOLDEN = (1 + 5**0.5) / 2
LONG, SHORT = GOLDEN / 2, (GOLDEN - 1) / 2
ENTRIES = torch.tensor([0.0, 0.5, 1.0, LONG, SHORT], dtype=torch.float64)
"""What the entries of a rotation can be, up to their sign, if an edge of the solid lies across an axis."""
HALF_TURN = ((-1, 0, 0), (0, -1, 0), (0, 0, 1))
QUARTER_TURN = ((0, -1, 0), (1, 0, 0), (0, 0, 1))
"""Both about the z axis."""
THIRD_TURN = ((0, 0, 1), (1, 0, 0), (0, 1, 0))
"""About the diagonal (1, 1, 1): x goes to y, y to z."""
FIFTH_TURN = ((0.5, -LONG, SHORT), (LONG, SHORT, -0.5), (SHORT, 0.5, LONG))
"""About the corner (1, 0, golden ratio)."""


@dataclass(frozen=True, repr=False)
class Polyhedral(Finite):
    """The rotations that map a regular solid about the origin onto itself, which some of them generate.

    Elements are numbered as they are found: the identity, then products of generators. Matrices are exact in float64,
    and products are looked up in a table.
    """

    kinds = frozenset({"plain", "axial"})
    matrices: ClassVar[Tensor]
    table: ClassVar[Tensor]

    def __init_subclass__(cls, generators: Sequence[Sequence[Sequence[float]]] = (), **options: object) -> None:
        super().__init_subclass__(**options)
        if generators:
            cls.matrices, cls.table = _generated(torch.tensor(generators, dtype=torch.float64))

    @property
    def order(self) -> int:
        return len(self.matrices)

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return 3

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return ("normal",)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        return self.table.to(g.device)[self._checked(g), self._checked(h)]

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The rotation, (*batch, 3, 3)."""
        return self.matrices.to(g.device, dtype or torch.get_default_dtype())[self._checked(g)]

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """g after a half turn."""
        half = int((self.matrices.diagonal(dim1=-2, dim2=-1).sum(-1) + 1).abs().argmin())
        return self.compose(g, torch.full_like(g, half))


def _generated(generators: Tensor) -> tuple[Tensor, Tensor]:
    """All products of rotations (count, 3, 3), the identity first, and the number of each product of two of them."""
    found = [torch.eye(3, dtype=torch.float64)]
    numbers = {_entries(found[0].unsqueeze(0))[0]: 0}
    for one in found:  # which grows meanwhile
        products = _exact(one @ generators)
        for product, entries in zip(products, _entries(products), strict=True):
            if numbers.setdefault(entries, len(found)) == len(found):
                found.append(product)
    every = torch.stack(found)
    return every, torch.tensor([[numbers[entries] for entries in _entries(_exact(one @ every))] for one in found])


def _entries(matrices: Tensor) -> list[tuple[float, ...]]:
    return [tuple(row) for row in matrices.flatten(1).tolist()]


def _exact(matrices: Tensor) -> Tensor:
    """Matrices without the rounding of a product."""
    nearest = (matrices.abs().unsqueeze(-1) - ENTRIES).abs().argmin(-1)
    return ENTRIES[nearest] * torch.where(matrices < 0, -1.0, 1.0) + 0.0


@dataclass(frozen=True, repr=False)
class Tetrahedral(Polyhedral, generators=(HALF_TURN, THIRD_TURN)):
    """The 12 rotations of the tetrahedron with a corner at (1, 1, 1) and edges across the axes.

    >>> group = Tetrahedral()
    >>> group.order, sorted(group.matrix(group.elements()).diagonal(dim1=1, dim2=2).sum(1).tolist())[2:4]
    (12, [-1.0, 0.0])
    """


@dataclass(frozen=True, repr=False)
class Octahedral(Polyhedral, generators=(QUARTER_TURN, THIRD_TURN)):
    """The 24 rotations of the cube whose faces lie across the axes: permutations of the axes with signs.

    >>> Octahedral().order
    24
    """


@dataclass(frozen=True, repr=False)
class Icosahedral(Polyhedral, generators=(HALF_TURN, THIRD_TURN, FIFTH_TURN)):
    """The 60 rotations of the icosahedron with corners at (1, 0, golden ratio) and so on, and edges across the axes.

    >>> Icosahedral().order
    60
    """
