import pytest
import torch
from torch.testing import assert_close

from probsym.nets import row_blocks
from probsym.nets.length_moments import edge_moments, point_moments


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def literally(q, real):
    length = q.square().sum(0).sqrt()[real]
    mean = length.mean(0)
    return mean, (length - mean).square().sum(0)


def derivatives(moments, leaves):
    value = sum(moment.sin().sum() for moment in moments)
    once = torch.autograd.grad(value, leaves, retain_graph=True)
    gradients = torch.autograd.grad(value, leaves, create_graph=True)
    return [*moments, *once, *torch.autograd.grad(sum(gradient.square().sum() for gradient in gradients), leaves)]


@pytest.mark.parametrize("numbers", [1, 1 << 16])
@pytest.mark.parametrize("masked", [True, False])
def test_moments_of_points(masked, numbers, monkeypatch):
    monkeypatch.setattr(row_blocks, "BLOCK", numbers)
    real = torch.rand(4, 6, generator=torch.Generator().manual_seed(1)) < 0.6 if masked else torch.ones(4, 6).bool()
    if masked:
        real[1] = False
    q, twin = (normal(3, 4, 6, 2).requires_grad_() for _ in range(2))
    count, *moments = point_moments(q, real if masked else None)
    assert count == real.sum()
    assert_close(derivatives(moments, [q]), derivatives(literally(twin, real), [twin]))


@pytest.mark.parametrize("numbers", [1, 1 << 16])
def test_moments_of_edges(numbers, monkeypatch):
    """The last neighbour of some points is not an edge."""
    monkeypatch.setattr(row_blocks, "BLOCK", numbers)
    places = torch.randint(6, (3, 4, 6), generator=torch.Generator().manual_seed(1))
    real = torch.ones(3, 4, 6).bool()
    real[2, 1:, ::2] = False
    leaves, twins = ([normal(3, 4, 6, 2, seed=seed).requires_grad_() for seed in (0, 1)] for _ in range(2))
    count, *moments = edge_moments(row_blocks.Edges(places, real).blocks(2), *leaves)
    assert count == real.sum()
    q = twins[0][:, torch.arange(4).view(4, 1), places] + twins[1].unsqueeze(1)
    assert_close(derivatives(moments, leaves), derivatives(literally(q, real), twins))
