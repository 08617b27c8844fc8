"""A net and noise: what the net is given, what comes of what it returns, and the cases that the paper proves."""

import itertools
import math

import pytest
import torch
from scipy import stats
from torch import nn

from probsym import Symmetrized, bases, errors, groups, nets, samplers, testing
from probsym.nets import Features
from probsym.ops import gram_schmidt, soft_sort

DTYPES = [torch.float64, torch.float32]
NEVER = 1e-4
S = {"n": groups.S()}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def mlp(inputs, shape, dtype=torch.float64, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return bases.MLP([inputs, 12, math.prod(shape)], activation="tanh", shape=shape).to(dtype)


class Spy(nn.Module):
    """Keeps what it was given; scores are the first input's first channel."""

    def __init__(self, perturbs=None, extra_noise=0):
        super().__init__()
        if perturbs is not None:
            self.perturbs = perturbs
        self.extra_noise, self.weight = extra_noise, nn.Parameter(torch.ones(()))

    def forward(self, *inputs, mask=None):
        self.seen, self.mask = inputs, mask
        self.autocast = torch.is_autocast_enabled("cpu")
        x = next(tensor for tensor in inputs if tensor.dim() == 4)
        return Features(scores=x[..., 0] * self.weight)


class Axes(nn.Module):
    """Vectors as they are given: the first d rows of the first input."""

    perturbs = (0,)

    def forward(self, x, *others, mask=None):
        self.seen = x
        return Features(vectors=x[..., :3, :].mT, scores=x.square().sum(-1))


# what the net is given


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("eta", [1.0, 0.3])
def test_noise_is_uniform_where_only_permutations_act(eta, dtype):
    net = Spy((0,))
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(net, noise=eta))
    x = torch.full((2, 5, 2), 7.0, dtype=dtype)
    model(x, samples=500, generator=seeded())
    noise = (net.seen[0] - 7).double()
    assert noise.shape == (2, 500, 5, 2)
    assert net.seen[0].dtype == dtype
    assert -1e-6 <= noise.min() < 0.01 * eta
    assert 0.99 * eta < noise.max() <= eta + 1e-6
    assert stats.kstest(noise.flatten().numpy() / eta, "uniform").pvalue > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bound", [{"d": groups.O(3)}, {"d": groups.SE(3)}, {"d": groups.SO(3), "n": groups.S()}])
def test_noise_is_normal_where_a_rotation_acts(bound, dtype):
    net = Axes()
    term = "n d:point" if isinstance(bound["d"], groups.E) else "n d"
    model = Symmetrized(lambda x: x[:, 0], f"{term} -> d", bound, samplers.Learned(net, noise=0.5))
    model(torch.full((2, 5, 3), 7.0, dtype=dtype), samples=300, generator=seeded())
    noise = (net.seen - (0 if "point" in term else 7)).double()  # points are seen about their centroid
    assert stats.kstest(noise.flatten().numpy() / 0.5, "norm").pvalue > NEVER


def test_noise_is_uniform_on_images_and_normal_on_planar_vectors():
    for signature, key, law in (("(h w) c -> c", "h w", "uniform"), ("m d -> d", "d", "norm")):
        seen = []
        net = nets.Lifted(lambda x: seen.append(x) or x.flatten(1)[:, 0], groups.C(1))  # noqa: B023
        model = Symmetrized(lambda x: x.flatten(1)[:, :2], signature, {key: groups.C(1)}, samplers.Learned(net))
        model(torch.zeros(2, 4, 4, 2) if key == "h w" else torch.zeros(2, 4, 2), samples=300, generator=seeded())
        assert stats.kstest(seen[0].flatten().numpy(), law).pvalue > NEVER


