"""Eigenvectors of symmetric matrices, grouped into eigenspaces: only the spaces are well defined, never the vectors."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Eigenspaces(NamedTuple):
    """`vectors` (*batch, n, n) are columns, eigenvalues descending; `space` (*batch, n) numbers each column's space."""

    vectors: Tensor
    space: Tensor

    def simple(self) -> Tensor:
        """Whether every space is a line: booleans (*batch,)."""
        return self.space[..., -1] == self.space.shape[-1] - 1

    def project(self, z: Tensor) -> Tensor:
        """Column j of z (*batch, n, n) projected on the space of column j: `P_j z_j`."""
        same = self.space.unsqueeze(-1) == self.space.unsqueeze(-2)
        return self.vectors @ ((self.vectors.mT @ z) * same)

    def diagonals(self) -> Tensor:
        """The diagonals of the projectors, (*batch, n, n): one column a space, zero columns behind the last."""
        n = self.space.shape[-1]
        member = self.space.unsqueeze(-1) == torch.arange(n, device=self.space.device)
        return self.vectors.square() @ member.to(self.vectors.dtype)


def eigenspaces(
    matrix: Tensor, tolerance: Tensor | float, solve: Callable[[Tensor], tuple[Tensor, Tensor]] = torch.linalg.eigh
) -> Eigenspaces:
    """The eigenspaces of symmetric matrices (*batch, n, n); eigenvalues closer than `tolerance |matrix|` are one.

    The tolerance is a number, or (*batch, 1). What solves them returns eigenvalues, ascending, and eigenvectors.

    Computed in float64 and without gradient.

    >>> spaces = eigenspaces(torch.diag(torch.tensor([1.0, 3.0, 1.0])), 1e-9)
    >>> spaces.space.tolist(), spaces.diagonals()[:, 1].tolist()
    ([0, 1, 1], [1.0, 0.0, 1.0])
    """
    values, vectors = solve(matrix.detach().double())
    values, vectors = values.flip(-1), vectors.flip(-1)
    gaps = values[..., :-1] - values[..., 1:]
    apart = gaps > tolerance * values.abs().amax(-1, keepdim=True)
    first = torch.zeros_like(values[..., :1], dtype=torch.bool)
    return Eigenspaces(vectors, torch.cat([first, apart], -1).long().cumsum(-1))
