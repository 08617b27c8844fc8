"""Whether samples look uniform on a group: small statistics that the Haar tests share."""

import torch
from scipy import stats

SEED = 20240229
NEVER = 1e-4  # p-values of a right sampler fall below this once in ten thousand seeds; the seeds are fixed
STANDARD_ERRORS = 5.0


def seeded(seed=SEED):
    return torch.Generator().manual_seed(seed)


def deviation(samples, expected):
    """Largest distance of a mean over the first axis from what is expected, in standard errors."""
    error = samples.std(0) / samples.shape[0] ** 0.5
    return ((samples.mean(0) - expected).abs() / error).max().item()


def first_moments(q):
    return deviation(q, torch.zeros_like(q[0]))


def second_moments(q, expected):
    """`expected` is E Q_ij Q_kl, (d, d, d, d)."""
    return deviation(torch.einsum("nij,nkl->nijkl", q, q), expected)


def orthogonal_second_moments(d):
    """E Q_ij Q_kl = delta_ik delta_jl / d, for O(d), and for SO(d) from d = 3."""
    eye = torch.eye(d, dtype=torch.float64)
    return torch.einsum("ik,jl->ijkl", eye, eye) / d


def share_deviation(truth, expected=0.5):
    """How far the share of True is from `expected`, in standard errors of a binomial."""
    shares = truth.double().mean(0)
    return ((shares - expected).abs() / (expected * (1 - expected) / truth.shape[0]) ** 0.5).max().item()


def statistics(q):
    """Numbers whose law depends on the law of Q: entries, trace, and products of entries."""
    return {
        "corner": q[:, 0, 0],
        "off diagonal": q[:, 0, 1],
        "last corner": q[:, -1, -1],
        "trace": q.diagonal(dim1=-2, dim2=-1).sum(-1),
        "trace of the square": (q @ q).diagonal(dim1=-2, dim2=-1).sum(-1),
        "determinant of a minor": q[:, 0, 0] * q[:, 1, 1] - q[:, 0, 1] * q[:, 1, 0],
    }


def same_law(first, second):
    """The smallest Kolmogorov-Smirnov p-value over the statistics of two independent samples of matrices."""
    pairs = zip(statistics(first).values(), statistics(second).values(), strict=True)
    # rounding splits the atoms of a determinant that is always 1
    return min(stats.ks_2samp(a.numpy().round(9), b.numpy().round(9)).pvalue for a, b in pairs)


def counts(samples, elements):
    """How often each of the elements occurs among the samples; both (number, *shape)."""
    same = samples.flatten(1).unsqueeze(1) == elements.flatten(1).unsqueeze(0)
    return same.all(-1).sum(0)


def uniform(samples, elements):
    """The chi-square p-value that samples are uniform over the elements listed; 0 where one is none of them."""
    observed = counts(samples, elements)
    if observed.sum() != samples.shape[0]:
        return 0.0
    return stats.chisquare(observed.numpy()).pvalue
