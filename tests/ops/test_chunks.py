import pytest
import torch
from torch import Tensor

from probsym.ops.chunks import chunks, entropy_sums, pair_sums, product

SIZES = [1, 2, 24, 25, 97, 200]


def scaled_line(n: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    points = torch.randn(4, n, generator=generator, dtype=torch.float64).sort(1, descending=True).values
    a, b = torch.rand(2, 4, n, generator=generator, dtype=torch.float64) + 0.1
    return points, torch.tensor([0.1, 1.0, 20.0, 3000.0], dtype=torch.float64), a, b


def places(points: Tensor, rate: Tensor) -> Tensor:
    return (rate.unsqueeze(1) * (points[:, :1] - points)).requires_grad_()


def kernel(place: Tensor) -> Tensor:
    return torch.exp(-(place.unsqueeze(2) - place.unsqueeze(1)).abs())


def close(actual: Tensor, wanted: Tensor) -> bool:
    return bool((actual - wanted).abs().max() <= 1e-10 * wanted.abs().max() + 1e-30)


@pytest.mark.parametrize("n", SIZES)
def test_product_is_that_of_the_dense_kernel(n: int) -> None:
    points, rate, _, _ = scaled_line(n)
    matrix = torch.randn(4, n, 3, dtype=torch.float64)
    assert close(product(points, rate, matrix), kernel(places(points, rate)) @ matrix)


@pytest.mark.parametrize("n", SIZES)
def test_pair_sums_are_the_derivatives_of_the_dense_sum(n: int) -> None:
    points, rate, a, b = scaled_line(n)
    left, right = torch.randn(2, 4, n, 5, dtype=torch.float64)
    a, b, place = a.requires_grad_(), b.requires_grad_(), places(points, rate)
    total = (a.unsqueeze(2) * kernel(place) * b.unsqueeze(1) * (left @ right.mT)).sum()
    wanted = torch.autograd.grad(total, (a, b, place))
    derivatives = pair_sums(
        points, rate, a.detach(), b.detach(), [left[..., :3], left[..., 3:]], [right[..., :3], right[..., 3:]]
    )
    assert all(close(derivative, reference) for derivative, reference in zip(derivatives, wanted, strict=True))


@pytest.mark.parametrize("n", SIZES)
def test_entropy_and_its_derivatives_are_those_of_the_dense_matrix(n: int) -> None:
    points, rate, a, b = scaled_line(n)
    a, b, place = a.requires_grad_(), b.requires_grad_(), places(points, rate)
    log_p = a.log().unsqueeze(2) + b.log().unsqueeze(1) - (place.unsqueeze(2) - place.unsqueeze(1)).abs()
    entropy = -(log_p.exp() * log_p).sum((1, 2))
    wanted = torch.autograd.grad(entropy.sum(), (a, b, place))
    value, derivatives = entropy_sums(points, rate, a.detach(), b.detach(), normalised=False)
    assert close(value, entropy)
    assert all(close(derivative, reference) for derivative, reference in zip(derivatives, wanted, strict=True))


def test_chunks_tile_the_line() -> None:
    points, rate, _, _ = scaled_line(100)
    spans = [chunk.span for chunk in chunks(points, rate, size=30)]
    assert [(span.start, span.stop) for span in spans] == [(0, 30), (30, 60), (60, 90), (90, 100)]
    (whole,) = chunks(points[:, :20], rate)
    assert whole.border is None
    assert whole.outside is None
