"""All orders of items whose ranks tie."""

import itertools

import pytest
import torch

from probsym.groups import S
from probsym.samplers.tied_orders import list_orders


def orders_of(classes, mask=None, draws=3, seed=0):
    ties = torch.rand(len(classes), draws, classes.shape[1], generator=torch.Generator().manual_seed(seed))
    real = None if mask is None else mask.unsqueeze(1)
    return S().project(-classes.double().unsqueeze(1), noise=ties.double(), mask=real)


def brute_force(classes, mask):
    real = [i for i in range(len(classes)) if mask is None or mask[i]]
    rest = [i for i in range(len(classes)) if i not in real]
    for order in itertools.permutations(real):
        if all(classes[a] <= classes[b] for a, b in itertools.pairwise(order)):
            yield (*order, *rest)


CLASSES = torch.tensor([[0, 0, 1, 1, 1], [4, 3, 2, 1, 0], [0, 0, 0, 0, 0], [1, 0, 1, 0, 1]])
HOLES = torch.tensor([[1, 1, 0, 1, 0], [0, 1, 1, 1, 1], [0, 0, 0, 0, 0], [1, 1, 1, 0, 1]], dtype=torch.bool)


@pytest.mark.parametrize("mask", [None, HOLES])
def test_every_order_once_and_weights_that_sum_to_one(mask):
    orders, weights, exact = list_orders(orders_of(CLASSES, mask), CLASSES, mask, 1000)
    assert exact.all()
    assert torch.allclose(weights.double().sum(1), torch.ones(4).double())
    for b in range(4):
        counted = [tuple(order) for order, w in zip(orders[b].tolist(), weights[b], strict=True) if w > 0]
        wanted = set(brute_force(CLASSES[b].tolist(), None if mask is None else mask[b].tolist()))
        assert len(counted) == len(wanted)
        assert set(counted) == wanted
        assert weights[b][weights[b] > 0].unique().numel() == 1


def test_no_weights_where_all_have_equally_many():
    classes = torch.tensor([[0, 0, 1], [2, 1, 1]])
    orders, weights, exact = list_orders(orders_of(classes), classes, None, 10)
    assert orders.shape == (2, 2, 3)
    assert weights is None
    assert exact.tolist() == [True, True]


@pytest.mark.parametrize("limit", [5, 6])
def test_beyond_the_limit_the_drawn_ones_stay(limit):
    classes = torch.tensor([[0, 0, 0], [0, 1, 2]])
    drawn = orders_of(classes, draws=4)
    orders, weights, exact = list_orders(drawn, classes, None, limit)
    assert exact.tolist() == [limit == 6, True]
    assert weights[1].count_nonzero() == 1
    if limit == 5:
        assert torch.equal(orders[0], drawn[0])
        assert torch.allclose(weights[0].double(), torch.full((4,), 0.25).double())


def test_weights_do_not_lose_precision():
    """Three equal weights and their sum must give the mean in float64 too."""
    classes = torch.tensor([[0, 0, 0, 1], [0, 1, 2, 3]])
    _, weights, _ = list_orders(orders_of(classes), classes, None, 10)
    values = torch.ones(6, dtype=torch.float64)
    assert float((weights[0] * values).sum() / weights[0].sum()) == pytest.approx(1, abs=1e-14)


def test_empty_batch():
    orders, _, exact = list_orders(
        torch.zeros(0, 2, 3, dtype=torch.long), torch.zeros(0, 3, dtype=torch.long), None, 10
    )
    assert orders.shape[0] == exact.shape[0] == 0
