"""Orders against products with permutation matrices."""

import pytest
import torch

from probsym.errors import DtypeError, ShapeError
from probsym.groups import S
from probsym.ops import Order

DTYPES = [torch.float64, torch.float32]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(masked, draws=3):
    mask = torch.tensor([[[1, 0, 1, 1]], [[0, 1, 0, 1]]], dtype=torch.bool) if masked else None
    shape = (2, draws)
    index = S().haar(shape, size=4, mask=None if mask is None else mask.expand(*shape, 4), generator=seeded())
    return Order(index, mask)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("shared", [False, True])
def test_sort_and_unsort_are_matrix_products(masked, shared, dtype):
    order = make(masked)
    p = S().matrix(order.index, dtype=dtype)
    if masked:
        p = p * order.mask.unsqueeze(-1)
    x, a = (torch.randn(2, 1 if shared else 3, 4, c, dtype=dtype, generator=seeded(c)) for c in (2, 4))
    close = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(order.sort(x, -2), p.mT @ x, **close)
    torch.testing.assert_close(order.unsort(x, -2), p @ x, **close)
    torch.testing.assert_close(order.sort(a, (-2, -1)), p.mT @ a @ p, **close)
    torch.testing.assert_close(order.unsort(a, (2, 3)), p @ a @ p.mT, **close)


def test_garbage_does_not_pass():
    order = make(True)
    x = torch.where(order.mask, 1.0, torch.nan).expand(2, 3, 4)
    assert torch.equal(order.sort(x), order.sorted_mask().expand(2, 3, 4).float())
    y = torch.where(order.sorted_mask(), 1.0, torch.inf).expand(2, 3, 4)
    assert torch.equal(order.unsort(y), order.mask.expand(2, 3, 4).float())


def test_there_and_back():
    order, x = make(False), torch.randn(2, 3, 4)
    assert torch.equal(order.unsort(order.sort(x)), x)
    assert torch.equal(order.sort(order.unsort(x)), x)


def test_sorted_mask_counts():
    assert make(True).sorted_mask().tolist() == [[[True, True, True, False]], [[True, True, False, False]]]
    assert make(False).sorted_mask() is None


def test_one_mask_for_all():
    order = Order(torch.tensor([[[2, 0, 1], [0, 2, 1]]]), torch.tensor([True, False, True]))
    assert order.sort(torch.tensor([[[1.0, 2.0, 3.0]]])).tolist() == [[[3, 1, 0], [1, 3, 0]]]


@pytest.mark.parametrize("own", [False, True])
def test_part(own):
    order = make(True, draws=5)
    order = Order(order.index, order.mask.expand(2, 5, 4)) if own else order
    part, x = order.chunk(1, 4), torch.randn(2, 5, 4)
    assert torch.equal(part.sort(x[:, 1:4]), order.sort(x)[:, 1:4])
    assert part.sorted_mask().expand(2, 3, 4).shape == (2, 3, 4)


def test_gradient_is_the_transpose():
    order, x = make(True), torch.randn(2, 1, 4, 2, requires_grad=True)
    y = torch.randn(2, 3, 4, 2)
    (gradient,) = torch.autograd.grad((order.sort(x, -2) * y).sum(), x)
    torch.testing.assert_close(gradient, order.unsort(y, -2).sum(1, keepdim=True))


@pytest.mark.parametrize(
    ("index", "x", "axis", "error", "message"),
    [
        (torch.zeros(2, 3), torch.zeros(2, 3), -1, DtypeError, r"int64 index \(got torch.float32\)"),
        (torch.zeros(2, 3).long(), torch.zeros(2, 4), -1, ShapeError, r"size 3 on axis 1 \(got 4\)"),
        (torch.zeros(2, 3).long(), torch.zeros(2, 3), 0, ShapeError, r"follow 1 batch axes in 2 axes \(got 0\)"),
        (torch.zeros(2, 3).long(), torch.zeros(2, 3, 3), (1, -2), ShapeError, r"different axes \(got \(1, -2\)\)"),
        (torch.zeros(2, 3).long(), torch.zeros(5, 3), -1, ShapeError, r"broadcast to \(2,\) \(got \(5,\)\)"),
    ],
)
def test_refuses(index, x, axis, error, message):
    for move in (Order(index).sort, Order(index).unsort):
        with pytest.raises(error, match=message):
            move(x, axis)
