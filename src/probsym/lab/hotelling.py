"""Whether two samples of vectors have the same mean: Hotelling's test."""

from __future__ import annotations

import torch
from scipy import stats
from torch import Tensor


def hotelling(x: Tensor, y: Tensor, rounding: float = 1e-6) -> Tensor:
    """The p-values of Hotelling's two-sample test for x (pairs, m, d) and y (pairs, k, d), in float64.

    Directions in which the pooled samples do not vary, up to `rounding` relative to their size, are left out of the
    statistic: there the means are equal or not, and if they differ by more than that, the p-value is 0. So samples
    without any spread, of deterministic models, are compared exactly.

    >>> generator = torch.Generator().manual_seed(0)
    >>> x, y = torch.randn(2, 3, 200, 4, generator=generator)
    >>> bool((hotelling(x, y) > 0.01).all()), bool((hotelling(x, y + 1.0) < 1e-6).all())
    (True, True)
    """
    x, y = x.double().cpu(), y.double().cpu()
    m, k = x.shape[1], y.shape[1]
    means = x.mean(1), y.mean(1)
    difference = means[0] - means[1]
    left = [one - mean.unsqueeze(1) for one, mean in zip((x, y), means, strict=True)]
    covariance = sum(one.mT @ one for one in left) / max(m + k - 2, 1)
    size = torch.maximum(x.abs().amax((1, 2)), y.abs().amax((1, 2))).clamp_min(torch.finfo(torch.float64).tiny)
    values, vectors = torch.linalg.eigh(covariance)
    varies = values > (rounding * size).square().unsqueeze(-1)
    along = (vectors.mT @ difference.unsqueeze(-1)).squeeze(-1)
    apart = torch.where(varies, 0, along).norm(dim=-1) > 10 * rounding * size
    squared = torch.where(varies, along.square() / torch.where(varies, values, 1), 0).sum(-1) * (m * k / (m + k))
    rank = varies.sum(-1)
    freedom = (m + k - 1 - rank).clamp_min(1)
    statistic = squared * freedom / (rank.clamp_min(1) * max(m + k - 2, 1))
    found = torch.from_numpy(stats.f.sf(statistic.numpy(), rank.clamp_min(1).numpy(), freedom.numpy()))
    return torch.where(apart, 0.0, torch.where(rank > 0, found, 1.0))
