"""What C(m) and D(m) share: a finite group of rotations and reflections of the plane."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import GroupError, ShapeError
from probsym.groups.base import Axis
from probsym.groups.element_checks import check_parameter
from probsym.groups.finite import Finite
from probsym.groups.images import grid_rows, turn_image
from probsym.ops.permute import moved as moved_by
from probsym.ops.precision import at_least_float32


@dataclass(frozen=True, repr=False)
class PlanarGroup(Finite):
    """A finite group of orthogonal 2 x 2 matrices.

    It acts on vectors in the plane (an axis of size 2) and on images (a pair of axes, kind "grid"): exactly where every
    element maps a pixel grid onto itself, and otherwise by bilinear sampling in the inscribed disc; see
    `groups.images.turn_image`. With the image's centre as origin, pixel (row, column) lies at x = column, y = -row, so
    both actions rotate the same way.
    """

    m: int

    kinds = frozenset({"plain", "axial", "grid"})

    def __post_init__(self) -> None:
        check_parameter(self.m, "number of rotations")

    def exact_on(self, kind: str) -> bool:
        return kind != "grid" or 4 % self.m == 0

    @property
    def needs_square(self) -> bool:
        return self.m == 4

    @abstractmethod
    def _turn_and_flip(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """Write g as (turns, flip): flip the y axis if flip is 1, then rotate by turns times 2 pi / m."""

    def axis_size(self, kind: str = "plain") -> int | None:
        self.check_kind(kind)
        return None if kind == "grid" else 2

    def noise_laws(self, kind: str = "plain") -> tuple[str, ...]:
        return ("normal",) if kind != "grid" else ("uniform", "normal") if self.exact_on(kind) else ()

    def inverses(self, device: torch.device | None = None) -> Tensor:
        every = self.elements(device=device)
        turn, flip = self._turn_and_flip(every)
        return torch.where(flip == 1, every, (-turn) % self.m)

    def opposite(self, g: Tensor, mask: Tensor | None = None) -> Tensor:
        """The product g s: s rotates by m // 2 steps, nearly a half turn; for D(1), with no rotations, s flips."""
        return self.compose(g, torch.full_like(g, self.m // 2 or self.order - 1))

    def matrix(self, g: Tensor, *, dtype: torch.dtype | None = None) -> Tensor:
        """The orthogonal matrix of g, (*batch, 2, 2), exact at multiples of a quarter turn."""
        turn, flip = self._turn_and_flip(self._checked(g))
        quarters = 4 * turn.double() / self.m
        cosine, sine = _quarter_cosine(quarters), _quarter_cosine(quarters - 1)
        sign = 1 - 2 * flip.double()
        rows = torch.stack([cosine, -sine * sign, sine, cosine * sign], dim=-1)
        return rows.view(*g.shape, 2, 2).to(dtype or torch.get_default_dtype())

    def act(self, g: Tensor, x: Tensor, axis: Axis = -1, kind: str = "plain") -> Tensor:
        """Move x by g; for weights g (*batch, order), sum the moved x over all elements with these weights.

        `axis` is one axis of size 2, or for kind "grid" the pair of axes (rows, columns), next to each other.
        """
        if kind != "grid":
            return super().act(g, x, axis, kind)
        self.check_kind(kind)
        return self._act_on_grid(g, x, axis, self._batch(g, x))

    def _act_on_grid(self, g: Tensor, x: Tensor, axis: Axis, batch: Sequence[int]) -> Tensor:
        rows = grid_rows(x, axis, batch, self)
        if not g.is_floating_point():
            return self._moved_grid(self._checked(g), x, rows)
        total = None
        for element in range(self.order):
            moved = self._moved_grid(torch.full(tuple(batch), element, device=g.device), x, rows)
            share = moved * g[..., element].view(*batch, *(1 for _ in x.shape[len(batch) :])).to(x.dtype)
            total = share if total is None else total + share
        assert total is not None
        return total

    def _moved_grid(self, g: Tensor, x: Tensor, rows: int) -> Tensor:
        if not self.exact_on("grid"):
            return turn_image(self.matrix(g, dtype=at_least_float32(x.dtype)), x, rows)
        pixels = self.grid_index(x.shape[rows], x.shape[rows + 1], device=x.device)
        moved = moved_by(x.flatten(rows, rows + 1), pixels[g], rows)
        return moved.view(*g.shape, *x.shape[g.dim() :])

    def grid_index(self, height: int, width: int, device: torch.device | None = None) -> Tensor:
        """For every element, the index of the pixel that moves to each place, (order, height * width), row by row."""
        if not self.exact_on("grid"):
            raise GroupError(f"Expected a group that maps pixels to pixels (got {self!r})")
        if self.needs_square and height != width:
            raise ShapeError(f"Expected a square grid for {self!r} (got {height} x {width})")
        row, column = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        # twice the coordinates, so that centres of even grids are integers too
        place = torch.stack([2 * column - (width - 1), (height - 1) - 2 * row], dim=-1).reshape(-1, 2)
        undo = self.matrix(self.inverses(), dtype=torch.float64).round().long()
        source = torch.einsum("kij,pj->kpi", undo, place)
        x, y = source.unbind(-1)
        return (((height - 1 - y) // 2) * width + (x + width - 1) // 2).to(device)


def _quarter_cosine(quarters: Tensor) -> Tensor:
    """The cosine of a number of quarter turns, exact at whole ones."""
    whole = quarters.round()
    exact = torch.tensor([1.0, 0.0, -1.0, 0.0], dtype=quarters.dtype, device=quarters.device)[whole.long() % 4]
    return torch.where(quarters == whole, exact, torch.cos(quarters * (math.pi / 2)))
