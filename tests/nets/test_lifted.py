import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from probsym import Symmetrized, bases, samplers, testing
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
    with pytest.raises(GroupError, match=r"Expected a group, such as C\(4\) \(got <class .*\.C'>\)"):
        Lifted(net, C)
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


# in a model

CASES = [
    ("(h w) c -> c", {"h w": D(4)}, (3, 4, 4, 2), (((-3, -2), "grid"),)),
    ("c (h w) -> c", {"h w": C(4)}, (3, 2, 4, 4), (((-2, -1), "grid"),)),
    ("d m -> d", {"d": D(3)}, (3, 2, 5), ((-2, "plain"),)),
    ("m d:axial -> d:axial", {"d": D(4)}, (3, 5, 2), ((-1, "axial"),)),
    ("d d -> d d", {"d": C(4)}, (3, 2, 2), ((-2, "plain"), (-1, "plain"))),
]


@pytest.mark.parametrize(("signature", "bound", "shape", "places"), CASES, ids=lambda value: str(value)[:20])
def test_a_model_tells_axis_and_kind(signature, bound, shape, places, tmp_path):
    (group,) = bound.values()
    net = Lifted(bases.MLP([math.prod(shape[1:]), 8, 1], activation="tanh"), group)
    out = (2, 2) if signature.endswith("d d") else (2,)
    base = bases.MLP([math.prod(shape[1:]), 8, math.prod(out)], activation="tanh", shape=out)
    model = Symmetrized(base, signature, bound, samplers.Learned(net, noise=0.5), samples=3).double().eval()
    assert net.places == places
    testing.assert_equivariant(model, normal(*shape))
    model.save_pretrained(tmp_path)
    loaded = Symmetrized.from_pretrained(tmp_path).double().eval()
    assert loaded.sampler.net.places == places
    assert_close(loaded(normal(*shape), seed=0), model(normal(*shape), seed=0))


def test_kinds_that_are_missing_or_do_not_fit():
    net, image = flat_net(16), {"h w": C(4)}
    assert Lifted(net, C(4), axis=(-2, -1)).places == (((-2, -1), "grid"),)
    with pytest.raises(GroupError, match=r"kind='grid' for a pair of axes.*got \(-2, -1\), 'plain'"):
        Lifted(net, C(4), axis=(-2, -1), kind="plain")
    with pytest.raises(GroupError, match=r"kind='grid' for a pair of axes.*got -1, 'grid'"):
        Lifted(net, C(4), axis=-1, kind="grid")
    with pytest.raises(GroupError, match="kind='grid'"):
        C(4).act(torch.tensor(1), torch.zeros(4, 4), (-2, -1))
    for options in ({"axis": -1}, {"kind": "plain"}, {"axis": (-2, -1)}):
        with pytest.raises(GroupError, match=r"axis=\(-3, -2\), kind='grid' for '\(h w\) c', or neither"):
            Symmetrized(len, "(h w) c -> c", image, samplers.Canonical(Lifted(net, C(4), **options)))
    with pytest.raises(GroupError, match="axis=-2, kind='plain', axis=-1, kind='plain' for 'd d'"):
        Symmetrized(len, "d d -> d", {"d": C(4)}, samplers.Canonical(Lifted(net, C(4), -1)))
    shared = samplers.Canonical(Lifted(net, C(4)))
    Symmetrized(len, "(h w) -> ", image, shared)
    with pytest.raises(GroupError, match="one Lifted for each model"):
        Symmetrized(len, "(h w) c -> c", image, shared)
