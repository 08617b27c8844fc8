"""E(d): rotations, reflections and translations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from probsym.errors import ShapeError
from probsym.groups.base import Axis, Group, act_by_matrix, check_axis, check_parameter, joint_batch, matmul
from probsym.groups.orthogonal import O, determinant_sign


@dataclass(frozen=True, repr=False)
class E(Group):
    """The Euclidean group in d dimensions.

    An element is the pair of an orthogonal Q and a translation t in one tensor [Q | t], (*batch, d, d + 1). It
    sends a point x to `x Q' + t` and a vector x to `x Q'`; an axial vector takes the sign of the determinant.

    The group is not compact and has no uniform law. As symmetrization needs it, an element carries the
    centroid of the input as its t: undoing it centres the points, and applying it puts the centroid back. So
    features are [Z | centroid], and `haar` is uniform in Q about a given centroid.

    >>> group = E(2)
    >>> quarter = torch.tensor([[0.0, -1.0, 5.0], [1.0, 0.0, 0.0]])
    >>> group.act(quarter, torch.tensor([1.0, 0.0]), kind="point")
    tensor([5., 1.])
    """

    d: int

    rotations: ClassVar[type[O]] = O

    def __post_init__(self) -> None:
        check_parameter(self.d, "dimension")

    @property
    def rotation(self) -> O:
        """The group of the Q alone."""
        return self.rotations(self.d)

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain", "point", "axial"})

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d, self.d + 1)

    def axis_size(self, kind: str = "plain") -> int:
        self.check_kind(kind)
        return self.d

    def pack(self, rotation: Tensor, translation: Tensor) -> Tensor:
        """[Q | t] from Q (*batch, d, d) and t (*batch, d), whose batch axes broadcast."""
        self.rotation.check_element(rotation)
        if translation.dim() < 1 or translation.shape[-1] != self.d:
            raise ShapeError(f"Expected a translation (*batch, {self.d}) (got {tuple(translation.shape)})")
        batch = torch.broadcast_shapes(rotation.shape[:-2], translation.shape[:-1])
        dtype = torch.promote_types(rotation.dtype, translation.dtype)
        column = translation.unsqueeze(-1).expand(*batch, self.d, 1)
        return torch.cat([rotation.expand(*batch, self.d, self.d).to(dtype), column.to(dtype)], dim=-1)

    def unpack(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Q (*batch, d, d) and t (*batch, d)."""
        self.check_element(g)
        return g[..., :-1], g[..., -1]

    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return torch.eye(self.d, self.d + 1, dtype=dtype, device=device).expand(*batch, -1, -1)

    def compose(self, g: Tensor, h: Tensor) -> Tensor:
        (q, t), (r, s) = self.unpack(g), self.unpack(h)
        return self.pack(matmul(q, r), matmul(q, s.unsqueeze(-1)).squeeze(-1) + t)

    def inverse(self, g: Tensor) -> Tensor:
        q, t = self.unpack(g)
        return self.pack(q.mT, -matmul(q.mT, t.unsqueeze(-1)).squeeze(-1))

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        self.check_kind(kind)
        axis = check_axis(x, axis, self.check_element(g), self.d, self)
        q, t = self.unpack(g)
        y = act_by_matrix(q * determinant_sign(q) if kind == "axial" else q, x, axis)
        if kind != "point":
            return y
        shape = [*t.shape[:-1], *(1 for _ in y.shape[t.dim() - 1 :])]
        shape[axis] = self.d
        return y + t.reshape(shape).to(y.dtype)

    def features(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        z = self.rotation.features(batch, dtype=dtype, device=device, generator=generator)
        return torch.cat([z, torch.zeros_like(z[..., :1])], dim=-1)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return self.compose(g, features)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """[Q | t] from [Z | centroid]: Z is projected as in the rotation group, the centroid is kept."""
        z, centroid = self.unpack(features)
        noise = None if noise is None else self.unpack(noise)[0]
        return self.pack(self.rotation.project(z, noise=noise), centroid)

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
        q = self.rotation.haar(batch, dtype=dtype, device=centroid.device, generator=generator)
        return self.pack(q, centroid.to(dtype))

    def contains(self, g: Tensor) -> Tensor:
        q, t = self.unpack(g)
        return self.rotation.contains(q) & t.isfinite().all(-1)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The homogeneous matrix [[Q, t], [0, 1]], (*batch, d + 1, d + 1)."""
        self.check_element(g)
        last = torch.eye(self.d + 1, dtype=g.dtype, device=g.device)[-1:]
        return torch.cat([g, last.expand(*g.shape[:-2], 1, -1)], dim=-2).to(dtype or g.dtype)
