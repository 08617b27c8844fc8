"""Shifts against `roll`."""

import pytest
import torch
from torch import nn

from probsym import Symmetrized, nets, samplers
from probsym.errors import DtypeError, GroupError, MaskError, RangeError, ShapeError
from probsym.groups import Shift
from tests.groups.uniformity import NEVER, seeded, uniform

GROUP = Shift()


def test_elements_are_rolls() -> None:
    x = torch.arange(15.0).view(5, 3).expand(5, -1, -1)
    g = GROUP.elements(size=5)
    assert torch.equal(GROUP.act(g, x, 1), torch.stack([x[0].roll(k, 0) for k in range(5)]))
    assert torch.equal(GROUP.opposite(g)[:, 0], torch.tensor([2, 3, 4, 0, 1]))
    assert GROUP.contains(torch.tensor([[2, 0, 1], [2, 1, 0], [3, 4, 5]])).tolist() == [True, False, False]


def test_averages_over_all_shifts() -> None:
    base = nn.Sequential(nn.Linear(6, 6), nn.Tanh()).double()
    x = torch.randn(4, 6, dtype=torch.float64, generator=seeded(1))
    wanted = sum(base(x.roll(-k, 1)).roll(k, 1) for k in range(6)) / 6
    torch.testing.assert_close(Symmetrized(base, "n -> n", {"n": GROUP}, samplers.Enumerate())(x), wanted)
    haar = Symmetrized(base, "n -> n", {"n": GROUP})
    torch.testing.assert_close(haar(x, samples=6, coupling="stratified"), wanted)
    estimate = haar.estimate(x, samples=4000, generator=seeded(2))
    assert ((estimate.mean - wanted).abs() / estimate.stderr).max() < 4.5


def test_a_canonical_shift_brings_the_largest_score_to_the_front() -> None:
    x = torch.tensor([[[3.0], [1.0], [7.0], [2.0]]])

    class First(nn.Module):
        def forward(self, x, mask=None):
            return nets.Features(scores=x[..., 0])

    model = Symmetrized(lambda x: x[..., 0], "n c -> k", {"n": GROUP}, samplers.Canonical(First()))
    assert model(x).tolist() == [[7.0, 2.0, 3.0, 1.0]]
    assert torch.equal(model(x.roll(1, 1)), model(x))


def test_weights_act_as_the_sum_over_shifts_and_carry_the_gradient_of_a_softmax() -> None:
    x, scores = torch.randn(3, 4, 2, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(3, 4, dtype=torch.float64)
    for sign, g in ((1, weights), (-1, GROUP.inverse(weights))):
        wanted = sum(weights[:, k, None, None] * x.roll(sign * k, 1) for k in range(4))
        torch.testing.assert_close(GROUP.act(g, x, 1), wanted)
    g, carrier = GROUP.choose(scores, tau=0.5)
    torch.testing.assert_close(GROUP.act(carrier, x, 1), GROUP.act(g, x, 1))
    (gradient,) = torch.autograd.grad((GROUP.act(carrier, x, 1) * x.exp()).sum(), scores)
    soft = torch.softmax(scores / 0.5, -1)
    moved = torch.stack([x.roll(k, 1) for k in range(4)], 1)
    (wanted,) = torch.autograd.grad((soft[..., None, None] * moved * x.exp().unsqueeze(1)).sum(), scores)
    torch.testing.assert_close(gradient, wanted)


def test_entropy_and_prior_are_those_of_a_softmax() -> None:
    z = torch.randn(2, 5, dtype=torch.float64)
    wanted = torch.distributions.Categorical(logits=z / 0.3)
    torch.testing.assert_close(GROUP.entropy(z, z, 0.3), wanted.entropy())
    torch.testing.assert_close(GROUP.prior(z, z, 0.3), -wanted.probs[:, 0].log())


def test_haar_and_numbers_that_spread_are_uniform() -> None:
    listed = GROUP.elements(size=4)
    assert uniform(GROUP.haar((8000,), size=4, generator=seeded()), listed) > NEVER
    even = torch.rand(4, 4, dtype=torch.float64)
    even[:, 0] = torch.tensor([0.1, 0.3, 0.6, 0.9])
    assert torch.equal(GROUP.from_uniform(even, torch.float64), listed)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (GROUP.identity, GroupError, "items of Shift"),
        (lambda: GROUP.compose(torch.tensor([0]), torch.tensor([1, 0])), ShapeError, "equally many"),
        (lambda: GROUP.compose(torch.ones(3), torch.ones(3)), DtypeError, "int64"),
        (lambda: GROUP.act(torch.ones(3), torch.ones(3).long()), DtypeError, "to weigh shifts"),
        (lambda: GROUP.choose(torch.ones(3), tau=0.0), RangeError, "tau"),
        (
            lambda: Symmetrized(torch.sum, "n -> ", {"n": GROUP})(torch.ones(2, 3), mask={"n": torch.ones(2, 3) > 0}),
            MaskError,
            "no mask on axis 'n'",
        ),
        (lambda: Symmetrized(torch.sum, "n -> ", {"n": GROUP}, samplers.Frame()), GroupError, "for a frame"),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
