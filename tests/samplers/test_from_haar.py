"""Any net, seen from a side that is drawn: one and the same for all axes."""

import pytest
import torch
from scipy import stats
from torch import nn

from probsym import Symmetrized, bases, errors, groups, samplers, testing
from probsym.nets import Features

DTYPES = [torch.float64, torch.float32]
S = {"n": groups.S()}
JOINT = {"n": groups.S(), "d": groups.O(3)}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


class Plain(nn.Module):
    """Scores and vectors from an MLP that sees everything, places included."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.mlp = bases.MLP([12, 16, 13], activation="tanh").to(dtype)

    def forward(self, x):
        output = self.mlp(x)
        return Features(scores=output[:, :4], vectors=output[:, 4:].unflatten(1, (3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_joint_side_for_all_axes(dtype):
    """g = h project(net(h^-1 x)) written out; a side of its own for each factor would give other features."""
    net, x = Plain(dtype), torch.randn(2, 4, 3, dtype=dtype, generator=seeded())
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", JOINT, samplers.FromHaar(net), samples=5)
    noise = model.noise(x, generator=seeded(1))
    elements = model.estimate(x, noise=noise).elements
    for b in range(2):
        for k in range(5):
            p, q = noise.elements["n"][b, k], noise.elements["d"][b, k]
            features = net((x[b][p] @ q)[None])
            order = p[features.scores[0].argsort(descending=True)]
            axes, _ = torch.linalg.qr(features.vectors[0])
            axes = q @ (axes * (axes.mT @ features.vectors[0]).diagonal().sign())
            assert torch.equal(elements["n"][b, k], order)
            torch.testing.assert_close(elements["d"][b, k], axes, rtol=0, atol=1e-3 if dtype == torch.float32 else 1e-9)


def test_law_is_equivariant_and_the_net_is_not():
    x = torch.randn(2, 4, 3, dtype=torch.float64, generator=seeded())
    net = Plain()
    base = bases.MLP([12, 16, 12], activation="tanh", shape=(4, 3)).double()
    model = Symmetrized(base, "n d -> n d", JOINT, samplers.FromHaar(net))
    assert testing.equivariance_gap(model, x, relabellings=199, generator=seeded()).p_value > 0.01

    class Bare(nn.Module):
        perturbs = (0,)

        def forward(self, x, mask=None):
            features = net(x.flatten(0, 1))
            return Features(features.scores.unflatten(0, x.shape[:2]), features.vectors.unflatten(0, x.shape[:2]))

    bare = Symmetrized(base, "n d -> n d", JOINT, samplers.Learned(Bare(), noise=0.1))
    assert testing.equivariance_gap(bare, x, relabellings=199, generator=seeded()).p_value < 0.01


@pytest.mark.parametrize("tied", [False, True])
def test_a_net_that_ignores_its_input_gives_haar(tied):
    scores = torch.zeros(3) if tied else torch.arange(3.0)
    net = lambda x: scores.expand(len(x), 3)  # noqa: E731
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.FromHaar(net))
    drawn = model.estimate(torch.ones(1, 3, 1), samples=1200, generator=seeded()).elements["n"][0]
    counts = [(drawn == p).all(-1).sum() for p in groups.S().elements(size=3)]
    assert stats.chisquare(counts).pvalue > 1e-4


def test_vectors_that_span_nothing_are_completed_anew_in_every_draw():
    net = lambda x: torch.zeros(len(x), 3, 3)  # noqa: E731
    model = Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": groups.O(3)}, samplers.FromHaar(net))
    drawn = model.estimate(torch.ones(1, 4, 3), samples=1200, generator=seeded()).elements["d"][0]
    assert drawn.mean(0).abs().max() < 0.1
    assert (drawn.square().mean(0) - 1 / 3).abs().max() < 0.05


@pytest.mark.parametrize("takes", [True, False])
def test_mask_is_passed_and_real_items_come_first(takes):
    seen = {}

    def with_mask(x, mask):
        seen.update(x=x, mask=mask)
        return x[..., 0]

    mask = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 1]], dtype=torch.bool)
    x = torch.full((2, 4, 1), torch.nan).masked_fill(mask[..., None], 3.0)
    net = with_mask if takes else lambda x: with_mask(x, None)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.FromHaar(net), samples=5)
    orders = model.estimate(x, mask=mask).elements["n"]
    assert groups.S().contains(orders, mask=mask.unsqueeze(1)).all()
    wanted = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0]], dtype=torch.bool).repeat_interleave(5, 0)
    assert torch.equal(seen["x"][..., 0], wanted * 3.0)
    assert torch.equal(seen["mask"], wanted) if takes else seen["mask"] is None


def test_reads_and_order_of_inputs():
    seen = []
    net = lambda a, x: seen.append((a.shape, x.shape)) or x[..., 0]  # noqa: E731
    model = Symmetrized(
        lambda x, y, a: x[:, 0], "n c, n e, n n -> c", S, samplers.FromHaar(net, reads=(2, 1)), samples=3
    )
    model(torch.randn(2, 4, 2), torch.randn(2, 4, 5), torch.randn(2, 4, 4))
    assert seen == [((6, 4, 4), (6, 4, 5))]


class Row(nn.Module):
    """One learned row for whatever input."""

    def __init__(self, kind, *shape):
        super().__init__()
        self.kind, self.value = kind, nn.Parameter(torch.randn(shape, dtype=torch.float64, generator=seeded(3)))

    def forward(self, x):
        return Features(**{self.kind: self.value.expand(len(x), *self.value.shape)})


@pytest.mark.parametrize(
    ("group", "kind", "shape", "size"),
    [
        (groups.S(), "scores", (4,), 4),
        (groups.O(3), "vectors", (3, 3), 3),
        (groups.SO(3), "vectors", (3, 3), 3),
        (groups.C(4), "logits", (4,), 2),
        (groups.D(3), "logits", (6,), 2),
    ],
)
def test_gradient_reaches_the_net(group, kind, shape, size):
    net = Row(kind, *shape)
    x = torch.randn(2, 3, size, dtype=torch.float64, generator=seeded())
    sampler = samplers.FromHaar(net, tau=0.5)
    model = Symmetrized(lambda x: x[:, 0, 0] * x[:, 1, -1], "m g -> ", {"g": group}, sampler, samples=20)
    model(x, generator=seeded()).sum().backward()
    assert net.value.grad.isfinite().all()
    assert net.value.grad.abs().sum() > 0


def test_several_axes_of_one_kind_by_name():
    net = lambda x: Features(scores={"n": x[..., 0], "m": x[:, 0]})  # noqa: E731
    model = Symmetrized(lambda x: x[:, 0, 0], "n m -> ", {"n": groups.S(), "m": groups.S()}, samplers.FromHaar(net))
    x = torch.randn(3, 4, 5, dtype=torch.float64)
    elements = model.estimate(x, samples=4).elements
    assert elements["n"].shape == (3, 4, 4)
    assert elements["m"].shape == (3, 4, 5)


@pytest.mark.parametrize(
    ("net", "options", "error", "message"),
    [
        (lambda x: x, {}, errors.ShapeError, r"scores of shape \(2, 3, 4\) .*\(got \(2, 3, 4, 1\)\)"),
        (lambda x: x[:1, :, 0], {}, errors.ShapeError, r"scores of shape \(2, 3, 4\) .*\(got \(1, 4\)\)"),
        (lambda x: "no", {}, errors.SignatureError, r"a tensor or Features \(got str\)"),
        (lambda x: x[..., 0].long(), {}, errors.DtypeError, r"floating \(got torch.int64\)"),
        (lambda x: Features(logits=x), {}, errors.SignatureError, r"scores for S\(\) on axis 'n' \(got none\)"),
        (lambda x: x[..., 0], {"reads": (1,)}, errors.SignatureError, r"reads to be numbers below 1 \(got \(1,\)\)"),
        (lambda x: x[..., 0], {"reads": (-1,)}, errors.SignatureError, r"reads to be numbers below 1 \(got \(-1,\)\)"),
        (lambda x: x[..., 0], {"tau": 0.0}, errors.RangeError, r"tau to be positive \(got 0.0\)"),
    ],
)
def test_refuses(net, options, error, message):
    def run():
        model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.FromHaar(net, **options), samples=3)
        model(torch.zeros(2, 4, 1))

    with pytest.raises(error, match=message):
        run()


def test_refuses_tau_where_it_is_given():
    with pytest.raises(errors.RangeError, match=r"tau to be positive \(got -1.0\)"):
        samplers.FromHaar(lambda x: x, tau=-1.0)
