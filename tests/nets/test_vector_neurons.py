import pytest
import torch
from torch.testing import assert_close

from probsym.errors import RangeError
from probsym.nets.vector_neurons import VectorLeakyReLU, VectorLinear, VectorMaxPool
from probsym.ops import gram_schmidt

DTYPES = [torch.float32, torch.float64]
both_dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=str)
TOLERANCE = {torch.float32: {"rtol": 1e-3, "atol": 1e-4}, torch.float64: {"rtol": 1e-8, "atol": 1e-10}}


def normal(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def rotation(d, dtype=torch.float64):
    return gram_schmidt(normal(d, d, seed=8)).to(dtype)


def turn(q, x):
    return torch.einsum("ab,b...->a...", q, x)


def some_mask(*shape):
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(3)) < 0.6
    mask[0] = True
    return mask


def leaky_layer(inputs, outputs, dtype=torch.float64, **options):
    torch.manual_seed(0)
    layer = VectorLeakyReLU(inputs, outputs, **options).to(dtype)
    with torch.no_grad():
        layer.norm.weight.normal_()
        layer.norm.bias.normal_()
        layer.norm.running_mean.normal_()
        layer.norm.running_var.uniform_(0.5, 2)
    return layer


def leaky_literally(layer, x, mask):
    """Vector by vector, channel by channel."""
    d, rows, n, _ = x.shape
    outputs = len(layer.feature.weight)
    places = [(r, i) for r in range(rows) for i in range(n) if mask[r, i]]
    q = {(r, i, o): x[:, r, i] @ layer.feature.weight[o] for r, i in places for o in range(outputs)}
    y = torch.zeros(d, rows, n, outputs, dtype=x.dtype)
    for o in range(outputs):
        lengths = torch.stack([q[r, i, o].square().sum().sqrt() for r, i in places])
        mean, variance = layer.norm.running_mean[o], layer.norm.running_var[o]
        if layer.training:
            mean, variance = lengths.mean(), lengths.var(unbiased=False)
        wanted = (lengths - mean) / (variance + 1e-5).sqrt() * layer.norm.weight[o] + layer.norm.bias[o]
        for (r, i), length, new in zip(places, lengths, wanted, strict=True):
            vector = q[r, i, o] / length * new
            k = x[:, r, i] @ layer.direction.weight[o if len(layer.direction.weight) > 1 else 0]
            if vector @ k < 0:
                along = (vector @ k) / (k @ k) * k
                vector = vector - along + 0.2 * along
            y[:, r, i, o] = vector
    return y


@both_dtypes
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("d", [1, 3])
def test_leaky_relu_agrees_with_the_formula(d, masked, shared, training, dtype):
    layer = leaky_layer(2, 3, dtype, shared=shared).train(training)
    mask = some_mask(4, 5)
    given, mask = (mask, mask) if masked else (None, torch.ones_like(mask))
    x = normal(d, 4, 5, 2, dtype=dtype)
    leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    output, wanted = layer(leaf, given) * mask.unsqueeze(-1), leaky_literally(layer, other, mask)
    assert_close(output, wanted, **TOLERANCE[dtype])
    got = torch.autograd.grad(output.sin().sum(), [leaf, *layer.parameters()])
    want = torch.autograd.grad(wanted.sin().sum(), [other, *layer.parameters()])
    # in one dimension some lengths are near the floor, where the layer is smooth and the formula has a jump
    if d > 1 or dtype == torch.float64:
        error = 1e-7 if dtype == torch.float64 else 1e-2
        assert_close(got, want, rtol=error, atol=error)


def test_leaky_relu_bends_half_of_the_space():
    layer = leaky_layer(2, 3).eval()
    x = normal(3, 4, 5, 2)
    q, k = layer.feature(x), layer.direction(x)
    q = q * layer.norm(q.norm(dim=0)) / q.norm(dim=0)
    y, dot = layer(x), (q * k).sum(0)
    assert (dot > 0).any()
    assert (dot < 0).any()
    assert_close(y[:, dot > 0], q[:, dot > 0])
    assert_close((y * k).sum(0)[dot < 0], 0.2 * dot[dot < 0])


