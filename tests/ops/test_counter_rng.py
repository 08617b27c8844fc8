"""Numbers by where they stand: uniform, independent, and the same in every call."""

import numpy as np
import pytest
import torch
from scipy import stats

from probsym.ops.counter_rng import counter_normal, counter_uniform

DTYPES = [torch.float64, torch.float32]
NEVER = 1e-4
IDS = torch.arange(2000)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", [0, 1, 2**40 + 7, -3])
def test_uniform(seed, dtype):
    u = counter_uniform(seed, 0, IDS, 0, 5, (4, 3), dtype)
    assert u.shape == (2000, 5, 4, 3)
    assert u.dtype == dtype
    assert u.min() >= 0
    assert u.max() < 1
    assert stats.kstest(u.flatten().double().numpy(), "uniform").pvalue > NEVER
    assert u.unique().numel() > 0.99 * u.numel()


@pytest.mark.parametrize("dtype", DTYPES)
def test_normal(dtype):
    z = counter_normal(0, 3, IDS, 0, 5, (4, 3), dtype)
    assert z.dtype == dtype
    assert z.isfinite().all()
    assert stats.kstest(z.flatten().double().numpy(), "norm").pvalue > NEVER


@pytest.mark.parametrize("counter", [counter_uniform, counter_normal])
def test_neighbours_are_not_correlated(counter):
    z = counter(0, 0, IDS, 0, 20, (3,), torch.float64)
    streams = torch.stack([counter(0, stream, IDS, 0, 20, (3,), torch.float64) for stream in (1, 2)])
    seeds = torch.stack([counter(seed, 0, IDS, 0, 20, (3,), torch.float64) for seed in (1, 2)])
    pairs = [
        (z[1:], z[:-1]),
        (z[:, 1:], z[:, :-1]),
        (z[..., 1:], z[..., :-1]),
        (z[2:, :-1], z[:-2, 1:]),
        *((z, other) for other in (*streams, *seeds)),
    ]
    for a, b in pairs:
        assert abs(stats.pearsonr(a.flatten(), b.flatten()).statistic) < 5 / a.numel() ** 0.5
        squares = stats.pearsonr((a - a.mean()).square().flatten(), (b - b.mean()).square().flatten())
        assert abs(squares.statistic) < 5 / a.numel() ** 0.5


@pytest.mark.parametrize(("dtype", "bits"), [(torch.float32, 24), (torch.float64, 53)])
def test_every_bit_is_fair_and_independent_of_the_others(dtype, bits):
    u = counter_uniform(5, 1, IDS, 0, 5, (2,), dtype).flatten().double().numpy()
    table = ((u * 2.0**bits).astype(np.int64)[:, None] >> np.arange(bits)) & 1
    deviation = np.abs(table.mean(0) - 0.5) / (0.5 / len(u) ** 0.5)
    assert deviation.max() < 5
    off = np.corrcoef(table.T) - np.eye(bits)
    assert np.abs(off).max() < 6 / len(u) ** 0.5


@pytest.mark.parametrize("counter", [counter_uniform, counter_normal])
@pytest.mark.parametrize("dtype", DTYPES)
def test_same_place_same_number(counter, dtype):
    ids = torch.tensor([7, 3, 10**12, -5])
    whole = counter(0, 2, ids, 0, 6, (3, 2), dtype)
    assert torch.equal(whole[[1, 3], 2:5], counter(0, 2, ids[[1, 3]], 2, 3, (3, 2), dtype))
    assert torch.equal(whole, counter(0, 2, ids.view(4), 0, 6, (3, 2), dtype))
    for other in (counter(1, 2, ids, 0, 6, (3, 2), dtype), counter(0, 3, ids, 0, 6, (3, 2), dtype)):
        assert not torch.equal(whole, other)


def test_ids_of_other_dtypes_count_the_same():
    numbers = counter_uniform(0, 0, torch.tensor([3, 200]), 0, 2, (2,), torch.float32)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(
            numbers, counter_uniform(0, 0, torch.tensor([3, 200], dtype=dtype), 0, 2, (2,), torch.float32)
        )


def test_places_do_not_collide():
    """Example, draw and entry are not interchangeable: (1, 0, 0), (0, 1, 0) and (0, 0, 1) differ, as all do."""
    u = counter_uniform(0, 0, torch.arange(50), 0, 50, (50,), torch.float64)
    assert u.unique().numel() == u.numel()
