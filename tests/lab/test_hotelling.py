"""Hotelling's test against the textbook, one pair at a time, and its law."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from probsym.lab.hotelling import compare, joined, moments


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def hotelling(x: Tensor, y: Tensor) -> Tensor:
    return compare(moments(x), moments(y))


def literal(x: np.ndarray, y: np.ndarray) -> float:
    m, k, d = len(x), len(y), x.shape[1]
    pooled = ((m - 1) * np.cov(x.T).reshape(d, d) + (k - 1) * np.cov(y.T).reshape(d, d)) / (m + k - 2)
    difference = x.mean(0) - y.mean(0)
    squared = m * k / (m + k) * difference @ np.linalg.solve(pooled, difference)
    return float(stats.f.sf(squared * (m + k - 1 - d) / ((m + k - 2) * d), d, m + k - 1 - d))


@pytest.mark.parametrize(("m", "k", "d"), [(20, 20, 3), (15, 40, 4), (8, 8, 10), (30, 5, 1), (3, 3, 2)])
def test_p_values_are_those_of_the_textbook(m: int, k: int, d: int) -> None:
    mix = normal(d, d, seed=9)
    x, y = normal(12, m, d, seed=1) @ mix, normal(12, k, d, seed=2) @ mix + torch.linspace(0, 1, 12).view(-1, 1, 1)
    wanted = [literal(first.numpy(), second.numpy()) for first, second in zip(x, y, strict=True)]
    p_values = hotelling(x, y)
    assert p_values.dtype == torch.float64
    np.testing.assert_allclose(p_values.numpy(), wanted, rtol=1e-7, atol=1e-14)


def test_one_dimension_is_students_test() -> None:
    x, y = normal(5, 10, 1, seed=1), normal(5, 14, 1, seed=2) + 0.5
    wanted = stats.ttest_ind(x.squeeze(-1).numpy(), y.squeeze(-1).numpy(), axis=1).pvalue
    np.testing.assert_allclose(hotelling(x, y).numpy(), wanted, rtol=1e-9)


@pytest.mark.parametrize("d", [1, 4, 10])
def test_p_values_are_uniform_where_the_means_agree(d: int) -> None:
    p_values = hotelling(normal(3000, 30, d, seed=1), normal(3000, 20, d, seed=2)).numpy()
    assert stats.kstest(p_values, "uniform").pvalue > 0.001


def test_float32_outputs_are_tested_alike() -> None:
    x, y = normal(50, 30, 5, seed=1).tanh(), normal(50, 30, 5, seed=2).tanh()
    torch.testing.assert_close(hotelling(x.float(), y.float()), hotelling(x, y), rtol=1e-4, atol=1e-6)


def test_shifts_are_found() -> None:
    x, y = normal(200, 100, 4, seed=1), normal(200, 100, 4, seed=2)
    assert (hotelling(x, y + 0.5) < 1e-3).float().mean() > 0.95
    assert (hotelling(x, y + 3) < 1e-12).all()


@pytest.mark.parametrize("m", [1, 2, 50])
def test_samples_without_spread_are_compared_exactly(m: int) -> None:
    same = torch.full((3, m, 4), 0.7, dtype=torch.float64)
    other = same + torch.tensor([0.0, 1e-8, 1e-3], dtype=torch.float64).view(-1, 1, 1)
    assert hotelling(same, other).tolist() == [1.0, 1.0, 0.0]
    assert hotelling(torch.zeros(1, m, 2), torch.zeros(1, m, 2)).tolist() == [1.0]


def test_single_draws_of_different_sizes_are_no_failure() -> None:
    p_values = hotelling(torch.ones(2, 1, 3), torch.ones(2, 7, 3) * torch.tensor([1.0, 2.0]).view(-1, 1, 1))
    assert p_values.tolist() == [1.0, 0.0]


def test_directions_without_spread_are_left_out_or_decide() -> None:
    x, y = normal(40, 30, 3, seed=1), normal(40, 30, 3, seed=2)
    flat = torch.nn.functional.pad
    turn = torch.linalg.qr(normal(5, 5, seed=3)).Q
    wanted = hotelling(x, y)
    torch.testing.assert_close(hotelling(flat(x, (0, 2)) @ turn, flat(y, (0, 2)) @ turn), wanted, rtol=1e-6, atol=1e-9)
    assert not hotelling(flat(x, (0, 2)) @ turn, flat(y, (0, 2), value=0.1) @ turn).any()


def test_units_do_not_matter() -> None:
    x, y = normal(20, 30, 3, seed=1), normal(20, 30, 3, seed=2)
    torch.testing.assert_close(hotelling(1e6 * x, 1e6 * y), hotelling(x, y))
    torch.testing.assert_close(hotelling(1e-6 * x, 1e-6 * y), hotelling(x, y))


def test_moments_in_parts_are_those_of_the_whole() -> None:
    x, y = normal(9, 30, 3, seed=1), normal(9, 30, 3, seed=2) + 0.3
    known = joined([moments(x[:4]), moments(x[4:]), moments(y)])
    rows = torch.arange(9)
    torch.testing.assert_close(compare(known.take(rows), known.take(9 + rows)), hotelling(x, y))