@pytest.mark.parametrize("reads", [None, (2, 0), (1, 2)])
@pytest.mark.parametrize("perturbs", [(0,), (1,), (0, 1), None])
def test_only_perturbed_inputs_have_draws(perturbs, reads):
    net = Spy(perturbs)
    inputs = torch.randn(2, 4, 1), torch.randn(2, 4, 3), torch.randn(2, 4, 4)
    model = Symmetrized(lambda x, y, a: x[:, 0], "n c, n e, n n -> c", S, samplers.Learned(net, reads=reads))
    model(*inputs, samples=6)
    read = (0, 1, 2) if reads is None else reads
    assert len(net.seen) == len(read)
    for place, (index, seen) in enumerate(zip(read, net.seen, strict=True)):
        if perturbs is None or place in perturbs:
            assert seen.shape == (2, 6, *inputs[index].shape[1:])
            off = seen - inputs[index].unsqueeze(1)
            assert off.min() + 1e-5 >= 0
            assert off.max() <= 1 + 1e-5
            assert off.std(1).min() > 0
        else:
            assert seen is inputs[index]  # neither repeated nor copied


def test_mask_and_padding():
    net, mask = Spy((0,)), torch.tensor([[1, 0, 1], [1, 1, 0]], dtype=torch.bool)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(net))
    model(torch.full((2, 3, 2), torch.nan).masked_fill(mask[..., None], 2.0), mask=mask, samples=5)
    assert net.mask is mask
    assert not net.seen[0].transpose(1, 2)[~mask].any()
    assert bool((net.seen[0].transpose(1, 2)[mask] >= 2).all())


def test_two_masked_axes_reach_the_shipped_nets():
    """An unbound axis can be masked too: channels here."""
    model = Symmetrized(lambda x, a: x.sum((1, 2)), "n c, n n -> ", S, samplers.Learned(nets.GIN(2)))
    x, a = torch.randn(3, 4, 2), torch.ones(3, 4, 4)
    nodes, channels = torch.arange(4).expand(3, 4) < 3, torch.tensor([[True, False]] * 3)
    for mask in ({"c": channels}, {"n": nodes, "c": channels}):
        assert model(x, a, mask=mask).shape == (3,)


@pytest.mark.parametrize("channels", [1, 3])
def test_extra_noise(channels):
    net = Spy((), channels)
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", S, samplers.Learned(net, noise=0.5))
    model(torch.ones(2, 4, 4), samples=200, generator=seeded())
    assert net.seen[0].shape == (2, 200, 4, channels)
    assert net.seen[1].shape == (2, 4, 4)
    assert stats.kstest(net.seen[0].flatten().numpy() / 0.5, "uniform").pvalue > NEVER


def test_extra_noise_whatever_axes_are_called():
    model = Symmetrized(lambda x, a: a[:, 0], "n noise, n n -> n", S, samplers.Learned(nets.GIN(0), reads=(1,)))
    assert model(torch.ones(2, 4, 3), torch.ones(2, 4, 4)).shape == (2, 4)


def test_gin_without_features_is_equivariant_and_random():
    a = (torch.rand(3, 5, 5, dtype=torch.float64, generator=seeded()) < 0.5).double()
    a = a.triu(1) + a.triu(1).mT
    sampler = samplers.Learned(nets.GIN(0, hidden=8, layers=2))
    model = Symmetrized(mlp(25, (5, 5)), "n n -> n n", S, sampler, samples=20).double().eval()
    assert testing.assert_equivariant(model, a, generator=seeded()).unclear < 60
    assert len(model.estimate(a).elements["n"][0].unique(dim=0)) > 1


