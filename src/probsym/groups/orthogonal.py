"""O(d): rotations and reflections about the origin."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.groups.base import Axis, Group, act_by_matrix, check_axis, check_parameter, matmul
from probsym.ops import gram_schmidt


@dataclass(frozen=True, repr=False)
class O(Group):  # noqa: E742
    """The orthogonal group in d dimensions.

    An element is an orthogonal matrix Q (*batch, d, d). Vectors are rows: `act(Q, x) = x Q'`; an axial vector
    takes the sign of the determinant besides. Features are d vectors as the columns of Z, which follow the
    input as Q Z and are projected by Gram-Schmidt.

    >>> group = O(3)
    >>> q = group.haar((), generator=torch.Generator().manual_seed(0))
    >>> bool(group.contains(q))
    True
    """

    d: int

    def __post_init__(self) -> None:
        check_parameter(self.d, "dimension")

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain", "axial"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d, self.d)

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return self.d

    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return torch.eye(self.d, dtype=dtype, device=device).expand(*batch, -1, -1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        self.check_element(g)
        self.check_element(h)
        return matmul(g, h)

    def inverse(self, g: Tensor) -> Tensor:
        self.check_element(g)
        return g.mT

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        self.check_kind(kind)
        axis = check_axis(x, axis, self.check_element(g), self.d, self)
        return act_by_matrix(g * determinant_sign(g) if kind == "axial" else g, x, axis)

    def features(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        return torch.randn((*batch, self.d, self.d), dtype=dtype, device=device, generator=generator)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return self.compose(g, features)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The orthonormalised columns of Z (*batch, d, d); missing ones are completed from Gaussian `noise`."""
        self.check_element(features)
        return gram_schmidt(features, noise)

    def contains(self, g: Tensor) -> Tensor:
        self.check_element(g)
        if not g.is_floating_point():
            raise DtypeError(f"Expected an element of {self!r} to be floating (got {g.dtype})")
        off = (matmul(g.mT, g) - torch.eye(self.d, dtype=g.dtype, device=g.device)).abs().amax((-2, -1))
        return off < self.d * 100 * torch.finfo(g.dtype).eps

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        self.check_element(g)
        return g.to(dtype or g.dtype)


def determinant_sign(g: Tensor) -> Tensor:
    """The sign of the determinant, (*batch, 1, 1); constant near every orthogonal matrix, so without gradient."""
    precise = g.detach().to(torch.promote_types(g.dtype, torch.float32))
    return torch.linalg.det(precise).sign()[..., None, None].to(g.dtype)
