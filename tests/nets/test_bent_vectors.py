import pytest
import torch
from torch.testing import assert_close

from probsym.nets import row_blocks
from probsym.nets.bent_vectors import Bent, gates, inner


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def literally(share, q, k, floor, direction_floor, mean, scale, bias):
    length = q.square().sum(0).sqrt()
    a = ((length - mean) * scale + bias) * length / (length.square() + floor)
    along = (a * (q * k).sum(0)).clamp_max(0)
    bent = a * q - 0.8 * along / (k.square().sum(0) + direction_floor) * k
    return bent if share is None else share * bent


@pytest.mark.parametrize("numbers", [1, 1 << 16])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
def test_agrees_with_the_formula_and_its_derivatives(weighted, shared, numbers, monkeypatch):
    """First derivatives by formula, in one block or many, and second ones."""
    monkeypatch.setattr(row_blocks, "BLOCK", numbers)
    share = torch.tensor([1.0, 0.5, 0.0]).double().view(1, 3, 1).expand(4, 3, 1) if weighted else None
    floors = normal(2, 4, 1, 1, seed=1).abs()
    vectors = normal(3, 4, 3, 5), normal(3, 4, 3, 1 if shared else 5, seed=2)
    results = []
    for function in (Bent.apply, literally):
        leaves = [tensor.clone().requires_grad_() for tensor in (*vectors, *normal(3, 5, seed=3).unbind())]
        out = function(share, *leaves[:2], *floors, *leaves[2:])
        once = torch.autograd.grad(out.sin().sum(), leaves, retain_graph=True)
        gradients = torch.autograd.grad(out.sin().sum(), leaves, create_graph=True)
        twice = torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), leaves)
        results.append([out, *once, *gradients, *twice])
    assert_close(*results, rtol=1e-9, atol=1e-9)


def test_vectors_of_zero_have_finite_gradients():
    q = torch.zeros(3, 2, 4, 5, requires_grad=True)
    k = torch.zeros(3, 2, 4, 5, requires_grad=True)
    floor, ones = torch.full((2, 1, 1), 1e-8), torch.ones(5)
    out = Bent.apply(None, q, k, floor, floor, ones, ones, ones)
    out.sum().backward()
    assert torch.equal(out, torch.zeros_like(out))
    assert torch.isfinite(q.grad).all()
    assert torch.isfinite(k.grad).all()


def test_inner_products():
    x, y = normal(3, 4, 5), normal(3, 4, 5, seed=1)
    assert_close(inner(x, y), (x * y).sum(0))
    assert_close(inner(x.unbind(), y.unbind()), (x * y).sum(0))


def test_a_vector_along_its_direction_is_not_bent():
    q, floor, ones = normal(3, 4, 3, 5), torch.zeros(4, 1, 1).double(), torch.ones(5).double()
    _, b, *_ = gates(q, q, floor, floor, 0 * ones, ones, ones)
    assert (b == 0).all()
    _, b, *_ = gates(q, -q, floor, floor, 0 * ones, ones, ones)
    assert (b > 0).all()