# gradients


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_gradient_of_scores_is_that_of_soft_sort(masked, dtype):
    class Scores(nn.Module):
        perturbs = (0,)

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.tensor([0.7, -1.1], dtype=dtype))

        def forward(self, x, mask=None):
            return Features(scores=x @ self.weight)

    x = torch.randn(2, 4, 2, dtype=dtype, generator=seeded(1))
    mask = torch.tensor([[1, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.bool) if masked else None
    x = x if mask is None else torch.where(mask[..., None], x, 0)
    base, net = mlp(8, (4, 2), dtype).requires_grad_(False), Scores()
    model = Symmetrized(base, "n c -> n c", S, samplers.Learned(net, tau=0.1), samples=3)
    noise = model.noise(x, mask=mask, generator=seeded())
    weights = torch.randn(2, 4, 2, dtype=dtype, generator=seeded(2))
    (model(x, mask=mask, noise=noise) * weights).sum().backward()
    weight = net.weight.detach().clone().requires_grad_()
    moved = x.unsqueeze(1) + noise.inputs[0]
    keep = None if mask is None else mask.unsqueeze(1)
    moved = moved if keep is None else torch.where(keep[..., None], moved, 0)
    order = soft_sort(moved @ weight, mask=keep, tau=0.1)
    y = base(order.sort(x.unsqueeze(1), -2).flatten(0, 1)).unflatten(0, (2, 3))
    (order.unsort(y, -2).mean(1) * weights).sum().backward()
    assert net.weight.grad.abs().sum() > 0
    torch.testing.assert_close(net.weight.grad, weight.grad)


def test_gradient_of_vectors_is_that_of_gram_schmidt():
    x = torch.randn(2, 4, 3, dtype=torch.float64, generator=seeded(1))

    class Mixed(nn.Module):
        perturbs = (0,)

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(4, 3, dtype=torch.float64, generator=seeded(3)))

        def forward(self, x, mask=None):
            return x.mT @ self.weight

    net, base = Mixed(), mlp(12, (3,)).requires_grad_(False)
    model = Symmetrized(base, "m d -> d", {"d": groups.O(3)}, samplers.Learned(net), samples=3)
    noise = model.noise(x, generator=seeded())
    model(x, noise=noise).sum().backward()
    weight = net.weight.detach().clone().requires_grad_()
    q = gram_schmidt((x.unsqueeze(1) + noise.inputs[0]).mT @ weight)
    y = base((x.unsqueeze(1) @ q).flatten(0, 1)).unflatten(0, (2, 3)).unsqueeze(-1)
    (q @ y).squeeze(-1).mean(1).sum().backward()
    torch.testing.assert_close(net.weight.grad, weight.grad)
    assert net.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("group", [groups.C(4), groups.D(3)], ids=repr)
def test_gradient_of_logits_is_that_of_the_softmax(group):
    class Logits(nn.Module):
        def __init__(self):
            super().__init__()
            self.logits = nn.Parameter(torch.randn(group.order, dtype=torch.float64, generator=seeded(4)))

        def forward(self, x, mask=None):
            return Features(logits=self.logits.expand(*x.shape[:2], -1))

    net, x = Logits(), torch.randn(2, 4, 2, dtype=torch.float64, generator=seeded(5))
    model = Symmetrized(lambda x: x[:, 0, 0].pow(2), "m d -> ", {"d": group}, samplers.Learned(net, tau=0.5))
    model(x).sum().backward()
    logits = net.logits.detach().clone().requires_grad_()
    turned = torch.stack([group.act(group.inverse(g), x[:, 0].view(2, 2)) for g in group.elements().unbind()])
    chosen = turned[int(logits.argmax()), :, 0]
    (torch.softmax(logits / 0.5, 0) @ turned[..., 0] * 2 * chosen).sum().backward()  # df/dy at the element chosen
    torch.testing.assert_close(net.logits.grad, logits.grad)
    assert logits.grad.abs().sum() > 0


# the propositions of the paper


class SignedAxes(nn.Module):
    """Principal axes of the first input, with the signs of their products with noise: uniform on the frame."""

    perturbs = (1,)

    def forward(self, x, noisy, mask=None):
        _, vectors = torch.linalg.eigh(x.mT @ x)
        noise = (noisy - x.unsqueeze(1)).sum(-2)
        axes = vectors.flip(-1).unsqueeze(1)
        return Features(vectors=axes * (noise.unsqueeze(-2) @ axes).sign())


@pytest.mark.parametrize("group", [groups.O(3), groups.SO(3)], ids=repr)
def test_proposition_1_frame_averaging_is_a_special_case(group):
    x = torch.randn(1, 5, 3, dtype=torch.float64, generator=seeded())
    base = mlp(30, (2,)).requires_grad_(False)
    frame = Symmetrized(base, "m d, m d -> k", {"d": group}, samplers.Frame()).estimate(x, x)
    learned = Symmetrized(base, "m d, m d -> k", {"d": group}, samplers.Learned(SignedAxes()))
    estimate = learned.estimate(x, x, samples=4000, generator=seeded())
    assert ((estimate.mean - frame.mean).abs() < 5 * estimate.stderr).all()
    counts = [(estimate.elements["d"][0] - q).abs().amax((-2, -1)).lt(1e-9).sum() for q in frame.elements["d"][0]]
    assert sum(counts) == 4000
    assert stats.chisquare(counts).pvalue > NEVER


def test_proposition_1_for_graphs():
    """Ranks of the nodes in the Laplacian's frame as scores, with ties that noise breaks."""
    a = torch.zeros(1, 5, 5, dtype=torch.float64)
    for i in range(4):
        a[0, i, i + 1] = a[0, i + 1, i] = 1
    frame = Symmetrized(lambda a: a[:, 0], "n n -> n", S, samplers.Frame()).estimate(a)
    ranks = torch.zeros(5, dtype=torch.float64)
    ranks[frame.elements["n"][0, 0]] = torch.arange(5, dtype=torch.float64).flip(0)
    ranks = torch.stack([torch.minimum(ranks, ranks.flip(0))])  # mirrored nodes share one

    class Ranks(nn.Module):
        perturbs, extra_noise = (), 1

        def forward(self, noise, a, mask=None):
            return Features(scores=10 * ranks.unsqueeze(1) + noise[..., 0])

    model = Symmetrized(lambda a: a[:, 0], "n n -> n", S, samplers.Learned(Ranks()))
    drawn = model.estimate(a, samples=2000, generator=seeded()).elements["n"][0]
    counts = [(drawn == p).all(-1).sum() for p in frame.elements["n"][0]]
    assert sum(counts) == 2000
    assert stats.chisquare(counts).pvalue > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("joint", [False, True])
def test_without_noise_it_is_canonicalization(joint, dtype):
    torch.manual_seed(0)
    if joint:
        net, bound, signature = (
            nets.VNDGCNN(1, hidden=24),
            {"n": groups.S(), "d": groups.E(3)},
            "n d:point -> n d:point",
        )
        inputs = [torch.randn(3, 5, 3, dtype=dtype)]
    else:
        net, bound, signature = nets.GIN(3, hidden=8), S, "n c, n n -> n c"
        inputs = [torch.randn(3, 5, 3, dtype=dtype), torch.ones(3, 5, 5, dtype=dtype)]
    net.to(dtype).eval()
    here, there = (
        Symmetrized(lambda *x: x[0].cumsum(1), signature, bound, sampler)
        for sampler in (samplers.Learned(net, noise=0.0), samplers.Canonical(net))
    )
    noise = here.noise(*inputs, generator=seeded())
    assert not noise.inputs
    assert torch.equal(here(*inputs, noise=noise), there(*inputs, noise=noise))
    assert torch.equal(here(*inputs), there(*inputs))  # generic inputs leave nothing to the noise


# fixed noise


def fixed(seed=0, noise=1.0, **options):
    net = Spy((0,))
    sampler = samplers.Learned(net, noise, fixed_noise=True, seed=seed)
    return Symmetrized(lambda x: x[:, 0] - x[:, 1], "n c -> c", S, sampler, samples=6, **options).eval()


def test_fixed_noise_belongs_to_the_example():
    model, x = fixed(), torch.zeros(4, 3, 2)
    noise = model.noise(x, index=torch.tensor([5, 3, 9, 3]))
    alone = model.noise(x[:1], index=torch.tensor([3]))
    assert torch.equal(noise.inputs[0][1], noise.inputs[0][3])
    assert torch.equal(noise.inputs[0][1], alone.inputs[0][0])
    assert torch.equal(noise.ties["n"][1], alone.ties["n"][0])
    assert not torch.isin(noise.inputs[0][0], noise.inputs[0][1]).any()
    assert not torch.isin(noise.ties["n"], noise.inputs[0]).any()
    reseeded = fixed(seed=1).noise(x, index=torch.tensor([5, 3, 9, 3]))
    assert not torch.isin(reseeded.inputs[0], noise.inputs[0]).any()


@pytest.mark.parametrize("noise", [1.0, 0.0])
def test_fixed_noise_goes_on_where_it_stopped(noise):
    """So do the tie-breaks, which alone decide without noise: two items tie. Rounds are of 30, 15 and 15 draws."""
    x = torch.tensor([[0.0, 0.0], [0.1, 0.2], [0.1, 0.5], [0.2, 0.9]]).expand(2, 4, 2)
    model, index = fixed(noise=noise), torch.tensor([1, 2])
    whole = model.estimate(x, index=index, samples=60)
    parts = model.estimate(x, index=index, samples=4, tol=1e-9, max_samples=60)
    chunks = model.estimate(x, index=index, samples=60, chunk=25)
    assert len(parts.chunks) == 3
    assert torch.equal(whole.elements["n"], parts.elements["n"])
    assert torch.equal(whole.elements["n"], chunks.elements["n"])
    assert torch.equal(model(x, index=index), model(x, index=index))
    assert not torch.equal(model(x, index=index), model(x, index=index + 7))


@pytest.mark.parametrize("inputs", [1, 4])
def test_fixed_noise_of_all_parts_is_independent(inputs):
    class Any(nn.Module):
        def forward(self, *x, mask=None):
            return Features(scores=x[0][..., 0], vectors=torch.eye(3).expand(*x[0].shape[:2], 3, 3))

    signature = ", ".join(["n d"] * inputs) + " -> "
    bound = {"n": groups.S(), "d": groups.O(3)}
    model = Symmetrized(lambda *x: x[0][:, 0, 0], signature, bound, samplers.Learned(Any(), fixed_noise=True))
    x = torch.zeros(4000, 3, 3)
    noise = model.noise(*[x] * inputs, index=torch.arange(4000))
    columns = torch.stack([tensor.flatten(1)[:, 0] for tensor in noise.tensors()], 1).double()
    for table in (columns, columns.abs()):
        off = torch.corrcoef(table.T) - torch.eye(table.shape[1], dtype=torch.float64)
        assert off.abs().max() < 0.08


def test_fixed_noise_is_not_equivariant_and_the_test_says_so():
    model, x = fixed(), torch.randn(3, 5, 2, generator=seeded())
    with pytest.raises(AssertionError, match="fixed noise belongs to the example and does not move"):
        testing.assert_equivariant(model, x, index=torch.arange(3), generator=seeded())


def test_fixed_noise_needs_an_index():
    with pytest.raises(errors.SignatureError, match=r"Expected index=ids.*\(got none\)"):
        fixed()(torch.zeros(2, 3, 2))


# precision


def test_autocast_does_not_reach_the_sampler():
    net, seen = Spy((0,)), []
    linear = nn.Linear(2, 2).requires_grad_(False)
    model = Symmetrized(lambda x: seen.append(linear(x).dtype) or x[:, 0], "n c -> c", S, samplers.Learned(net))
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.randn(2, 3, 2))
    assert net.seen[0].dtype == torch.float32
    assert not net.autocast
    assert seen == [torch.bfloat16]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("before", [torch.float32, torch.float64])
