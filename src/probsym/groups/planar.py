"""What C(m) and D(m) share: a finite group of rotations and reflections of the plane."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, RangeError, ShapeError
from probsym.groups.base import Axis, Group, act_by_matrix, check_axis, check_index, check_parameter, matmul
from probsym.ops import descending, take


@dataclass(frozen=True, repr=False)
class PlanarGroup(Group):
    """A finite group of orthogonal 2 x 2 matrices, its elements numbered 0 to order - 1; 0 is the identity.

    An element is an integer tensor (*batch,). It acts on vectors in the plane (an axis of size 2) and, where
    every element maps a pixel grid onto itself, on images (a pair of axes, kind "grid"), exactly. Pixel
    (row, column) lies at x = column, y = -row from the image's centre, so both actions turn the same way.

    Features are logits (*batch, order), one for each element; they follow the input by the regular
    representation, and the largest names the element. `straight_through` makes that choice differentiable:
    the weights it returns are accepted by `act` and `inverse` wherever an element is.
    """

    m: int

    def __post_init__(self) -> None:
        check_parameter(self.m, "number of rotations")

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset({"plain", "axial", "grid"} if 4 % self.m == 0 else {"plain", "axial"})

    @property
    def needs_square(self) -> bool:
        return self.m == 4

    @property
    @abstractmethod
    def order(self) -> int:
        """The number of elements."""

    @abstractmethod
    def _turn_and_flip(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """g as a flip of the y axis, if the second is 1, and then the first number of turns by 2 pi / m."""

    def element_shape(self, size: int | None = None) -> tuple[int, ...]:
        return ()

    def axis_size(self, kind: str = "plain") -> int | None:
        self.check_kind(kind)
        return None if kind == "grid" else 2

    def identity(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
    ) -> Tensor:
        return torch.zeros(tuple(batch), dtype=torch.long, device=device)

    def elements(self, *, size: int | None = None, device: torch.device | None = None) -> Tensor:
        return torch.arange(self.order, device=device)

    def features(
        self,
        batch: Sequence[int] = (),
        *,
        size: int | None = None,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        return torch.rand((*batch, self.order), dtype=dtype, device=device, generator=generator)

    def move(self, g: Tensor, features: Tensor) -> Tensor:
        """Logits follow as `(g z)[h] = z[inverse(g) h]`."""
        self._check_weights(features)
        g = self._checked(g)
        source = self.compose(self.inverse(g).unsqueeze(-1), self.elements(device=g.device))
        batch = torch.broadcast_shapes(g.shape, features.shape[:-1])
        return features.expand(*batch, -1).gather(-1, source.expand(*batch, -1))

    def project(self, features: Tensor, *, noise: Tensor | None = None) -> Tensor:
        """The element with the largest logit; exact ties go to the largest `noise`, or else the first."""
        self._check_weights(features)
        return descending(features.detach(), ties=noise)[..., 0]

    def straight_through(self, features: Tensor, *, noise: Tensor | None = None, tau: float = 1.0) -> Tensor:
        """Weights (*batch, order): one at the projected element, with the gradient of `softmax(logits / tau)`."""
        if not tau > 0:
            raise RangeError(f"Expected tau to be positive (got {tau})")
        hard = torch.nn.functional.one_hot(self.project(features, noise=noise), self.order)
        soft = torch.softmax(features.to(torch.promote_types(features.dtype, torch.float32)) / tau, dim=-1)
        return hard.to(soft.dtype) + (soft - soft.detach())

    def inverse(self, g: Tensor) -> Tensor:
        """The element that undoes g; of weights, the weights of the inverses."""
        if g.is_floating_point():
            self._check_weights(g)
            return g[..., self.inverse(self.elements(device=g.device))]
        turn, flip = self._turn_and_flip(self._checked(g))
        return torch.where(flip == 1, g, (-turn) % self.m)

    def contains(self, g: Tensor) -> Tensor:
        return (self._checked(g) >= 0) & (g < self.order)

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The orthogonal matrix of g, (*batch, 2, 2), exact at multiples of a quarter turn."""
        turn, flip = self._turn_and_flip(self._checked(g))
        quarters = 4 * turn.double() / self.m
        cosine, sine = _quarter_cosine(quarters), _quarter_cosine(quarters - 1)
        sign = 1 - 2 * flip.double()
        rows = torch.stack([cosine, -sine * sign, sine, cosine * sign], dim=-1)
        return rows.view(*g.shape, 2, 2).to(dtype or torch.get_default_dtype())

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Move x by g, or by every element in proportion to weights g (*batch, order).

        `axis` is one axis of size 2, or for kind "grid" the pair of axes (rows, columns), next to each other.
        """
        self.check_kind(kind)
        weighted = g.is_floating_point()
        if weighted:
            self._check_weights(g)
            if not x.is_floating_point():
                raise DtypeError(f"Expected a floating tensor to weigh the elements of {self!r} (got {x.dtype})")
        batch = g.shape[:-1] if weighted else self._checked(g).shape
        if kind == "grid":
            return self._act_on_grid(g, x, axis, batch)
        axis = check_axis(x, axis, batch, 2, self)
        dtype = torch.promote_types(x.dtype, torch.float32)
        matrices = self.matrix(self.elements(device=g.device), dtype=dtype)
        if kind == "axial":
            matrices = matrices * torch.linalg.det(matrices).sign()[:, None, None]
        if not weighted:
            return act_by_matrix(matrices[g], x, axis)
        return act_by_matrix(matmul(g.to(dtype), matrices.flatten(1)).unflatten(-1, (2, 2)), x, axis)

    def _act_on_grid(self, g: Tensor, x: Tensor, axis: Axis, batch: Sequence[int]) -> Tensor:
        if isinstance(axis, int) or len(axis) != 2:
            raise GroupError(f"Expected a pair of axes for {self!r} on a grid (got {axis})")
        rows, columns = (check_axis(x, one, batch, None, self) for one in axis)
        if columns != rows + 1:
            raise ShapeError(f"Expected the two axes of a grid next to each other, rows first (got {axis})")
        pixels = self.grid_index(x.shape[rows], x.shape[columns], device=x.device)
        flat = x.flatten(rows, columns)
        if not g.is_floating_point():
            return take(flat, pixels[self._checked(g)], rows).view(*batch, *x.shape[len(batch) :])
        total = None
        for element in range(self.order):
            moved = take(flat, pixels[element].expand(*batch, -1), rows).view(*batch, *x.shape[len(batch) :])
            share = moved * g[..., element].view(*batch, *(1 for _ in x.shape[len(batch) :])).to(x.dtype)
            total = share if total is None else total + share
        assert total is not None
        return total

    def grid_index(self, height: int, width: int, device: torch.device | None = None) -> Tensor:
        """For every element the pixel that comes to each place, (order, height * width), row by row."""
        self.check_kind("grid")
        if self.needs_square and height != width:
            raise ShapeError(f"Expected a square grid for {self!r} (got {height} x {width})")
        row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        # twice the coordinates, so that centres of even grids are integers too
        place = torch.stack([2 * column - (width - 1), (height - 1) - 2 * row], dim=-1).reshape(-1, 2)
        undo = self.matrix(self.inverse(self.elements()), dtype=torch.float64).round().long()
        source = torch.einsum("kij,pj->kpi", undo, place)
        x, y = source.unbind(-1)
        return (((height - 1 - y) // 2) * width + (x + width - 1) // 2).to(device)

    def _checked(self, g: Tensor) -> Tensor:
        return check_index(g, self)

    def _check_weights(self, weights: Tensor) -> None:
        if not weights.is_floating_point() or weights.dim() < 1 or weights.shape[-1] != self.order:
            raise ShapeError(
                f"Expected floating logits or weights (*batch, {self.order}) for {self!r} "
                f"(got {tuple(weights.shape)}, {weights.dtype})"
            )


def _quarter_cosine(quarters: Tensor) -> Tensor:
    """The cosine of a number of quarter turns, exact at whole ones."""
    whole = quarters.round()
    exact = torch.tensor([1.0, 0.0, -1.0, 0.0], dtype=quarters.dtype, device=quarters.device)[whole.long() % 4]
    return torch.where(quarters == whole, exact, torch.cos(quarters * (math.pi / 2)))
