import pytest
import torch
from torch import Tensor

from probsym import groups
from probsym.bases import EGNN
from probsym.errors import RangeError, ShapeError


def inputs(dtype: torch.dtype = torch.float64, n: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x, v = torch.randn(2, 3, n, 3, dtype=dtype, generator=generator)
    return x, v, torch.randn(3, n, n, 2, dtype=dtype, generator=generator)


def build(dtype: torch.dtype = torch.float64) -> EGNN:
    torch.manual_seed(0)
    model = EGNN(edge_channels=2, width=16, layers=2)
    for layer in model.layers:
        torch.nn.init.xavier_uniform_(layer.pull[2].weight)  # so that positions do move
    return model.to(dtype)


def literal(model: EGNN, x: Tensor, v: Tensor, e: Tensor) -> Tensor:
    n = len(x)
    h = [model.embed(v[i].norm().view(1)) for i in range(n)]
    for layer in model.layers:
        m = {
            (i, j): layer.message(torch.cat([h[i], h[j], (x[i] - x[j]).square().sum().view(1), e[i, j]]))
            for i in range(n)
            for j in range(n)
            if i != j
        }
        pulls = [
            torch.stack([(x[i] - x[j]) * layer.pull(m[i, j]) for j in range(n) if j != i]).sum(0) / (n - 1)
            for i in range(n)
        ]
        v = torch.stack([layer.keep(h[i]) * v[i] + pulls[i] for i in range(n)])
        sums = [torch.stack([m[i, j] for j in range(n) if j != i]).sum(0) for i in range(n)]
        h = [h[i] + layer.update(torch.cat([h[i], sums[i]])) for i in range(n)]
        x = x + v
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_agrees_with_the_formula(dtype: torch.dtype) -> None:
    model, given = build(dtype), inputs(dtype)
    wanted = torch.stack([literal(model, *(tensor[b] for tensor in given)) for b in range(3)])
    tolerance = 1e-4 if dtype == torch.float32 else 1e-10
    torch.testing.assert_close(model(*given), wanted, rtol=tolerance, atol=tolerance)


def test_gradients_agree_with_the_formula() -> None:
    model, given = build(), inputs()
    weights = list(model.parameters())
    gradients = torch.autograd.grad(model(*given).square().sum(), weights, allow_unused=True)
    total = sum(literal(model, *(tensor[b] for tensor in given)).square().sum() for b in range(3))
    for gradient, wanted in zip(gradients, torch.autograd.grad(total, weights, allow_unused=True), strict=True):
        assert (gradient is None) == (wanted is None)
        if gradient is not None:
            torch.testing.assert_close(gradient, wanted)


def test_follows_permutations_and_rigid_motions() -> None:
    model, (x, v, e) = build(), inputs()
    q = groups.O(3).haar((), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    shift = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    p = torch.tensor([2, 0, 4, 1, 3])
    moved = model((x @ q.T + shift)[:, p], (v @ q.T)[:, p], e[:, p][:, :, p])
    torch.testing.assert_close(moved, (model(x, v, e) @ q.T + shift)[:, p])


def test_one_particle_goes_straight() -> None:
    model, (x, v, e) = build(), inputs(n=1)
    step = model(x, v, e) - x
    torch.testing.assert_close(torch.linalg.cross(step, v), torch.zeros_like(v))


def test_malformed_calls_are_refused() -> None:
    model, (x, v, e) = build(), inputs()
    with pytest.raises(ShapeError, match=r"^Expected positions and velocities of one shape"):
        model(x, v[:, :4], e)
    with pytest.raises(ShapeError, match=r"\(got \(3,\) and \(3,\)\)$"):
        model(x[0, 0], v[0, 0], e)
    with pytest.raises(ShapeError, match=r"^Expected pairs to have shape \(3, 5, 5, 2\) \(got \(3, 5, 5, 1\)\)$"):
        model(x, v, e[..., :1])
    with pytest.raises(RangeError):
        EGNN(edge_channels=-1)
