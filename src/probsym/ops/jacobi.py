"""Eigenvalues and eigenvectors of small symmetric matrices, with nothing to wait for on a GPU."""

import math

import torch
from torch import Tensor

from probsym.errors import DtypeError, ShapeError

LARGEST = 8
"""The largest d for which the number of sweeps has been measured."""
MORE_SWEEPS = 3
"""Sweeps beyond d. The worst of 800,000 matrices of many kinds needed one, in float64."""


@torch.no_grad()
def jacobi(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (*batch, d), ascending, and eigenvectors (*batch, d, d), columns, of symmetric matrices; d up to 8.

    They agree with `torch.linalg.eigh` to rounding, up to signs and the choice of basis where eigenvalues repeat. On a
    GPU, `eigh` makes the host wait; this is a fixed sequence of tensor operations, which can be captured as a CUDA
    graph. Without gradient.

    A sweep turns every pair of columns p, q once, by the angle that makes `a_pq` zero: `tan 2t = 2 a_pq / (a_qq -
    a_pp)`, which does not depend on scale. Entries below rounding are left: rotating by them would mix repeated
    eigenvalues for ever.

    >>> values, vectors = jacobi(torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64))
    >>> values.round(decimals=9).tolist(), vectors.abs().round(decimals=4).tolist()
    ([1.0, 3.0], [[0.7071, 0.7071], [0.7071, 0.7071]])
    """
    _check(matrix)
    batch, d = matrix.shape[:-2], matrix.shape[-1]
    even = d + d % 2  # columns turn in pairs; one of zeros is never turned
    entries = matrix.reshape(math.prod(batch), d, d).movedim(0, -1)  # along the batch memory is read in one go
    entries = torch.nn.functional.pad(entries, (0, 0, 0, even - d, 0, even - d))
    least = torch.finfo(matrix.dtype).eps * entries.abs().amax((0, 1))
    start = torch.eye(even, dtype=matrix.dtype, device=matrix.device).unsqueeze(-1).expand_as(entries)
    columns = torch.cat([entries, start], 1)
    for _ in range((d + MORE_SWEEPS) * (even - 1)):
        columns = _turned(columns, least)
    values, order = columns[:d, :d].diagonal().sort(dim=-1, stable=True)
    vectors = columns[:d, even : even + d].permute(2, 1, 0)
    vectors = vectors.gather(-1, order.unsqueeze(1).expand_as(vectors))
    return values.reshape(*batch, d), vectors.reshape(*batch, d, d)


def _turned(columns: Tensor, least: Tensor) -> Tensor:
    """One turn of each column of the first half with one of the second, and then other pairs in their places.

    The columns (n, 2n, rows) of the matrix have those of the eigenvectors behind them. After n - 1 times every pair has
    met once, and all columns are where they were.
    """
    n, half = len(columns), len(columns) // 2
    p, q = columns[:, :n].diagonal().T.split(half)
    pq = columns[half:, :half].diagonal().T
    angle = torch.where(pq.abs() <= least, 0, (2 * (pq / (q - p))).atan() / 2)
    cos, sin = angle.cos(), angle.sin()
    columns = torch.cat(_paired(columns[:half], columns[half:], cos.unsqueeze(1), sin.unsqueeze(1), 0))
    return torch.cat([*_paired(columns[:, :half], columns[:, half:n], cos, sin, 1), columns[:, n:]], 1)


def _paired(x: Tensor, y: Tensor, cos: Tensor, sin: Tensor, dim: int) -> list[Tensor]:
    """x and y turned, in slices along `dim` that make new pairs: the first stays, the others go round."""
    x, y = torch.addcmul(cos * x, sin, y, value=-1), torch.addcmul(cos * y, sin, x)
    half = x.shape[dim]
    if half == 1:
        return [x, y]
    first, between, last = x.split([1, half - 2, 1], dim)
    return [first, y.narrow(dim, 0, 1), between, y.narrow(dim, 1, half - 1), last]


def _check(matrix: Tensor) -> None:
    if matrix.dtype not in (torch.float32, torch.float64):
        raise DtypeError(f"Expected matrices in float32 or float64 (got {matrix.dtype})")
    if matrix.dim() < 2 or matrix.shape[-1] != matrix.shape[-2] or not 1 <= matrix.shape[-1] <= LARGEST:
        raise ShapeError(f"Expected matrices (*batch, d, d) with 1 <= d <= {LARGEST} (got {tuple(matrix.shape)})")
