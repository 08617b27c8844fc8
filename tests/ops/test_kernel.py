import pytest
import torch

from probsym.ops.kernel import ExponentialKernel


def line(n: int, rows: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(n)
    points = torch.randn(n, rows, generator=generator, dtype=torch.float64).sort(0, descending=True).values.to(dtype)
    rate = torch.logspace(-1, 3, rows, dtype=torch.float64).to(dtype)
    return points, rate, torch.rand(n, rows, generator=generator, dtype=torch.float64).to(dtype)


def dense(points: torch.Tensor, rate: torch.Tensor) -> torch.Tensor:
    points = points.double().t()
    return torch.exp(-rate.double().view(-1, 1, 1) * (points.unsqueeze(2) - points.unsqueeze(1)).abs())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 64, 65, 188, 444])
def test_triangles_are_those_of_the_dense_kernel(n: int, dtype: torch.dtype) -> None:
    points, rate, weights = line(n, 6, dtype)
    kernel = ExponentialKernel(points, rate)
    for _ in range(3):  # the workspace is reused
        weights = weights.flip(0)
        lower, upper = kernel.triangles(weights)
        for product, part in (
            (lower, torch.tril(dense(points, rate), -1)),
            (upper, torch.triu(dense(points, rate), 1)),
        ):
            wanted = (part @ weights.double().t().unsqueeze(2)).squeeze(2).t()
            # row by row: small sums must be right relative to themselves
            assert ((product.double() - wanted).abs() <= 1e4 * torch.finfo(dtype).eps * wanted + 1e-30).all()


def test_padding_is_cut_off() -> None:
    points, rate, weights = line(9, 3, torch.float64)
    real = torch.arange(9).unsqueeze(1) < torch.tensor([9, 4, 0])
    lower, upper = ExponentialKernel(points, rate, real).triangles(weights)
    whole = dense(points, rate) * (real.t().unsqueeze(1) & real.t().unsqueeze(2))
    for product, part in ((lower, torch.tril(whole, -1)), (upper, torch.triu(whole, 1))):
        assert torch.allclose(product, (part @ weights.t().unsqueeze(2)).squeeze(2).t())
