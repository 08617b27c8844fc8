"""E(d): rotations, reflections and translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from probsym.errors import ShapeError
from probsym.groups.base import Axis, Device, Dtype, Group
from probsym.groups.element_checks import check_axis, check_parameter, joint_batch
from probsym.groups.matrices import act_by_matrix, matmul
from probsym.groups.orthogonal import O, determinant_sign
from probsym.ops.random_numbers import random_numbers


@dataclass(frozen=True, repr=False)
class E(Group):
    """The Euclidean group in d dimensions.

    An element is the pair of an orthogonal Q and a translation t in one tensor [Q | t], (*batch, d, d + 1). It
    sends a point x to `x Q' + t` and a vector x to `x Q'`; an axial vector takes the sign of the determinant.

    The group is not compact and has no uniform distribution. Symmetrization subtracts the centroid of the points and
    adds it back at the end, so only `linear`, the group O(d) about the centroid, remains: features, noise and draws
    are those of O(d), and `haar` is uniform in Q about a given centroid.

    >>> group = E(2)
    >>> quarter = torch.tensor([[0.0, -1.0, 5.0], [1.0, 0.0, 0.0]])
    >>> group.act(quarter, torch.tensor([1.0, 0.0]), kind="point")
    tensor([5., 1.])
    """

    d: int

    compact = False
    kinds = frozenset({"plain", "point", "axial"})
    rotations: ClassVar[type[O]] = O

    def __post_init__(self) -> None:
        check_parameter(self.d, "dimension")

    @property
    def linear(self) -> O:
        """The group of the Q alone."""
        return self.rotations(self.d)

    def linear_part(self, g: Tensor) -> Tensor:
        """Q, (*batch, d, d)."""
        self.check_element(g)
        return g[..., :-1]

    def translation(self, g: Tensor) -> Tensor:
        """t, (*batch, d)."""
        self.check_element(g)
        return g[..., -1]

    def with_translation(self, g: Tensor, translation: Tensor) -> Tensor:
        """[Q | t] from Q (*batch, d, d) and t (*batch, d), whose batch axes broadcast."""
        self.linear.check_element(g)
        if translation.dim() < 1 or translation.shape[-1] != self.d:
            raise ShapeError(f"Expected a translation (*batch, {self.d}) (got {tuple(translation.shape)})")
        batch = torch.broadcast_shapes(g.shape[:-2], translation.shape[:-1])
        dtype = torch.promote_types(g.dtype, translation.dtype)
        column = translation.unsqueeze(-1).expand(*batch, self.d, 1)
        return torch.cat([g.expand(*batch, self.d, self.d).to(dtype), column.to(dtype)], dim=-1)

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d, self.d + 1)

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return self.d

    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
    ) -> Tensor:
        return torch.eye(self.d, self.d + 1, dtype=dtype, device=device).expand(*batch, -1, -1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        (q, t), (r, s) = ((self.linear_part(element), self.translation(element)) for element in (g, h))
        return self.with_translation(matmul(q, r), matmul(q, s.unsqueeze(-1)).squeeze(-1) + t)

    def inverse(self, g: Tensor) -> Tensor:
        q, t = self.linear_part(g), self.translation(g)
        return self.with_translation(q.mT, -matmul(q.mT, t.unsqueeze(-1)).squeeze(-1))

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        self.check_kind(kind)
        axis = check_axis(x, axis, self.check_element(g), self.d, self)
        q, t = self.linear_part(g), self.translation(g)
        y = act_by_matrix(q * determinant_sign(q) if kind == "axial" else q, x, axis)
        if kind != "point":
            return y
        shape = [*t.shape[:-1], *(1 for _ in y.shape[t.dim() - 1 :])]
        shape[axis] = self.d
        return y + t.reshape(shape).to(y.dtype)

    def haar(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
        centroid: Tensor | None = None,
    ) -> Tensor:
        """Q uniform, about the given centroid (*batch, d), or about the origin."""
        if centroid is None:
            centroid = torch.zeros(self.d, dtype=dtype, device=device)
        batch, dtype = joint_batch(batch, centroid.shape[:-1], "centroid"), dtype or centroid.dtype
        q = self.linear.haar(batch, dtype=dtype, device=centroid.device, generator=generator)
        return self.with_translation(q, centroid.to(dtype))

    def random(self, batch: Sequence[int] = (), **options: Any) -> Tensor:
        """Q uniform, and a normal translation."""
        g, source = self.haar(batch, **options), options.get("generator")
        shift = random_numbers((*batch, self.d), normal=True, dtype=g.dtype, device=g.device, generator=source)
        return self.with_translation(self.linear_part(g), shift)

    def contains(self, g: Tensor) -> Tensor:
        q, t = self.linear_part(g), self.translation(g)
        return self.linear.contains(q) & t.isfinite().all(-1)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The homogeneous matrix [[Q, t], [0, 1]], (*batch, d + 1, d + 1)."""
        self.check_element(g)
        last = torch.eye(self.d + 1, dtype=g.dtype, device=g.device)[-1:]
        return torch.cat([g, last.expand(*g.shape[:-2], 1, -1)], dim=-2).to(dtype or g.dtype)
