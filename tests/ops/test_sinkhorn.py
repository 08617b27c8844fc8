import pytest
import torch
from torch import Tensor

from probsym.ops import sinkhorn


def line(n: int, rows: int = 3) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    points = torch.randn(rows, n, generator=generator, dtype=torch.float64).sort(1, descending=True).values
    return points, torch.tensor([0.3, 5.0, 400.0][:rows], dtype=torch.float64)


def literal(
    points: Tensor, rate: Tensor, real: Tensor | None, iterations: int, symmetric: bool
) -> tuple[Tensor, Tensor]:
    kernel = torch.exp(-rate.view(-1, 1, 1) * (points.unsqueeze(2) - points.unsqueeze(1)).abs())
    if real is not None:
        together = real.unsqueeze(2) & real.unsqueeze(1)
        kernel = torch.where(together, kernel, torch.eye(points.shape[1], dtype=points.dtype))
    a, b = torch.ones_like(points), torch.ones_like(points)
    for _ in range(iterations):
        if symmetric:
            a = b = torch.sqrt(b / (kernel @ b.unsqueeze(2)).squeeze(2))
        else:
            a = 1 / (kernel @ b.unsqueeze(2)).squeeze(2)
            b = 1 / (kernel.mT @ a.unsqueeze(2)).squeeze(2)
    return a, b


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("iterations", [0, 1, 20])
@pytest.mark.parametrize("n", [1, 2, 64, 130])
def test_scalings_and_gradients_are_those_of_dense_normalisation(
    n: int, iterations: int, symmetric: bool, masked: bool
) -> None:
    points, rate = line(n)
    real = torch.arange(n) < torch.tensor([[n], [max(n // 2, 1)], [1]]) if masked else None
    inputs = [(points.clone().requires_grad_(), rate.clone().requires_grad_()) for _ in range(2)]
    scalings = sinkhorn(*inputs[0], real, iterations=iterations, symmetric=symmetric)
    wanted = literal(*inputs[1], real, iterations, symmetric)
    for scaling, reference in zip(scalings, wanted, strict=True):
        assert torch.allclose(scaling, reference, rtol=1e-10)
    if iterations == 0 or n == 1:
        return
    weights = torch.randn(2, *points.shape, dtype=points.dtype)
    for (a, b), (points_in, rate_in) in zip((scalings, wanted), inputs, strict=True):
        (a * weights[0] + b * weights[1]).sum().backward()
        assert points_in.grad is not None
        assert rate_in.grad is not None
    for leaf, twin in zip(*inputs, strict=True):
        assert (leaf.grad - twin.grad).abs().max() <= 1e-9 * twin.grad.abs().max() + 1e-12


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradcheck(symmetric: bool) -> None:
    points, rate = line(6)
    inputs = (points.requires_grad_(), rate[:3].clone().requires_grad_())
    assert torch.autograd.gradcheck(lambda z, k: sinkhorn(z, k, iterations=4, symmetric=symmetric), inputs)


def test_columns_sum_to_one_exactly_and_rows_nearly() -> None:
    points, rate = line(50)
    a, b = sinkhorn(points, rate, iterations=200)
    kernel = torch.exp(-rate.view(-1, 1, 1) * (points.unsqueeze(2) - points.unsqueeze(1)).abs())
    matrix = a.unsqueeze(2) * kernel * b.unsqueeze(1)
    assert torch.allclose(matrix.sum(1), torch.ones_like(points), atol=1e-14)
    assert torch.allclose(matrix.sum(2), torch.ones_like(points), atol=2e-2)


def test_inputs_are_left_alone() -> None:
    points, rate = line(10)
    copies = points.clone(), rate.clone()
    a, b = sinkhorn(points.requires_grad_(), rate)
    (a.sum() + b.sum()).backward()
    assert torch.equal(points, copies[0])
    assert torch.equal(rate, copies[1])
