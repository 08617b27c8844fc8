"""O(d): rotations and reflections about the origin."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.groups.base import Axis, Carrier, Device, Dtype, Group
from probsym.groups.element_checks import check_axis, check_parameter
from probsym.groups.images import grid_rows, turn_image
from probsym.groups.matrices import act_by_matrix, matmul
from probsym.groups.rotation_rule import rotation_rule
from probsym.ops import gram_schmidt
from probsym.ops.gram_schmidt import TOLERANCE
from probsym.ops.precision import at_least_float32

MOST_STRATIFIED = 3
"""Dimensions in which signed permutations are drawn without replacement."""
THIN = {torch.float64: 1e-6, torch.float32: 2e-3}
"""What Gram-Schmidt leaves of a vector, relative to all, below which it magnifies rounding too much."""


@dataclass(frozen=True, repr=False)
class O(Group):  # noqa: E742
    """The orthogonal group in d dimensions.

    An element is an orthogonal matrix Q (*batch, d, d). Vectors are rows: `act(Q, x) = x Q'`; an axial vector
    is also multiplied by det Q. Features are d vectors, the columns of Z. They become Q Z when the input moves, and are
    projected by Gram-Schmidt. O(2) and SO(2) also act on images (kind "grid"), by bilinear sampling in the inscribed
    disc; see `groups.images.turn_image`.

    >>> group = O(3)
    >>> q = group.haar((), generator=torch.Generator().manual_seed(0))
    >>> bool(group.contains(q))
    True
    """

    d: int

    feature_field = "vectors"
    frame = "axes"

    def __post_init__(self) -> None:
        check_parameter(self.d, "dimension")

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain", "axial", "grid"} if self.d == 2 else {"plain", "axial"})

    def exact_on(self, kind: str) -> bool:
        return kind != "grid"

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d, self.d)

    def axis_size(self, kind: str = "plain") -> int | None:
        self.check_kind(kind)
        return None if kind == "grid" else self.d

    def identity(
        self, batch: Sequence[int] = (), *, size: int | None = None, dtype: Dtype = None, device: Device = None
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
        batch = self.check_element(g)
        if kind == "grid":
            return turn_image(g, x, grid_rows(x, axis, batch, self))
        axis = check_axis(x, axis, batch, self.d, self)
        return act_by_matrix(g * determinant_sign(g) if kind == "axial" else g, x, axis)

    def feature_shape(self, size: int | None = None) -> tuple[int, ...]:
        return (self.d, self.d)

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return ("normal",) if self.exact_on(kind) else ()

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        return self.compose(g, features)

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The orthonormalised columns of Z (*batch, d, d); dependent ones are replaced from Gaussian `noise`."""
        self.check_element(features)
        return gram_schmidt(features, noise)

    def prior(self, features: Tensor, carrier: Carrier, tau: float) -> Tensor:
        """d - tr Q, half the squared distance of Q from the identity."""
        assert isinstance(carrier, Tensor)
        return self.d - carrier.diagonal(dim1=-2, dim2=-1).sum(-1)

    def close_call(self, features: Tensor, g: Tensor, mask: Tensor | None = None) -> Tensor:
        left = torch.linalg.qr(features).R.diagonal(dim1=-2, dim2=-1).abs()
        whole = torch.linalg.matrix_norm(features).clamp(min=torch.finfo(features.dtype).tiny)
        share = left / whole.unsqueeze(-1)
        # well below the tolerance a vector is replaced by noise, which moves along
        return ((share < THIN[features.dtype]) & (share > TOLERANCE[features.dtype] / 10)).any(-1)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product g s with s = -I, or, for rotations in odd dimensions, the half turn diag(-1, ..., -1, 1)."""
        signs = -g.new_ones(self.d)
        if not self.reflects and self.d % 2:
            signs[-1] = 1
        return g * signs

    @property
    def stratifies(self) -> bool:
        return self.d <= MOST_STRATIFIED

    def signed_permutations(self) -> Tensor:
        """The elements that permute the axes and change signs, as matrices (N, d, d) in float64.

        >>> len(O(3).signed_permutations()), len(O(2).signed_permutations())
        (48, 8)
        """
        rows = torch.eye(self.d, dtype=torch.float64)
        orders = [rows[list(order)] for order in itertools.permutations(range(self.d))]
        signs = [
            torch.tensor(diagonal, dtype=torch.float64) for diagonal in itertools.product((1.0, -1.0), repeat=self.d)
        ]
        matrices = torch.stack([order * sign for order in orders for sign in signs])
        return matrices if self.reflects else matrices[torch.linalg.det(matrices) > 0]

    def stratum_orders(
        self, batch: int, size: int | None, mask: Tensor | None, device: torch.device
    ) -> tuple[Tensor, int]:
        most = len(self.signed_permutations())
        return torch.full((batch, 1), most, device=device), most

    def stratum(self, ranks: Tensor, size: int | None, dtype: torch.dtype) -> Tensor:
        return self.signed_permutations().to(ranks.device, dtype)[ranks]

    def quadrature(self, degree: int) -> tuple[Tensor, Tensor]:
        """For d at most 3, the rotations and weights of `rotation_rule`; with reflections, each rotation is also
        composed with one."""
        rotations, weights = rotation_rule(self.d, degree)
        if not self.reflects:
            return rotations, weights
        flip = torch.ones(self.d, dtype=torch.float64)
        flip[-1] = -1
        return torch.cat([rotations, rotations * flip]), torch.cat([weights, weights]) / 2

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
    """The sign of the determinant, (*batch, 1, 1); locally constant on orthogonal matrices, so it has no gradient."""
    precise = g.detach().to(at_least_float32(g.dtype))
    return torch.linalg.det(precise).sign()[..., None, None].to(g.dtype)