def test_half_precision_leaves_the_sampler_in_float32(dtype, before):
    model = Symmetrized(Corner(), "n c, n n -> k", S, samplers.Learned(nets.GIN(2, hidden=8)), samples=4).to(before)
    weights = [p.detach().clone() for p in model.sampler.parameters()]
    model = model.to(dtype)
    assert {p.dtype for p in model.base.parameters()} == {dtype}
    assert not {p.dtype for p in model.sampler.state_dict().values()} & {torch.float16, torch.bfloat16}
    for parameter, kept in zip(model.sampler.parameters(), weights, strict=True):
        torch.testing.assert_close(parameter.double(), kept.double())
    assert model(torch.randn(2, 4, 2, dtype=dtype), torch.ones(2, 4, 4, dtype=dtype)).dtype == dtype


class Corner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 3)

    def forward(self, x, a):
        return self.linear(x[:, 0])


# malformed calls


class Returns(nn.Module):
    def __init__(self, value, perturbs=(0,)):
        super().__init__()
        self.value, self.perturbs = value, perturbs

    def forward(self, *inputs, mask=None):
        return self.value


B, K, N = 2, 3, 4
TWO = {"n": groups.S(), "d": groups.O(3)}


@pytest.mark.parametrize(
    ("bound", "value", "error", "message"),
    [
        (S, None, errors.SignatureError, r"a tensor or Features \(got NoneType\)"),
        (S, (torch.zeros(B, K, N),), errors.SignatureError, r"a tensor or Features \(got tuple\)"),
        (
            S,
            torch.zeros(B, K, N + 1),
            errors.ShapeError,
            r"scores of shape \(2, 3, 4\) .* axis 'n' \(got \(2, 3, 5\)\)",
        ),
        (S, torch.zeros(B, N + 1), errors.ShapeError, r"scores of shape \(2, 3, 4\).*\(got \(2, 5\)\)"),
        (S, torch.zeros(B, 2, N), errors.ShapeError, r"\(got \(2, 2, 4\)\)"),
        (S, torch.zeros(1, K, N), errors.ShapeError, r"\(got \(1, 3, 4\)\)"),
        (S, torch.zeros(B, K, N, dtype=torch.long), errors.DtypeError, r"to be floating \(got torch.int64\)"),
        (
            S,
            Features(vectors=torch.zeros(B, K, 3, 3)),
            errors.SignatureError,
            r"scores for S\(\) on axis 'n' \(got none",
        ),
        (S, Features(scores={"m": torch.zeros(B, K, N)}), errors.SignatureError, r"on axis 'n' \(got none\)"),
        (TWO, torch.zeros(B, K, N), errors.SignatureError, r"with \['scores', 'vectors'\] \(got one tensor\)"),
        (
            TWO,
            Features(scores=torch.zeros(B, K, N)),
            errors.SignatureError,
            r"vectors for O\(3\) on axis 'd' \(got none",
        ),
        (
            TWO,
            Features(scores=torch.zeros(B, K, N), vectors=torch.zeros(B, K, 3, 4)),
            errors.ShapeError,
            r"vectors of shape \(2, 3, 3, 3\).*\(got \(2, 3, 3, 4\)\)",
        ),
        (
            {"n": groups.S(), "d": groups.S()},
            Features(scores=torch.zeros(B, K, N)),
            errors.SignatureError,
            r"scores as \{axis: tensor\} \(got one tensor for several axes\)",
        ),
        ({"d": groups.C(3)}, torch.zeros(B, K, 4), errors.ShapeError, r"logits of shape"),
    ],
)
def test_refuses_what_a_net_returns(bound, value, error, message):
    d = 2 if isinstance(bound.get("d"), groups.C) else 3
    model = Symmetrized(lambda x: x[:, 0, 0], "n d -> ", bound, samplers.Learned(Returns(value)), samples=K)
    with pytest.raises(error, match=message):
        model(torch.zeros(B, N, d))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"noise": -0.1}, errors.RangeError, r"noise to be finite and 0 or more \(got -0.1\)"),
        ({"noise": math.nan}, errors.RangeError, r"noise to be finite and 0 or more \(got nan\)"),
        ({"tau": 0.0}, errors.RangeError, r"tau to be positive \(got 0.0\)"),
        ({"tau": math.nan}, errors.RangeError, r"tau to be positive \(got nan\)"),
        ({"reads": (1,)}, errors.SignatureError, r"different numbers below 1 \(got \(1,\)\)"),
        ({"reads": (-1,)}, errors.SignatureError, r"different numbers below 1 \(got \(-1,\)\)"),
        ({"reads": (0, 0)}, errors.SignatureError, r"different numbers below 1 \(got \(0, 0\)\)"),
    ],
)
@pytest.mark.parametrize("name", ["Learned", "Canonical"])
def test_refuses_options(name, options, error, message):
    if name == "Canonical" and "noise" in options:
        pytest.skip("it has none")
    with pytest.raises(error, match=message):
        Symmetrized(lambda x: x[:, 0], "n c -> c", S, getattr(samplers, name)(Returns(None), **options))


