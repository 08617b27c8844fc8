"""Whether two samples of vectors have the same mean: Hotelling's test."""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.special import fdtrc
from torch import Tensor


class Moments(NamedTuple):
    """What the test needs of samples (rows, draws, d), in float64."""

    draws: int
    """How many draws each sample has."""
    mean: Tensor
    """(rows, d)."""
    scatter: Tensor
    """Sum of squares about the mean, (rows, d, d)."""
    size: Tensor
    """The largest absolute value, (rows,)."""

    def take(self, index: Tensor) -> Moments:
        """Those of some rows."""
        return Moments(self.draws, self.mean[index], self.scatter[index], self.size[index])


def moments(x: Tensor) -> Moments:
    """The moments of samples (rows, draws, d)."""
    x = x.double()
    mean = x.mean(1)
    off = x - mean.unsqueeze(1)
    return Moments(x.shape[1], mean, off.mT @ off, x.abs().amax((1, 2)))


def joined(parts: list[Moments]) -> Moments:
    """The rows of several, one after the other."""
    _, *columns = zip(*parts, strict=True)
    return Moments(parts[0].draws, *(torch.cat(column) for column in columns))


def compare(x: Moments, y: Moments, rounding: float = 1e-6) -> Tensor:
    """The p-values of Hotelling's two-sample test, row by row, in float64 on the CPU.

    Directions in which the pooled samples do not vary, up to `rounding` relative to their size, are left out of the
    statistic: there the means are equal or not, and if they differ by more than ten times that, the p-value is 0. So
    samples without any spread, of deterministic models, are compared exactly.
    """
    m, k = x.draws, y.draws
    difference = x.mean - y.mean
    covariance = (x.scatter + y.scatter) / max(m + k - 2, 1)
    size = torch.maximum(x.size, y.size).clamp_min(torch.finfo(torch.float64).tiny)
    values, vectors = torch.linalg.eigh(covariance)
    varies = values > (rounding * size).square().unsqueeze(-1)
    along = (vectors.mT @ difference.unsqueeze(-1)).squeeze(-1)
    apart = torch.where(varies, 0, along).norm(dim=-1) > 10 * rounding * size
    squared = torch.where(varies, along.square() / torch.where(varies, values, 1), 0).sum(-1) * (m * k / (m + k))
    rank = varies.sum(-1)
    freedom = (m + k - 1 - rank).clamp_min(1)
    statistic = squared * freedom / (rank.clamp_min(1) * max(m + k - 2, 1))
    p_values = fdtrc(*(tensor.cpu().numpy() for tensor in (rank.clamp_min(1), freedom, statistic)))
    return torch.where(apart.cpu(), 0.0, torch.where(rank.cpu() > 0, torch.from_numpy(p_values), 1.0))
