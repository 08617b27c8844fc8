"""Graphs as lists of edges: what an array of order 2 is when most of it is zero."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from probsym.errors import DtypeError, ShapeError


@dataclass(frozen=True)
class EdgeList:
    """The non-zero entries of an array (batch, n, n) or (batch, n, n, c).

    Args:
        index: integers (3, edges): batch item, row, column of each. The same place may occur twice; it counts twice.
        values: (edges,) or (edges, c).
        batch, n: the sizes of the array.

    >>> edges = EdgeList.from_dense(torch.eye(3).unsqueeze(0))
    >>> edges.shape, edges.index.shape
    (torch.Size([1, 3, 3]), torch.Size([3, 3]))
    >>> bool((edges.permuted(torch.tensor([[2, 0, 1]])).dense() == torch.eye(3)).all())
    True
    """

    index: Tensor
    values: Tensor
    batch: int
    n: int

    def __post_init__(self) -> None:
        if self.index.dtype not in (torch.int64, torch.int32):
            raise DtypeError(f"Expected index to be integers (got {self.index.dtype})")
        if self.index.dim() != 2 or self.index.shape[0] != 3:
            raise ShapeError(f"Expected index to be (3, edges): item, row, column (got {tuple(self.index.shape)})")
        if self.values.dim() not in (1, 2) or self.values.shape[0] != self.index.shape[1]:
            raise ShapeError(
                f"Expected values to be ({self.index.shape[1]},) or ({self.index.shape[1]}, c) "
                f"(got {tuple(self.values.shape)})"
            )

    @property
    def shape(self) -> torch.Size:
        """That of the array which it stands for."""
        return torch.Size([self.batch, self.n, self.n, *self.values.shape[1:]])

    @property
    def device(self) -> torch.device:
        return self.values.device

    @staticmethod
    def from_dense(x: Tensor) -> EdgeList:
        """The entries (batch, n, n) or (batch, n, n, c) that have any number but zero."""
        if x.dim() not in (3, 4) or x.shape[1] != x.shape[2]:
            raise ShapeError(f"Expected x to be (batch, n, n) or (batch, n, n, c) (got {tuple(x.shape)})")
        index = (x != 0 if x.dim() == 3 else (x != 0).any(-1)).nonzero().T
        return EdgeList(index, x[tuple(index)], x.shape[0], x.shape[1])

    def dense(self) -> Tensor:
        """The array itself."""
        return self.values.new_zeros(self.shape).index_put(tuple(self.index), self.values, accumulate=True)

    def permuted(self, p: Tensor) -> EdgeList:
        """The array y with `y[b, j, k] = x[b, p[b, j], p[b, k]]`, for indices p (batch, n)."""
        if tuple(p.shape) != (self.batch, self.n):
            raise ShapeError(f"Expected p to be {(self.batch, self.n)} (got {tuple(p.shape)})")
        place = torch.empty_like(p).scatter_(1, p, torch.arange(self.n, device=p.device).expand_as(p))
        item, row, column = self.index
        return EdgeList(torch.stack([item, place[item, row], place[item, column]]), self.values, self.batch, self.n)

    def to(self, target: torch.device | torch.dtype | str) -> EdgeList:
        """On another device, or with values of another dtype."""
        index = self.index if isinstance(target, torch.dtype) else self.index.to(target)
        return EdgeList(index, self.values.to(target), self.batch, self.n)
