"""`losses["prior"]`: how far p(g|x) is from the pose in which the base was pretrained."""

import itertools

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups, nets, samplers
from probsym.errors import GroupError
from probsym.nets import Features
from probsym.ops import Order


class Given(nn.Module):
    """Features that are a parameter, whatever the input is."""

    perturbs = ()

    def __init__(self, field: str, value: Tensor) -> None:
        super().__init__()
        self.field, self.value = field, nn.Parameter(value)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Features:
        return Features.join({self.field: self.value.expand(len(x), 1, *self.value.shape)})


def losses(group: groups.Group, field: str, value: Tensor, signature: str, shape: tuple[int, ...], **options):
    made = samplers.Learned if "noise" in options else samplers.Canonical
    sampler = made(Given(field, value), tau=0.5, prior=True, **options)
    model = Symmetrized(lambda x: x, f"{signature} -> {signature}", {"d": group}, sampler, samples=3)
    return sampler, model.train().estimate(torch.randn(*shape, dtype=value.dtype)).losses


@pytest.mark.parametrize("options", [{}, {"noise": 1.0}])
def test_finite_groups_have_that_of_the_softmax(options: dict[str, float]) -> None:
    value = torch.randn(8, dtype=torch.float64)
    sampler, loss = losses(groups.D(4), "logits", value, "m d", (2, 5, 2), **options)
    torch.testing.assert_close(loss["prior"].detach(), -torch.log_softmax(value / 0.5, -1)[0])
    loss["prior"].backward()
    assert sampler.net.value.grad[0] < 0 < sampler.net.value.grad[1:].min()


@pytest.mark.parametrize("group", [groups.SO(3), groups.O(2)], ids=repr)
def test_rotations_have_the_trace(group: groups.O) -> None:
    value = torch.randn(group.d, group.d, dtype=torch.float64)
    sampler, loss = losses(group, "vectors", value, "m d", (2, 5, group.d))
    q = group.project(value)
    torch.testing.assert_close(loss["prior"].detach(), group.d - q.trace())
    torch.testing.assert_close(loss["prior"].detach(), (q - torch.eye(group.d)).square().sum() / 2)
    loss["prior"].backward()
    assert sampler.net.value.grad.abs().max() > 0


def test_it_pulls_towards_the_identity() -> None:
    value = torch.tensor([[-0.4, -0.9, 0.1], [0.9, -0.4, 0.0], [0.0, 0.1, 1.0]], dtype=torch.float64)
    net = Given("vectors", value)
    model = Symmetrized(lambda x: x, "m d -> m d", {"d": groups.SO(3)}, samplers.Canonical(net, prior=True))
    optimiser = torch.optim.Adam(net.parameters(), lr=0.1)
    for _ in range(60):
        optimiser.zero_grad()
        model.train().estimate(torch.randn(1, 4, 3, dtype=torch.float64)).losses["prior"].backward()
        optimiser.step()
    torch.testing.assert_close(groups.SO(3).project(net.value), torch.eye(3, dtype=torch.float64), atol=0.05, rtol=0)


def test_orders_are_drawn_item_by_item() -> None:
    """The chances of all orders add up to one, and that of the identity is what the loss has."""
    scores, tau = torch.randn(4, dtype=torch.float64), 0.5

    def chance(order: tuple[int, ...]) -> Tensor:
        z = scores[list(order)]
        prior = groups.S().prior(z, Order(torch.arange(len(order))), tau)
        return torch.exp(-len(order) * prior)

    assert sum(chance(order) for order in itertools.permutations(range(4))) == pytest.approx(1)
    weights = (scores / tau).exp()
    by_hand = weights[0] / weights.sum() * weights[1] / weights[1:].sum() * weights[2] / weights[2:].sum()
    torch.testing.assert_close(chance((0, 1, 2, 3)), by_hand)
    mask = torch.tensor([True, False, True, True])
    masked = scores.clone().requires_grad_()
    loss = groups.S().prior(masked, Order(torch.tensor([0, 2, 3, 1]), mask), tau)
    torch.testing.assert_close(torch.exp(-3 * loss), chance((0, 2, 3)))
    loss.backward()
    assert masked.grad.isfinite().all()
    assert masked.grad[1] == 0


def test_products_are_summed_and_nothing_is_there_unless_asked_for() -> None:
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    bound = {"n": groups.S(), "d": groups.O(3)}
    net = nets.VNDGCNN(1, hidden=12, neighbours=3).double()
    asked = Symmetrized(lambda x: x, "n d -> n d", bound, samplers.Canonical(net, prior=True)).eval()
    draw = asked.estimate(x)
    parts = [bound[key].prior(draw.chunks[0].features[key], draw.chunks[0].carriers[key], 0.01).mean() for key in bound]
    torch.testing.assert_close(draw.losses["prior"], sum(parts))
    plain = Symmetrized(lambda x: x, "n d -> n d", bound, samplers.Learned(net))
    assert list(plain.estimate(x).losses) == ["entropy"]


def test_a_group_without_the_verb_is_refused_by_name() -> None:
    class Plain(groups.O):
        prior = groups.Group.prior

    with pytest.raises(GroupError, match=r"verb `prior` \(got Plain\(3\)"):
        losses(Plain(3), "vectors", torch.eye(3), "m d", (2, 5, 3))