def test_refuses_nets_that_want_what_is_not_there():
    for perturbs in ((1,), (-1,)):
        with pytest.raises(errors.SignatureError, match=r"perturb some of the 1 inputs .*\(got \(-?1,\)\)"):
            Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(Returns(None, perturbs)))
    for perturbs in (0, ("n",)):
        with pytest.raises(errors.SignatureError, match="Expected perturbs of the net to be a sequence of input num"):
            Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(Returns(None, perturbs)))
    with pytest.raises(errors.SignatureError, match=r"Expected one axis bound to S .*\(got \[\]\)"):
        Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": groups.O(3)}, samplers.Learned(Spy((), extra_noise=1)))


READS = r"reads= of the sampler says which inputs, in this order"
POINTS = {"d": groups.E(3)}
BOTH = {"n": groups.S(), "d": groups.O(3)}


@pytest.mark.parametrize(
    ("net", "inputs", "bound", "options", "message"),
    [
        (
            lambda: nets.VNDGCNN(1),
            "n d:point, n c",
            POINTS,
            {},
            "1 inputs of vectors such as 'n d' .got 'n d:point', 'n c'",
        ),
        (
            lambda: nets.VNDGCNN(1, scalars=2),
            "n c, n d:point",
            POINTS,
            {},
            "then scalars such as 'n c' .got 'n c', 'n d:p",
        ),
        (lambda: nets.VNDGCNN(1, scalars=2), "n c, n d", BOTH, {"reads": (1,)}, "then scalars .* .got 'n d'"),
        (lambda: nets.VNDGCNN(2), "n c, n d", BOTH, {}, "2 inputs of vectors"),
        (lambda: nets.VNDGCNN(1), "n d:axial", BOTH, {}, "got 'n d:axial'"),
        (lambda: nets.VNDGCNN(1), "n n d", BOTH, {}, "got 'n n d'"),
        (lambda: nets.GIN(2), "n n, n c", S, {}, "features such as 'n c', then pairs such as 'n n' .got 'n n', 'n c'"),
        (lambda: nets.GIN(2), "n c", S, {}, "GIN to take 1 inputs, for 'n c'"),
        (lambda: nets.GIN(0), "n c", S, {}, "GIN to read pairs such as 'n n' .got 'n c'"),
        (lambda: nets.GIN(2), "n c, n n, n e", S, {}, "GIN to take 3 inputs, for 'n c', 'n n', 'n e'"),
        (lambda: nets.DeepSets(2), "n c, n e", S, {}, "DeepSets to read 1 inputs .*got 'n c', 'n e'"),
        (
            lambda: nets.Lifted(len, groups.C(4)),
            "n d",
            {"d": groups.D(4)},
            {},
            r"an axis bound to C\(4\) or an equal group .got 'n d'",
        ),
        (lambda: nn.Linear(2, 2), "n c, n e", S, {}, "Linear to take 2 inputs, for 'n c', 'n e'"),
    ],
)
def test_nets_that_do_not_fit_their_inputs_are_refused_by_reads(net, inputs, bound, options, message):
    with pytest.raises(errors.SignatureError, match=message) as caught:
        Symmetrized(lambda *x: x[0][:, 0], f"{inputs} -> k", bound, samplers.Learned(net(), **options))
    assert READS in str(caught.value)


