import pytest
import torch
from torch.testing import assert_close

from probsym.errors import DtypeError, MaskError, RangeError, ShapeError
from probsym.nets import VNDGCNN, edge_convolution, vector_neurons, vn_dgcnn
from probsym.ops import gram_schmidt
from tests.nets import naive

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def rotation(d):
    return gram_schmidt(normal(d, d, seed=8))


def some_mask(*shape):
    """With holes, one set of a single point, and one of fewer points than neighbours."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) < 0.8
    mask[0], mask[1] = False, False
    mask[0, 2], mask[1, 1], mask[1, -1] = True, True, True
    return mask


def build(channels=2, dtype=torch.float64, **options):
    torch.manual_seed(0)
    net = VNDGCNN(channels, **options).to(dtype)
    for module in net.modules():
        if hasattr(module, "running_mean"):
            module.running_mean.uniform_(0.5, 1)
            module.running_var.uniform_(0.5, 2)
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias)
    return net


def count(net):
    return sum(parameter.numel() for parameter in net.parameters())


def test_parameter_counts():
    assert count(VNDGCNN(2)) == 15473
    assert count(VNDGCNN(2, hidden=64)) == 6897
    assert count(VNDGCNN(2, vectors=False)) == 15473 - 32 * 32 - 32 * 3
    assert count(VNDGCNN(2, scores=False)) == 2 * 4 * 32 + 2 * 32 + 32 * 32 + 32 * 32 + 32 * 3


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("n", "d"), [(5, 3), (9, 2), (20, 3)])
def test_agrees_with_the_formula(n, d, masked, training):
    net = build(hidden=12, d=d).train(training)
    mask = some_mask(6, n)
    given, mask = (mask, mask) if masked else (None, torch.ones_like(mask))
    x = normal(6, 3, n, d, 2)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    features = net(*leaf.unbind(-1), mask=given)
    scores, vectors = naive.vn_dgcnn(net, [other[i][:, real] for i, real in enumerate(mask)])
    cotangents = normal(6, 3, n, seed=4), normal(6, 3, d, d, seed=5)
    wanted = 0.0
    for i, real in enumerate(mask):
        assert_close(features.scores[i][:, real], scores[i], rtol=1e-8, atol=1e-9)
        assert_close(features.vectors[i], vectors[i], rtol=1e-8, atol=1e-9)
        wanted = wanted + (scores[i] * cotangents[0][i][:, real]).sum() + (vectors[i] * cotangents[1][i]).sum()
    loss = (features.scores * cotangents[0]).sum() + (features.vectors * cotangents[1]).sum()
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    got = torch.autograd.grad(loss, [leaf, *trained])
    assert_close(got, torch.autograd.grad(wanted, [other, *trained]), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("n", [5, 20])
def test_float32_agrees_with_float64(n):
    """Except in sets where two vectors tie in float32 and not in float64: one in ten, of 20 points."""
    net, x = build(dtype=torch.float32).eval(), normal(50, 3, n, 3, 2).float()
    rough = net(*x.unbind(-1))
    exact = net.double()(*x.double().unbind(-1))
    assert rough.scores.dtype == rough.vectors.dtype == torch.float32
    for a, b in ((rough.scores, exact.scores), (rough.vectors, exact.vectors)):
        assert ((a - b).abs() < 1e-4).float().mean() > 0.8


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize(("n", "d"), [(1, 3), (2, 3), (20, 3), (5, 1), (5, 2), (5, 3), (5, 5)])
def test_follows_rotations_and_permutations(n, d, masked, training):
    net, q = build(hidden=24, d=d).train(training), rotation(d)
    p = torch.randperm(n, generator=torch.Generator().manual_seed(1))
    x, v = normal(2, 6, 3, n, d)
    mask = some_mask(6, n + 2)[:, :n] if masked else None
    if masked:
        mask[:, 0] = True
    plain = net(x, v, mask=mask)
    moved = net((x @ q.T)[:, :, p], (v @ q.T)[:, :, p], mask=mask[:, p] if masked else None)
    assert_close(moved.scores, plain.scores[..., p], rtol=0, atol=1e-9)
    assert_close(moved.vectors, q @ plain.vectors, rtol=0, atol=1e-9)


def test_float32_follows_up_to_rounding():
    net, q, p = build(dtype=torch.float32), rotation(3).float(), torch.tensor([3, 1, 0, 2, 4])
    x, v = normal(2, 6, 3, 5, 3, dtype=torch.float32)
    plain, moved = net(x, v), net((x @ q.T)[:, :, p], (v @ q.T)[:, :, p])
    assert_close(moved.scores, plain.scores[..., p], rtol=1e-3, atol=1e-3)
    assert_close(moved.vectors, q @ plain.vectors, rtol=1e-3, atol=1e-3)


def symmetric_shape(name):
    match name:
        case "octahedron":
            return torch.cat([torch.eye(3), -torch.eye(3)]).double()
        case "cube":
            return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * 3).double()
        case "line":
            return torch.tensor([[-1.0, 0, 0], [0, 0, 0], [1, 0, 0]]).double()
        case "shells":
            cube, octahedron = symmetric_shape("cube"), symmetric_shape("octahedron")
            return torch.cat([cube, 2 * octahedron, 3 * cube])
    return torch.zeros(4, 3).double()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["octahedron", "cube", "line", "shells", "one place"])
def test_symmetric_shapes_without_noise(name, training):
    """Nothing tells the points apart, and nothing may be told apart by their order: 8 random relabelled copies."""
    shape = symmetric_shape(name)
    for seed in range(8):
        torch.manual_seed(seed)
        net = VNDGCNN(1, hidden=24).double().train(training)
        q, p = gram_schmidt(torch.randn(3, 3).double()), torch.randperm(len(shape))
        plain, moved = net(shape[None]), net((shape @ q.T)[p][None])
        assert_close(moved.scores, plain.scores[:, p], rtol=0, atol=1e-9)
        assert torch.equal(plain.vectors, torch.zeros(1, 3, 3).double())
        assert torch.equal(moved.vectors, plain.vectors)


@pytest.mark.parametrize("training", [True, False])
def test_symmetric_shapes_in_float32(training):
    """In training among generic ones: where all lengths agree, batch norm divides rounding by rounding."""
    net, q = build(1, torch.float32).train(training), rotation(3)
    p = torch.randperm(6, generator=torch.Generator().manual_seed(1))
    x = torch.cat([symmetric_shape("octahedron")[None], normal(9, 6, 3)])
    plain, moved = net(x.float()), net((x @ q.T)[:, p].float())
    assert_close(moved.scores, plain.scores[:, p], rtol=0, atol=2e-3)
    assert_close(moved.vectors, q.float() @ plain.vectors, rtol=0, atol=2e-3)
    assert torch.equal(plain.vectors[0], torch.zeros(3, 3))
    assert torch.equal(moved.vectors[0], torch.zeros(3, 3))
    assert (plain.vectors[1:].norm(dim=1) > 0).all()


def test_a_plane_of_symmetry_gives_vectors_in_the_plane():
    """A square pyramid: what its axis does not name is zero or along the axis."""
    base = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-1, 0, 0], [0, -1, 0], [0, 0, 1]]).double()
    vectors = build(1).eval()(base[None]).vectors[0]
    assert vectors[:2].abs().max() < 1e-12
    assert (vectors[2].abs() > 1e-3).all()


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("garbage", [1e20, torch.nan])
def test_padding_has_no_say(garbage, training):
    net, mask, results = build(hidden=12).train(training), some_mask(6, 9), []
    for fill in (0.0, garbage):
        x = torch.where(mask[:, None, :, None, None], normal(6, 3, 9, 3, 2), fill).requires_grad_()
        features = net(*x.unbind(-1), mask=mask)
        loss = features.scores.square().sum() + features.vectors.square().sum()
        wanted = [x, *(parameter for parameter in net.parameters() if parameter.requires_grad)]
        results.append([features.scores, features.vectors, *torch.autograd.grad(loss, wanted)])
    assert_close(results[0], results[1], rtol=0, atol=0)
    assert (results[0][0][~mask.unsqueeze(1).expand(-1, 3, -1)] == 0).all()


@pytest.mark.parametrize("wide", [14, 24])
def test_more_padding_changes_nothing(wide):
    """On either side of the size from which neighbours are gathered."""
    net, mask, x = build(hidden=12), some_mask(6, 9), normal(6, 3, 9, 3, 2)
    plain = net(*x.unbind(-1), mask=mask)
    padded = torch.nn.functional.pad(x, (0, 0, 0, 0, wide - 9, 0))
    moved = net(*padded.unbind(-1), mask=torch.nn.functional.pad(mask, (wide - 9, 0)))
    assert_close(moved.scores[..., wide - 9 :], plain.scores, rtol=0, atol=1e-10)
    assert_close(moved.vectors, plain.vectors, rtol=0, atol=1e-10)


def test_a_set_without_real_points_is_zero():
    mask = some_mask(6, 9)
    mask[4] = False
    x, v = normal(2, 6, 3, 9, 3)
    net = build()
    features = net(x, v, mask=mask)
    (features.scores.sum() + features.vectors.sum()).backward()
    assert all(torch.isfinite(parameter.grad).all() for parameter in net.parameters() if parameter.requires_grad)
    assert torch.equal(features.scores[4], torch.zeros(3, 9).double())
    assert torch.equal(features.vectors[4], torch.zeros(3, 3, 3).double())
    assert torch.isfinite(features.scores).all()


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("scalars", [0, 2])
@pytest.mark.parametrize("n", [1, 5, 20])
def test_an_empty_batch_gives_empty_outputs(n, scalars, masked, training, blocks, monkeypatch):
    if not blocks:
        for module in (edge_convolution, vector_neurons, vn_dgcnn):
            monkeypatch.setattr(module, "in_blocks", lambda x: False)
    net = build(1, scalars=scalars, hidden=12, dropout=0.1).train(training)
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    x, numbers = torch.empty(0, 2, n, 3).double().requires_grad_(), [torch.empty(0, n, 2)] if scalars else []
    features = net(x, *numbers, mask=torch.empty(0, n).bool() if masked else None)
    assert features.scores.shape == (0, 2, n)
    assert features.vectors.shape == (0, 2, 3, 3)
    (features.scores.sum() + features.vectors.sum()).backward()
    assert x.grad.shape == x.shape
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in trained)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())


def test_heads_alone_are_the_heads_together():
    x, v = normal(2, 6, 3, 5, 3)
    both = build().eval()
    for head in ("scores", "vectors"):
        alone = build(**{"scores": False, "vectors": False, head: True}).eval()
        assert alone.load_state_dict(both.state_dict(), strict=False).missing_keys == []
        features = alone(x, v)
        assert torch.equal(getattr(features, head), getattr(both(x, v), head))
        assert (features.scores is None) == (head == "vectors")
        assert (features.vectors is None) == (head == "scores")


def test_draws_are_optional_and_shared_inputs_are_spread():
    net, (x, v) = build().eval(), normal(2, 6, 3, 5, 3)
    plain, alone = net(x, v), net(x[:, 1], v[:, 1])
    assert alone.scores.shape == (6, 5)
    assert_close(alone.scores, plain.scores[:, 1])
    assert_close(alone.vectors, plain.vectors[:, 1])
    spread = net(x, v[:, 0].unsqueeze(1).expand_as(v))
    assert_close(net(x, v[:, 0]).scores, spread.scores)


def test_dropout_drops_whole_vectors_and_stays_equivariant():
    net, q, (x, v) = build(dropout=0.5), rotation(3), normal(2, 6, 3, 5, 3)
    torch.manual_seed(1)
    plain = net(x, v)
    torch.manual_seed(1)
    moved = net(x @ q.T, v @ q.T)
    assert_close(moved.scores, plain.scores, rtol=0, atol=1e-9)
    assert_close(moved.vectors, q @ plain.vectors, rtol=0, atol=1e-9)
    again = net(x, v)
    assert not torch.allclose(again.scores, plain.scores)
    assert torch.equal(again.vectors, plain.vectors)  # nothing is dropped on the way to the frame
    net.eval()
    assert torch.equal(net(x, v).scores, net(x, v).scores)


@both_dtypes
@pytest.mark.parametrize("training", [True, False])
def test_gradients_at_zero_vectors_are_finite(training, dtype):
    net = build(dtype=dtype).train(training)
    x = normal(2, 4, 3, 5, 3, dtype=dtype)
    x[:, 0], x[1], x[0, 1, :, 2] = 0, 0, 0
    x.requires_grad_()
    features = net(*x)
    (features.scores.square().sum() + features.vectors.square().sum()).backward()
    trained = [parameter for parameter in net.parameters() if parameter.requires_grad]
    assert all(torch.isfinite(tensor.grad).all() for tensor in (x, *trained))
    assert len(list(net.parameters())) - len(trained) == 3


def test_autocast_is_off_inside():
    net, (x, v) = build(dtype=torch.float32).eval(), normal(2, 6, 3, 5, 3, dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(net(x, v).scores, net(x, v).scores)
        features = net(x, v)
    assert torch.equal(features.scores, net(x, v).scores)


def test_protocol():
    net = VNDGCNN(3)
    assert (net.perturbs, net.extra_noise) == ((0, 1, 2), 0)


@pytest.mark.parametrize(
    "options",
    [
        {"in_channels": 0},
        {"hidden": 5},
        {"neighbours": 0},
        {"d": 0},
        {"d": True},
        {"dropout": 1.0},
        {"scores": False, "vectors": False},
    ],
    ids=str,
)
def test_refuses_malformed_sizes(options):
    with pytest.raises(RangeError, match=r"Expected .* \(got"):
        VNDGCNN(**{"in_channels": 2, **options})


def test_refuses_malformed_calls():
    net, x = VNDGCNN(2), torch.zeros(4, 3, 5, 3)
    with pytest.raises(ShapeError, match=r"Expected 2 inputs, one for each channel \(got 1\)"):
        net(x)
    with pytest.raises(ShapeError, match=r"Expected input 1 to be .* \(got \(4, 3, 5, 2\)\)"):
        net(x, x[..., :2])
    with pytest.raises(ShapeError, match=r"Expected input 1 to fit \(4, 3, 5\)"):
        net(x, x[:, :2])
    with pytest.raises(ShapeError, match="n at least 1"):
        net(x[:, :, :0], x[:, :, :0])
    with pytest.raises(DtypeError, match="like input 0"):
        net(x, x.double())
    with pytest.raises(DtypeError, match=r"float32 or float64 \(got torch.float16\)"):
        net(x.half(), x.half())
    with pytest.raises(DtypeError, match="floating"):
        net(x.long(), x.long())
    with pytest.raises(MaskError, match=r"shape \(4, 5\) \(got \(4, 3\)\)"):
        net(x, x, mask=torch.ones(4, 3, dtype=torch.bool))
    with pytest.raises(MaskError, match=r"boolean \(got torch.int64\)"):
        net(x, x, mask=torch.ones(4, 5, dtype=torch.long))
