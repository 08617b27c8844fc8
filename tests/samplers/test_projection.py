"""From features to elements."""

import pytest
import torch

from probsym import Signature, Symmetrized, bases, errors, groups, nets, samplers
from probsym.nets import Features
from probsym.ops import soft_sort
from probsym.ops.ranks import CLOSE, merged_ties
from probsym.samplers import Batch, noise
from probsym.samplers.projection import by_axis, feature_field, project

DTYPES = [torch.float64, torch.float32]


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def batch_for(text, bound, *inputs, mask=None):
    return Batch.outline(Signature.parse(text, bound), inputs, mask).ready()


@pytest.mark.parametrize(
    ("group", "kind"),
    [(groups.S(), "scores"), (groups.SE(2), "vectors"), (groups.O(4), "vectors"), (groups.D(3), "logits")],
)
def test_kinds(group, kind):
    assert feature_field(group.linear) == kind


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("draws", [1, 3])
def test_features_of_one_draw_serve_all(draws, dtype):
    batch = batch_for("n d -> ", {"n": groups.S(), "d": groups.E(3)}, torch.randn(2, 4, 3, dtype=dtype))
    given = Features(scores=torch.randn(2, draws, 4), vectors=torch.randn(2, draws, 3, 3, dtype=torch.bfloat16))
    features = by_axis(batch, given, 3)
    assert features["n"].dtype == features["d"].dtype == dtype
    assert features["d"].shape == (2, draws, 3, 3)
    draw = project(batch, features, noise.tie_breaks(batch, 3, seeded()), 3, tau=0.1)
    assert draw.count == 3
    assert torch.equal(draw.elements["n"], given.scores.to(dtype).argsort(-1, descending=True).expand(2, 3, 4))
    assert groups.O(3).contains(draw.elements["d"]).all()
    assert draw.elements["d"].shape == (2, 3, 3, 3)


