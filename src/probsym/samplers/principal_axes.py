"""The principal axes of points, as a frame for rotations: with all signs, and a random basis of what is symmetric."""

from collections.abc import Callable

import torch
from torch import Tensor

from probsym.groups.orthogonal import determinant_sign
from probsym.ops import gram_schmidt
from probsym.ops.eigenspaces import Eigenspaces, eigenspaces, with_gradient
from probsym.ops.jacobi import LARGEST, jacobi
from probsym.ops.transforms import needs_gradient

CLOSE = {torch.float32: 1e-5, torch.float64: 1e-9}
"""What counts as equal, relative to the largest, in inputs of each precision."""


def principal_axes(
    points: Tensor, close: Tensor, drawn: Tensor, *, signs: bool, reflects: bool
) -> tuple[Tensor, Tensor]:
    """The principal axes of points (B, m, d) as columns, (B, K, d, d), and where no eigenvalue repeats, (B,).

    Args:
        points: in float64; gradients reach them through the axes.
        close: which eigenvalues count as equal, relative to the largest, (B, 1).
        drawn: normal numbers (B, K, d, d), which choose signs, and a basis where eigenvalues repeat.
        signs: list all choices of signs instead, 2^d for each draw, or half of them without reflections.
        reflects: whether axes of determinant -1 count too.
    """
    with torch.no_grad():
        spaces = eigenspaces(points.mT @ points, close, _solver(points))
    vectors = spaces.vectors.unsqueeze(1)
    if needs_gradient(points):
        vectors = with_gradient(vectors, points.mT @ points, spaces.space)
    # noise that is projected on a space of several dimensions gives a basis of it, as a function of the space alone
    projected = Eigenspaces(vectors, spaces.space.unsqueeze(1)).project(drawn)
    axes = gram_schmidt(torch.nn.functional.normalize(projected, dim=-2), drawn)
    axes = _with_signs(axes) if signs else axes
    if not reflects:
        axes = _proper(axes)[:, :: 2 if signs else 1]
    return axes, spaces.simple()


def closeness(points: Tensor, centroid: Tensor | None, dtype: torch.dtype) -> Tensor:
    """What counts as equal for points (B, m, d), relative to their size: (B, 1); more where centring lost digits."""
    close = torch.full((points.shape[0], 1), CLOSE[dtype], dtype=torch.float64, device=points.device)
    if centroid is None:
        return close
    size = torch.linalg.vector_norm(points, dim=-1).amax(1, keepdim=True)
    away = torch.linalg.vector_norm(centroid.double(), dim=-1, keepdim=True)
    return torch.maximum(close, 8 * torch.finfo(dtype).eps * away / size.clamp(min=torch.finfo(size.dtype).tiny))


def _solver(points: Tensor) -> Callable[[Tensor], tuple[Tensor, Tensor]]:
    """What finds the principal axes: on a GPU one that no host waits for, on a CPU the fastest."""
    waits = points.device.type != "cpu" and points.shape[-1] <= LARGEST
    return jacobi if waits else torch.linalg.eigh


def _with_signs(axes: Tensor) -> Tensor:
    """The axes (B, 1, d, d) with every choice of signs for the columns, (B, 2^d, d, d); the last sign runs fastest."""
    d = axes.shape[-1]
    places = torch.arange(d - 1, -1, -1, device=axes.device)
    minus = torch.arange(2**d, device=axes.device).unsqueeze(-1) >> places & 1
    return axes * (1 - 2 * minus).to(axes.dtype).unsqueeze(-2)


def _proper(axes: Tensor) -> Tensor:
    """The axes with the last column turned so that the determinant is 1."""
    return torch.cat([axes[..., :-1], axes[..., -1:] * determinant_sign(axes)], -1)