@pytest.mark.parametrize(
    ("net", "inputs", "bound", "message"),
    [
        (lambda: nets.VNDGCNN(1, scores=False), "n d", {"d": groups.E(2)}, r"on 'd' that moves d=3 .* \(got E\(2\)\)"),
        (
            lambda: nets.VNDGCNN(1),
            "n d:point",
            {"d": groups.SE(2), **S},
            r"'d:point' that moves d=3 .* \(got SE\(2\)\)",
        ),
        (
            lambda: nets.DeepSets(3),
            "n d",
            {"d": groups.SO(3)},
            r"DeepSets to return vectors for SO\(3\) on axis 'd' \(got a net that returns scores\)",
        ),
        (lambda: nets.VNDGCNN(1, scores=False), "n d", BOTH, r"scores for S\(\) on axis 'n' .*returns vectors\)"),
        (lambda: nets.VNDGCNN(1, vectors=False), "n d", BOTH, r"vectors for O\(3\) on axis 'd' .*returns scores\)"),
        (lambda: nets.VNDGCNN(1, d=2), "n d", {"d": groups.C(4)}, r"logits for C\(4\).*returns scores and vectors\)"),
        (lambda: nets.GIN(3), "n d, n n", BOTH, r"GIN to return vectors for O\(3\)"),
        (lambda: nets.Lifted(len, groups.C(4)), "n d", {"d": groups.C(4), **S}, r"Lifted to return scores for S\(\)"),
        (lambda: nets.DeepSets, "n c", S, r"Expected net .*\(got the class DeepSets: write DeepSets\(...\)\)"),
    ],
)
@pytest.mark.parametrize("sampler", [samplers.Learned, samplers.FromHaar])
def test_nets_without_the_features_of_a_group_are_refused_at_once(sampler, net, inputs, bound, message):
    with pytest.raises(errors.SignatureError, match=message):
        Symmetrized(lambda *x: x[0][:, 0], f"{inputs} -> k", bound, sampler(net()))


