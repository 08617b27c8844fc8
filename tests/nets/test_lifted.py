import pytest
import torch
from torch import nn
from torch.testing import assert_close

from probsym.errors import GroupError, MaskError, RangeError, ShapeError
from probsym.groups import C, D, O
from probsym.nets import Lifted


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def flat_net(size, column=False):
    torch.manual_seed(0)
    layers = [nn.Flatten(), nn.Linear(size, 8), nn.Tanh(), nn.Linear(8, 1)]
    return nn.Sequential(*layers, *(() if column else (nn.Flatten(0),))).double()


@pytest.mark.parametrize("column", [True, False])
@pytest.mark.parametrize("group", [C(4), D(4), C(2), D(1)], ids=repr)
def test_logits_of_an_image(group, column):
    x = normal(3, 2, 1, 4, 4)
    net = flat_net(16, column)
    logits = Lifted(net, group, axis=(-2, -1), kind="grid")(x).logits
    assert logits.shape == (3, 2, group.order)
    for element in group.elements():
        moved = group.act(group.inverse(element), x, (-2, -1), "grid")
        assert_close(logits[..., element], net(moved.flatten(0, 1)).view(3, 2))


@pytest.mark.parametrize("group", [C(4), D(4)], ids=repr)
def test_logits_follow_the_image(group):
    lifted, x = Lifted(flat_net(16), group, axis=(-2, -1), kind="grid"), normal(3, 2, 1, 4, 4)
    logits = lifted(x).logits
    for g in group.elements():
        moved = lifted(group.act(g, x, (-2, -1), "grid")).logits
        assert_close(moved, group.move(g.expand(3, 2), logits))
        assert torch.equal(group.project(moved), group.compose(g, group.project(logits)))


@pytest.mark.parametrize("group", [C(5), D(3)], ids=repr)
def test_logits_follow_vectors(group):
    lifted, x = Lifted(flat_net(12), group), normal(3, 2, 6, 2)
    logits = lifted(x).logits
    for g in group.elements():
        assert_close(lifted(group.act(g, x)).logits, group.move(g.expand(3, 2), logits))


def test_draws_are_optional_where_the_rank_is_known():
    lifted, x = Lifted(flat_net(12), C(3), rank=2), normal(3, 2, 6, 2)
    assert_close(lifted(x[:, 0]).logits, lifted(x).logits[:, 0])
    assert lifted(x[:, 0]).logits.shape == (3, 3)
    assert (lifted.perturbs, lifted.extra_noise) == ((0,), 0)


class Masked(nn.Module):
    def forward(self, x, mask):
        return (x[..., 0] * mask).sum(-1)


def test_mask_reaches_the_net_row_by_row():
    group, x, mask = C(4), normal(3, 2, 6, 2), torch.rand(3, 6, generator=torch.Generator().manual_seed(1)) < 0.5
    logits = Lifted(Masked(), group)(x, mask=mask).logits
    for element in group.elements():
        moved = group.act(group.inverse(element), x)[..., 0]
        assert_close(logits[..., element], (moved * mask.unsqueeze(1)).sum(-1))
    assert_close(Lifted(Masked(), group, rank=2)(x[:, 1], mask=mask).logits, logits[:, 1])


def test_a_net_without_a_mask_is_called_without():
    lifted, x = Lifted(flat_net(12), C(3)), normal(3, 2, 6, 2)
    assert torch.equal(lifted(x, torch.zeros(3, 6, dtype=torch.bool)).logits, lifted(x).logits)


def test_gradient_reaches_the_net():
    net = flat_net(12)
    Lifted(net, C(3))(normal(3, 2, 6, 2)).logits.square().sum().backward()
    assert all(parameter.grad.abs().max() > 0 for parameter in net.parameters())


def test_refuses_malformed_calls():
    net = flat_net(12)
    with pytest.raises(GroupError, match="finite"):
        Lifted(net, O(3))
    with pytest.raises(GroupError, match="kind"):
        Lifted(net, C(3), kind="point")
    with pytest.raises(GroupError, match=r"from the end \(got 1\)"):
        Lifted(net, C(3), axis=1)
    with pytest.raises(RangeError, match="rank"):
        Lifted(net, C(3), rank=0)
    with pytest.raises(ShapeError, match=r"\(batch, draws, ...\) \(got \(3, 2\)\)"):
        Lifted(net, C(3))(torch.zeros(3, 2))
    with pytest.raises(ShapeError, match="2 axes"):
        Lifted(net, C(3), rank=2)(torch.zeros(3, 2, 6, 1, 2))
    with pytest.raises(ShapeError, match=r"one number for each of 18 rows \(got \(18, 12\)\)"):
        Lifted(nn.Flatten(), C(3))(torch.zeros(3, 2, 6, 2))
    with pytest.raises(MaskError, match="batch size 3"):
        Lifted(Masked(), C(3))(torch.zeros(3, 2, 6, 2), torch.ones(2, 6, dtype=torch.bool))
    with pytest.raises(MaskError, match="boolean"):
        Lifted(Masked(), C(3))(torch.zeros(3, 2, 6, 2), torch.ones(3, 6))