def test_ties_follow_the_noise():
    batch = batch_for("n c -> ", {"n": groups.S()}, torch.zeros(1, 4, 1))
    drawn = noise.tie_breaks(batch, 5, seeded())
    orders = project(batch, {"n": torch.tensor([[[2.0, 1.0, 2.0, 1.0]]])}, drawn, 5, tau=0.1).elements["n"][0]
    for order, ties in zip(orders, drawn.ties["n"][0], strict=True):
        assert order[:2].tolist() == ([0, 2] if ties[0] > ties[2] else [2, 0])
        assert order[2:].tolist() == ([1, 3] if ties[1] > ties[3] else [3, 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_merged_scores_are_equal_exactly_or_untouched(masked, dtype):
    """Whatever their size: what is closer than the tolerance becomes one value, what is further apart stays."""
    close = CLOSE[dtype]
    scores = torch.randn(300, 1, 6, dtype=dtype, generator=seeded()).sign() * torch.rand(300, 1, 6, dtype=dtype)
    scores[..., 0] = 1
    scores[..., 2:4] = scores[..., 1:2] * torch.rand(300, 1, 1, dtype=dtype, generator=seeded(1)) ** 8
    scores[..., 2:4] += 0.3 * close * torch.randn(300, 1, 2, dtype=dtype, generator=seeded(2))
    mask = torch.ones(300, 1, 6, dtype=torch.bool)
    if masked:
        mask[..., 5] = False
        scores[..., 5] = scores[..., 2]
    merged = merged_ties(scores, mask if masked else None)
    for before, after, real in zip(scores[:, 0], merged[:, 0], mask[:, 0], strict=True):
        size = before[real].abs().max()
        order = before[real].argsort(descending=True)
        gaps = -(before[real][order].diff())
        same = after[real][order].diff() == 0
        assert bool(same[gaps < 0.9 * close * size].all())
        assert not bool(same[gaps > 1.1 * close * size].any())
        assert (after[real] - before[real]).abs().max() <= 3 * close * size


@pytest.mark.parametrize("learned", [False, True])
def test_scores_of_infinity_do_not_merge_others(learned):
    scores = torch.tensor([3.0, -torch.inf, 3.0 - 1e-6, 2.0], requires_grad=learned)
    assert merged_ties(scores).tolist() == [3.0, -torch.inf, 3.0, 2.0]
    masked = merged_ties(scores, torch.tensor([True, True, True, False]))
    assert masked.tolist() == [3.0, -torch.inf, 3.0, 2.0]


def test_merged_scores_keep_the_gradient():
    scores = torch.tensor([[[1.0, 1.0 + 1e-7, 0.5]]], requires_grad=True)
    (merged_ties(scores, None) * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
    assert scores.grad.tolist() == [[[1.0, 2.0, 3.0]]]


def test_carriers_need_no_gradient_where_features_have_none():
    batch = batch_for("m d -> ", {"d": groups.C(4)}, torch.zeros(1, 3, 2))
    drawn = noise.tie_breaks(batch, 2, seeded())
    logits = torch.randn(1, 2, 4)
    hard = project(batch, {"d": logits}, drawn, 2, tau=0.5)
    soft = project(batch, {"d": logits.requires_grad_()}, drawn, 2, tau=0.5)
    assert hard.carriers["d"].dtype == torch.long
    assert soft.carriers["d"].shape == (1, 2, 4)
    assert torch.equal(soft.carriers["d"].argmax(-1), hard.elements["d"])
    with torch.no_grad():
        assert project(batch, {"d": logits}, drawn, 2, tau=0.5).carriers["d"].dtype == torch.long


def test_scores_carry_the_temperature():
    batch = batch_for("n c -> ", {"n": groups.S()}, torch.zeros(1, 4, 1))
    scores = torch.randn(1, 1, 4, requires_grad=True)
    draw = project(batch, {"n": scores}, noise.tie_breaks(batch, 1, seeded()), 1, tau=0.37)
    torch.testing.assert_close(draw.carriers["n"].matrix(), soft_sort(scores, tau=0.37).matrix())


def test_refuses_features_of_the_wrong_kind():
    batch = batch_for("n d -> ", {"n": groups.S(), "d": groups.C(3)}, torch.zeros(2, 4, 2))
    scores = torch.zeros(2, 1, 4)
    with pytest.raises(errors.SignatureError, match=r"with \['logits', 'scores'\] \(got one tensor\)"):
        by_axis(batch, scores, 1)
    with pytest.raises(errors.SignatureError, match=r"logits for C\(3\) on axis 'd' \(got none\)"):
        by_axis(batch, Features(scores=scores, vectors=torch.zeros(2, 1, 2, 2)), 1)
    with pytest.raises(errors.ShapeError, match=r"logits of shape \(2, 1, 3\) .*axis 'd' \(got \(2, 1, 2\)\)"):
        by_axis(batch, Features(scores=scores, logits=torch.zeros(2, 1, 2)), 1)


@pytest.mark.parametrize("n", [2, 4])
def test_a_net_that_is_called_twice_for_the_inputs_gradient_can_be_trained(n):
    """Statistics are set back between the two calls, which autograd must not take for a change of the first one."""
    net = nets.VNDGCNN(1, hidden=12, neighbours=2)
    sampler, bound = samplers.Learned(net, tau=0.1), {"n": groups.S(), "d": groups.O(3)}
    model = Symmetrized(bases.MLP([3 * n, 1], shape=()), "n d ->", bound, sampler, samples=2)
    x = torch.randn(3, n, 3, generator=seeded(), requires_grad=True)
    before = {name: buffer.clone() for name, buffer in net.named_buffers()}
    model(x).sum().backward()
    assert bool(x.grad.isfinite().all())
    assert all(parameter.grad is None or bool(parameter.grad.isfinite().all()) for parameter in net.parameters())
    assert any(not torch.equal(buffer, before[name]) for name, buffer in net.named_buffers())
