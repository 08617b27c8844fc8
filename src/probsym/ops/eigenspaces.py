"""Eigenvectors of symmetric matrices, grouped into eigenspaces: only the spaces are well defined, never the vectors."""

from collections.abc import Callable
from typing import Any, NamedTuple

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
    """Eigenspaces of symmetric matrices (*batch, n, n); eigenvalues closer than `tolerance |matrix|` count as equal.

    The tolerance is a number, or (*batch, 1). `solve` returns ascending eigenvalues and the eigenvectors.

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


def with_gradient(axes: Tensor, matrix: Tensor, space: Tensor) -> Tensor:
    """Orthonormal eigenvectors (*batch, K, n, n) of matrices (*batch, n, n) with their gradient in the matrix.

    For a change dC of the matrix, eigenvector j changes by `sum_i v_i (v_i' dC v_j) / (l_j - l_i)` over the i of other
    spaces; `space` (*batch, n) numbers them. Within a space, where vectors are not a function of the matrix, there
    is no change. So everything stays finite, and functions of the projectors alone get their true gradient. It can be
    differentiated again.

    >>> matrix = torch.diag(torch.tensor([3.0, 1.0])).requires_grad_()
    >>> axes = with_gradient(torch.eye(2).unsqueeze(0), matrix, torch.tensor([0, 1]))
    >>> torch.autograd.grad(axes[0, 1, 0], matrix)[0]
    tensor([[0.0000, 0.0000],
            [0.5000, 0.0000]])
    """
    apart = space.unsqueeze(-1) != space.unsqueeze(-2)
    return _Eigenvectors.apply(matrix.unsqueeze(-3), axes, apart.unsqueeze(-3))[0]


class _Eigenvectors(torch.autograd.Function):
    """Eigenvectors that are known already, and their eigenvalues, as functions of the matrix."""

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor, axes: Tensor, apart: Tensor) -> tuple[Tensor, Tensor]:
        return axes.clone(), (axes * (matrix @ axes)).sum(-2)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.save_for_backward(*output, inputs[2])

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        axes, values, apart = ctx.saved_tensors
        to_axes, to_values = gradients
        gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
        turned = torch.where(apart, (axes.mT @ to_axes) / torch.where(apart, gaps, 1), 0)
        change = axes @ (turned + torch.diag_embed(to_values)) @ axes.mT
        return change.sum(-3, keepdim=True), None, None
