import pytest
import torch
from torch.testing import assert_close

from probsym.errors import DtypeError, MaskError, RangeError, ShapeError
from probsym.nets import DeepSets


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def some_mask(*shape):
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[..., -1] = True
    return mask


def literally(net, x, mask):
    """Item by item."""
    scores = torch.zeros(x.shape[:3], dtype=x.dtype)
    for b in range(x.shape[0]):
        for draw in range(x.shape[1]):
            places = mask[b].nonzero().flatten().tolist()
            items = {i: x[b, draw, i] for i in places}
            for own, shared in zip(net.own, net.shared, strict=True):
                mean = sum(items.values()) / len(items)
                items = {i: torch.relu(own.weight @ h + own.bias + shared.weight @ mean) for i, h in items.items()}
            for i, h in items.items():
                scores[b, draw, i] = net.head.weight[0] @ h + net.head.bias[0]
    return scores


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_agrees_with_the_formula(dtype, masked):
    net, x, mask = DeepSets(3, hidden=8).to(dtype), normal(4, 2, 5, 3, dtype=dtype), some_mask(4, 5)
    given, mask = (mask, mask) if masked else (None, torch.ones_like(mask))
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    scores, wanted = net(leaf, mask=given).scores, literally(net, other, mask)
    assert_close(scores, wanted)
    got = torch.autograd.grad(scores.sin().sum(), [leaf, *net.parameters()])
    assert_close(got, torch.autograd.grad(wanted.sin().sum(), [other, *net.parameters()]))


def test_follows_permutations():
    net, x, mask, p = DeepSets(3).double(), normal(4, 2, 5, 3), some_mask(4, 5), torch.tensor([3, 1, 0, 2, 4])
    assert_close(net(x[:, :, p], mask=mask[:, p]).scores, net(x, mask=mask).scores[..., p], rtol=0, atol=1e-12)


def test_padding_has_no_say():
    net, mask, results = DeepSets(3).double(), some_mask(4, 5), []
    for fill in (0.0, torch.nan):
        x = torch.where(mask[:, None, :, None], normal(4, 2, 5, 3), fill).requires_grad_()
        scores = net(x, mask=mask).scores
        results.append([scores, *torch.autograd.grad(scores.square().sum(), [x, *net.parameters()])])
    assert_close(results[0], results[1], rtol=0, atol=0)
    assert (results[0][0][~mask.unsqueeze(1).expand(-1, 2, -1)] == 0).all()


def test_a_set_without_real_items_is_zero():
    mask = some_mask(4, 5)
    mask[2] = False
    net = DeepSets(3)
    scores = net(torch.rand(4, 2, 5, 3), mask=mask).scores
    assert torch.equal(scores[2], torch.zeros(2, 5))
    scores.sum().backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters())


def test_several_inputs_are_put_side_by_side():
    net, x, y = DeepSets(3, inputs=2).double(), normal(4, 2, 5, 2), normal(4, 5, 1, seed=1)
    wanted = DeepSets(3).double()
    wanted.load_state_dict(net.state_dict())
    joined = torch.cat([x, y.unsqueeze(1).expand(-1, 2, -1, -1)], -1)
    assert_close(net(x, y).scores, wanted(joined).scores)
    assert net(x[:, 0], y).scores.shape == (4, 5)
    assert (net.perturbs, wanted.perturbs, net.extra_noise) == ((0, 1), (0,), 0)


@pytest.mark.parametrize("options", [{"in_channels": 0}, {"hidden": 0}, {"inputs": 0}, {"inputs": 4}], ids=str)
def test_refuses_malformed_sizes(options):
    with pytest.raises(RangeError, match=r"Expected .* \(got"):
        DeepSets(**{"in_channels": 3, **options})


def test_refuses_malformed_calls():
    x = torch.zeros(4, 2, 5, 3)
    with pytest.raises(ShapeError, match=r"Expected 1 inputs \(got 2\)"):
        DeepSets(3)(x, x)
    with pytest.raises(ShapeError, match=r"Expected 3 channels in all inputs together \(got 2\)"):
        DeepSets(3)(x[..., :2])
    with pytest.raises(ShapeError, match="Expected input 1 to fit"):
        DeepSets(6, inputs=2)(x, torch.zeros(4, 6, 3))
    with pytest.raises(DtypeError, match=r"input 1 to be torch.float32 like input 0 \(got torch.float64\)"):
        DeepSets(6, inputs=2)(x, x.double())
    with pytest.raises(DtypeError, match="floating"):
        DeepSets(3)(x.long())
    with pytest.raises(DtypeError, match="got list"):
        DeepSets(3)([1.0])
    with pytest.raises(MaskError, match="shape"):
        DeepSets(3)(x, mask=torch.ones(4, 2, 5, dtype=torch.bool))