@pytest.mark.parametrize("d", [1, 2, 3, 5])
def test_layers_follow_rotations(d):
    x, q = normal(d, 4, 5, 2), rotation(d)
    for layer in (VectorLinear(2, 3).double(), leaky_layer(2, 3), leaky_layer(2, 3, shared=True)):
        assert_close(layer(turn(q, x)), turn(q, layer(x)), rtol=0, atol=1e-10)
    pool = VectorMaxPool(2).double()
    assert_close(pool(turn(q, x)), turn(q, pool(x)), rtol=0, atol=1e-10)


@both_dtypes
@pytest.mark.parametrize("least", [0.0, 1.0])
def test_rounding_has_no_direction(least, dtype):
    """Vectors of one row that are rounding beside another come out as if they were zero."""
    layer = leaky_layer(2, 3, dtype, least=least).eval()
    x = normal(3, 1, 2, 2, dtype=dtype)
    x[:, :, 1] *= torch.finfo(dtype).eps
    y = layer(x)
    assert y[:, :, 1].abs().max() < 1e-5 * y[:, :, 0].abs().max()


@both_dtypes
@pytest.mark.parametrize("training", [True, False])
def test_zero_vectors_have_a_finite_gradient(training, dtype):
    for x in (torch.zeros(3, 4, 5, 2, dtype=dtype), normal(3, 4, 5, 2, dtype=dtype)):
        x[:, :2] = 0
        leaf, layer = x.requires_grad_(), leaky_layer(2, 3, dtype, least=0.0).train(training)
        y = layer(leaf)
        y.sum().backward()
        assert torch.equal(y[:, :2], torch.zeros_like(y[:, :2]))
        assert all(torch.isfinite(tensor.grad).all() for tensor in (leaf, *layer.parameters()))


@both_dtypes
@pytest.mark.parametrize("masked", [True, False])
def test_pool_takes_the_vector_with_the_largest_product(masked, dtype):
    pool, x, mask = VectorMaxPool(4).to(dtype), normal(3, 6, 5, 4, dtype=dtype).requires_grad_(), some_mask(6, 5)
    pooled = pool(x, mask if masked else None)
    wanted = torch.zeros_like(pooled)
    for i in range(5):
        for channel in range(4):
            best = None
            for j in range(6):
                value = x[:, j, i, channel] @ (x[:, j, i] @ pool.direction.weight[channel])
                if (mask[j, i] or not masked) and (best is None or value > best[0]):
                    best = value, j
            wanted[:, i, channel] = x[:, best[1], i, channel]
    assert torch.equal(pooled, wanted)
    (gradient,) = torch.autograd.grad(pooled.sum(), x)
    assert_close(gradient.sum((1,)), torch.ones(3, 5, 4, dtype=dtype))


def test_pool_shares_between_equals():
    pool, x = VectorMaxPool(1).double(), normal(3, 1, 1, 1)
    with torch.no_grad():
        pool.direction.weight.fill_(1)
    mirrored = torch.cat([x, -x * (1 + 1e-15), 0.5 * x], 1)
    assert pool(mirrored).abs().max() < 1e-14
    assert torch.equal(pool(mirrored, torch.tensor([[True], [False], [True]])), x[:, 0])


def test_pool_of_nothing_is_zero():
    assert torch.equal(VectorMaxPool(2)(torch.ones(3, 4, 5, 2), some_mask(4, 5) & False), torch.zeros(3, 5, 2))


def test_pool_direction_waits_for_no_gradient():
    assert [parameter.requires_grad for parameter in VectorMaxPool(2).parameters()] == [False]


@pytest.mark.parametrize("sizes", [(0, 1), (1, 0), (-2, 1), (1.5, 1)])
def test_refuses_malformed_sizes(sizes):
    for layer in (VectorLinear, VectorLeakyReLU):
        with pytest.raises(RangeError, match=r"1 or more \(got"):
            layer(*sizes)