def test_nets_that_do_not_say_what_they_return_are_refused_at_the_call():
    model = Symmetrized(
        lambda x: x[:, 0], "n d -> d", BOTH, samplers.Learned(Returns(Features(scores=torch.zeros(B, N))))
    )
    with pytest.raises(errors.SignatureError, match=r"Expected the net to return vectors for O\(3\)"):
        model(torch.zeros(B, N, 3))


def test_refuses_noise_of_another_batch():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(nets.DeepSets(2)))
    noise = model.noise(torch.ones(3, 4, 2))
    with pytest.raises(errors.ShapeError, match=r"Expected noise for a batch of 2 \(got 3\)"):
        model(torch.ones(2, 4, 2), noise=noise)


@pytest.mark.parametrize("kind", ["Haar", "empty"])
def test_refuses_noise_of_another_sampler(kind):
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(nets.DeepSets(2))), torch.ones(2, 4, 2)
    other = Symmetrized(lambda x: x[:, 0], "n c -> c", S)
    noise = other.noise(x) if kind == "Haar" else samplers.Noise((), {}, {}, {})
    with pytest.raises(errors.ProbsymError, match="Expected noise"):
        model(x, noise=noise)
    if kind == "empty":
        with pytest.raises(errors.ProbsymError, match="Expected noise"):
            other(x, noise=noise)


