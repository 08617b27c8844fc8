"""Signs against sums over all of them, written out."""

import itertools

import numpy as np
import pytest
import torch
from torch import Tensor

from probsym import Symmetrized, bases, groups, samplers
from probsym.errors import DtypeError, GroupError, ShapeError
from probsym.groups import Signs
from tests.groups.uniformity import NEVER, seeded, uniform


def small(output: str, sampler: samplers.Sampler, **options: object) -> tuple[Symmetrized, Tensor]:
    """An MLP on three vectors of four entries, each with a sign of its own."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        shape = {"k": (2,), "d": (3,), "m d": (4, 3)}[output]
        base = bases.MLP([12, 8, int(np.prod(shape))], activation="tanh", shape=shape).double()
    x = torch.randn(2, 4, 3, dtype=torch.float64, generator=seeded(1))
    return Symmetrized(base, f"m d -> {output}", {"d": Signs()}, sampler, **options), x


def by_hand(model: Symmetrized, x: Tensor) -> Tensor:
    """The mean over all eight choices."""
    total = 0
    for choice in itertools.product((1.0, -1.0), repeat=3):
        signs = torch.tensor(choice, dtype=torch.float64)
        y = model.base(x * signs)
        total = total + (y if str(model.signature).endswith("k") else y * signs)
    return total / 8


@pytest.mark.parametrize("output", ["k", "d", "m d"])
def test_averages_over_all_signs(output: str) -> None:
    model, x = small(output, samplers.Enumerate())
    torch.testing.assert_close(model(x), by_hand(model, x))
    haar = Symmetrized(model.base, str(model.signature), {"d": Signs()})
    estimate = haar.estimate(x, samples=4000, generator=seeded(2))
    assert ((estimate.mean - by_hand(model, x)).abs() / estimate.stderr.clamp(min=1e-12)).max() < 4.5
    torch.testing.assert_close(haar(x, samples=8, coupling="stratified"), by_hand(model, x))


def test_a_frame_makes_the_first_entries_positive() -> None:
    model, x = small("m d", samplers.Frame())
    x[0, 0, 1] = 0  # the next one counts
    signs = x[:, 0].sign()
    signs[0, 1] = x[0, 1, 1].sign()
    torch.testing.assert_close(model(x), model.base(x * signs.unsqueeze(1)) * signs.unsqueeze(1))
    estimate = model.estimate(x)
    assert estimate.samples == 1
    assert (estimate.stderr == 0).all()
    flips = torch.tensor([[1, -1, -1], [-1, 1, -1]])
    torch.testing.assert_close(model(Signs().act(flips, x, 2)), Signs().act(flips, estimate.mean, 2))


def test_entries_of_zero_have_either_sign() -> None:
    model, x = small("d", samplers.Frame(exact=False), samples=400)
    x[:, :, 2] = 0
    estimate = model.estimate(x, generator=seeded(3))
    assert estimate.elements["d"][..., :2].unique(dim=1).shape[1] == 1
    assert abs(estimate.elements["d"][..., 2].double().mean()) < 0.2
    listed = Symmetrized(model.base, "m d -> d", {"d": Signs()}, samplers.Frame()).estimate(x)
    assert listed.stderr.isnan().all()


def test_the_straight_through_gradient_is_that_of_tanh() -> None:
    z = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    x = torch.randn(3, 5, dtype=torch.float64)
    g, carrier = Signs().choose(z, tau=0.7)
    assert torch.equal(g, z.sign().long())
    (gradient,) = torch.autograd.grad((Signs().act(carrier, x) * x.exp()).sum(), z)
    torch.testing.assert_close(gradient, (x * x.exp()) * (1 - torch.tanh(z / 0.7) ** 2) / 0.7)


def test_entropy_and_prior_are_those_of_independent_signs() -> None:
    z, tau = torch.randn(2, 3, dtype=torch.float64), 0.8
    each = (1 + torch.tanh(z / tau)) / 2
    wanted = torch.distributions.Bernoulli(each)
    torch.testing.assert_close(Signs().entropy(z, z, tau), wanted.entropy().mean(-1))
    torch.testing.assert_close(Signs().prior(z, z, tau), -each.log().sum(-1))


def test_haar_and_features_without_a_sign_are_uniform() -> None:
    group, listed = Signs(), Signs().elements(size=3)
    assert uniform(group.haar((8000,), size=3, generator=seeded()), listed) > NEVER
    noise = group.features((8000,), size=3, generator=seeded(5))
    assert uniform(group.project(torch.zeros(8000, 3), noise=noise), listed) > NEVER
    rounding = torch.tensor([1.0, 1e-7, -1e-7]).expand(8000, -1)
    signs = group.project(rounding, noise=noise)
    assert uniform(signs[:, 1:], Signs().elements(size=2)) > NEVER
    assert (signs[:, 0] == 1).all()


def test_signs_that_rounding_decides_are_told() -> None:
    z = torch.tensor([[1.0, 2e-5], [1.0, 0.0], [1.0, -0.5]])
    assert Signs().close_call(z, Signs().project(z)).tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: Signs().identity(), GroupError, "items of Signs"),
        (lambda: Signs().elements(size=17), GroupError, "at most 16 entries"),
        (lambda: Signs().stratum_orders(1, 13, None, torch.device("cpu")), GroupError, "at most 12 entries"),
        (lambda: Signs().compose(torch.ones(3), torch.ones(3)), DtypeError, "int64"),
        (lambda: Signs().compose(torch.tensor([1]), torch.tensor([1, 1])), ShapeError, "equally many"),
        (lambda: Signs().act(torch.tensor([1, -1]), torch.ones(3)), ShapeError, "size 2"),
        (
            lambda: Symmetrized(torch.sum, "n d -> n", {"n": groups.S(), "d": Signs()}, samplers.Frame()),
            GroupError,
            "or Signs, .* for a frame",
        ),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
