"""What the rotation groups of the regular solids share: finite groups of rotations of space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from probsym.groups.finite import Finite

GOLDEN = (1 + 5**0.5) / 2
ENTRIES = torch.tensor([0.0, 0.5, 1.0, GOLDEN / 2, (GOLDEN - 1) / 2], dtype=torch.float64)
"""What the entries of a rotation can be, up to their sign, if an edge of the solid lies across an axis."""


@dataclass(frozen=True, repr=False)
class Polyhedral(Finite):
    """The rotations that map a regular solid about the origin onto itself, which some of them generate.

    Elements are numbered as they are found: the identity, then products of generators. Matrices are exact in float64,
    and products are looked up in a table.
    """

    matrices: ClassVar[Tensor]
    table: ClassVar[Tensor]

    def __init_subclass__(cls, generators: Sequence[Sequence[Sequence[float]]] = (), **options: object) -> None:
        super().__init_subclass__(**options)
        if generators:
            cls.matrices, cls.table = _generated(torch.tensor(generators, dtype=torch.float64))

    @property
    def order(self) -> int:
        return len(self.matrices)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain", "axial"})

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
    found = torch.eye(3, dtype=torch.float64).unsqueeze(0)
    while True:
        products = _exact(found.unsqueeze(1) @ generators).flatten(0, 1)
        new = products[~(_number(products, found) >= 0)]
        if len(new) == 0:
            break
        first = [new[0]]
        for one in new[1:]:
            if all(not torch.equal(one, other) for other in first):
                first.append(one)
        found = torch.cat([found, torch.stack(first)])
    return found, _number(_exact(found.unsqueeze(1) @ found).flatten(0, 1), found).view(len(found), len(found))


def _exact(matrices: Tensor) -> Tensor:
    """Matrices without the rounding of a product."""
    nearest = (matrices.abs().unsqueeze(-1) - ENTRIES).abs().argmin(-1)
    return ENTRIES[nearest] * torch.where(matrices < 0, -1.0, 1.0) + 0.0


def _number(matrices: Tensor, listed: Tensor) -> Tensor:
    """Which of those listed each matrix is, or -1."""
    same = (matrices.unsqueeze(1) == listed).flatten(2).all(-1)
    return torch.where(same.any(1), same.long().argmax(1), -1)