def test_draws_are_independent():
    """Draws are independent: with 4 items, two draws agree in one of 24 cases."""
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(Spy((0,))))
    drawn = model.estimate(torch.zeros(200, 4, 1), samples=4, generator=seeded()).elements["n"]
    same = [float((drawn[:, i] == drawn[:, j]).all(-1).double().mean()) for i, j in itertools.combinations(range(4), 2)]
    assert all(abs(share - 1 / 24) < 0.06 for share in same)


def test_a_net_without_draws_may_leave_their_axis_out():
    class Fixed(nn.Module):
        perturbs = ()

        def forward(self, x, mask=None):
            return x[..., 0]

    x = torch.tensor([[[1.0], [3.0], [2.0]]])
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(Fixed()))
    assert model.estimate(x, samples=2).elements["n"].tolist() == [[[1, 2, 0]] * 2]


@pytest.mark.parametrize("masked", [False, True])
def test_a_net_need_not_know_of_masks(masked: bool) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Flatten(-2))  # one score per item
    model = Symmetrized(lambda x: x[:, 0, 0], "n c -> ", {"n": groups.S()}, samplers.Learned(net), samples=2)
    mask = torch.ones(4, 5, dtype=torch.bool) if masked else None
    assert model(torch.randn(4, 5, 3), mask=mask).shape == (4,)
