"""One element, up to what the symmetry of the input leaves open: there it is drawn, uniformly."""

import itertools
import math

import pytest
import torch
from scipy import stats
from torch import nn

from probsym import Symmetrized, bases, groups, nets, samplers, testing

DTYPES = [torch.float64, torch.float32]
NEVER = 1e-4
S = {"n": groups.S()}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def circulant(n, weights, dtype):
    a = torch.zeros(1, n, n, dtype=dtype)
    for i, (step, weight) in itertools.product(range(n), enumerate(weights, start=1)):
        a[0, i, (i + step) % n] = a[0, (i + step) % n, i] = weight
    return a


def gin(channels, dtype, seed):
    torch.manual_seed(seed)
    return nets.GIN(channels, hidden=16).to(dtype).eval()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("channels", [0, 1])
@pytest.mark.parametrize("weights", [(1.0,), (0.1, 0.7)], ids=["cycle", "circulant"])
def test_nodes_of_a_vertex_transitive_graph_are_shuffled(weights, channels, seed, dtype):
    """All scores are equal but for rounding; each node comes first equally often."""
    n, a = 6, circulant(6, weights, dtype)
    x = torch.full((1, n, 1), 0.3, dtype=dtype)
    sampler = samplers.Canonical(gin(channels, dtype, seed), reads=(0, 1) if channels else (1,))
    model = Symmetrized(lambda x, a: x[:, 0], "n c, n n -> c", S, sampler).eval()
    drawn = model.estimate(x, a, samples=1200, generator=seeded(seed)).elements["n"][0]
    for position in range(n):
        assert stats.chisquare(torch.bincount(drawn[:, position], minlength=n)).pvalue > NEVER
    assert len(drawn.unique(dim=0)) > 500  # of 720


def test_mirrored_nodes_of_a_path_are_shuffled_and_others_not():
    a = circulant(5, (1.0,), torch.float64)
    a[0, 0, 4] = a[0, 4, 0] = 0
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", S, samplers.Canonical(gin(0, torch.float64, 0))).eval()
    drawn = model.estimate(a, samples=800, generator=seeded()).elements["n"][0]
    distinct, counts = drawn.unique(dim=0, return_counts=True)
    assert len(distinct) == 4
    assert stats.chisquare(counts).pvalue > NEVER


@pytest.mark.parametrize("masked", [False, True])
def test_duplicates_are_uniform_on_the_orbit_of_the_stabiliser(masked):
    x = torch.tensor([[[1.0], [2.0], [1.0], [3.0], [1.0]]], dtype=torch.float64)
    mask = torch.tensor([[True, True, False, True, True]]) if masked else None

    class First(nn.Module):
        perturbs = (0,)

        def forward(self, x, mask=None):
            return x[..., 0]

    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Canonical(First()))
    drawn = model.estimate(x, mask=mask, samples=1200, generator=seeded()).elements["n"][0]
    same = (0, 4) if masked else (0, 2, 4)
    orbit = torch.tensor([(3, 1, *order) + ((2,) if masked else ()) for order in itertools.permutations(same)])
    counts = [(drawn == p).all(-1).sum() for p in orbit]
    assert sum(counts) == 1200
    assert stats.chisquare(counts).pvalue > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("masked", [False, True])
def test_scores_that_rounding_keeps_apart_are_shuffled_wherever_they_lie(masked, dtype):
    """Ties around zero too: closeness is relative to the largest score, and the merged scores must be equal exactly."""
    size = 1e-6 if dtype == torch.float32 else 1e-11
    scores = torch.randn(200, 1, 4, dtype=dtype, generator=seeded()) * size
    scores[..., 0] = 1

    class Given(nn.Module):
        perturbs = (0,)

        def forward(self, x, mask=None):
            return scores

    mask = torch.ones(200, 4, dtype=torch.bool) if masked else None
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Canonical(Given()))
    drawn = model.estimate(torch.zeros(200, 4, 1, dtype=dtype), mask=mask, samples=60, generator=seeded()).elements["n"]
    assert bool((drawn[..., 0] == 0).all())
    orders = torch.tensor([len(item.unique(dim=0)) for item in drawn])
    assert int((orders < 6).sum()) == 0  # all six orders of the three that tie, for every item


def test_a_large_chain_of_scores_is_not_one_tie():
    x = torch.linspace(1, 2, 500, dtype=torch.float64).view(1, 500, 1)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Canonical(Head()))
    assert torch.equal(model.estimate(x).elements["n"][0, 0], torch.arange(499, -1, -1))


class Head(nn.Module):
    perturbs = (0,)

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones((), dtype=torch.float64))

    def forward(self, x, mask=None):
        return x[..., 0] * self.weight


def test_gradient_passes_merged_ties():
    x = torch.tensor([[[1.0], [1.0], [3.0]]], dtype=torch.float64)
    net = Head()
    model = Symmetrized(lambda x: x[:, 0, 0] ** 2 + x[:, 2, 0], "n c -> ", S, samplers.Canonical(net, tau=0.5))
    (model(x) * 2).sum().backward()
    assert net.weight.grad is not None
    assert net.weight.grad.isfinite()


def square(group, dtype):
    """The corners of a figure that the group maps to itself, about the origin."""
    corner = torch.tensor([1.0, 0.3], dtype=dtype)
    return torch.stack([group.act(g, corner) for g in group.elements()]).unsqueeze(0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [groups.C(4), groups.C(6), groups.D(4)], ids=repr)
def test_logits_that_tie_by_symmetry_are_uniform(group, dtype):
    """A net that sums over points gives a symmetric figure equal logits, up to the order in which it adds."""
    x = square(group, dtype)
    for seed in range(6):
        torch.manual_seed(seed)
        mlp = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1)).to(dtype).requires_grad_(False)
        net = nets.Lifted(lambda rows, mlp=mlp: mlp(rows).sum(1), group)
        model = Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": group}, samplers.Canonical(net))
        drawn = model.estimate(x, samples=1200, generator=seeded(seed)).elements["d"][0]
        assert stats.chisquare(torch.bincount(drawn, minlength=group.order)).pvalue > NEVER


def test_images_that_a_half_turn_keeps_are_uniform_on_its_orbit():
    x = torch.randn(1, 4, 4, 1, generator=seeded())
    x = x + x.flip(1, 2)
    torch.manual_seed(0)
    net = nets.Lifted(bases.MLP([16, 8, 1]), groups.C(4), (-3, -2), "grid")
    model = Symmetrized(lambda x: x[:, 0, 0], "(h w) c -> c", {"h w": groups.C(4)}, samplers.Canonical(net))
    counts = torch.bincount(model.estimate(x, samples=600, generator=seeded()).elements["h w"][0], minlength=4)
    assert sorted((counts > 0).tolist()) == [False, False, True, True]
    assert counts[0] + counts[2] in (0, 600)
    assert stats.chisquare(counts[counts > 0]).pvalue > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bound", [{"d": groups.O(3)}, {"d": groups.SO(3), "n": groups.S()}, {"d": groups.SE(3)}])
def test_octahedron_is_equivariant_in_law(bound, dtype):
    x = torch.cat([torch.eye(3), -torch.eye(3)]).to(dtype).unsqueeze(0)
    x = groups.O(3).act(groups.O(3).haar((1,), dtype=dtype, generator=seeded()), x)
    term = "n d:point" if isinstance(bound["d"], groups.E) else "n d"
    p_values = []
    for seed in range(2):
        torch.manual_seed(seed)
        net = nets.VNDGCNN(1, hidden=24, scores="n" in bound)
        base = bases.MLP([18, 12, 9], activation="tanh", shape=(3, 3))
        model = Symmetrized(base, f"{term} -> d d", bound, samplers.Canonical(net)).to(dtype)
        assert bound["d"].contains(model.estimate(x, samples=20).elements["d"]).all()
        p_values.append(testing.equivariance_gap(model, x, relabellings=199, generator=seeded(seed)).p_value)
    assert max(p_values) > 0.01


@pytest.mark.parametrize("dtype", DTYPES)
def test_points_that_coincide_have_no_direction(dtype):
    """About their centroid only rounding is left of them, and no axis may come from that."""
    x = torch.tensor([3.7, 1.3, 9.1], dtype=dtype).expand(1, 3, 3)
    x = groups.O(3).act(groups.O(3).haar((20,), dtype=dtype, generator=seeded()), x)
    torch.manual_seed(0)
    net = nets.VNDGCNN(1, hidden=24, scores=False).to(dtype)
    model = Symmetrized(lambda x: x[:, 0], "m d:point -> d", {"d": groups.E(3)}, samplers.Canonical(net)).eval()
    first = model.estimate(x, samples=50, generator=seeded()).elements["d"][..., 0]
    largest = torch.linalg.matrix_norm(first.mT @ first / 50, 2)  # 1 where the first axis is always the same line
    assert largest.max() < 0.9


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_line_fixes_one_axis_and_leaves_the_rest_open(dtype):
    direction = torch.tensor([1.0, 2.0, -2.0], dtype=dtype) / 3
    x = (torch.tensor([1.0, 2.0, -0.5, 0.3], dtype=dtype).unsqueeze(1) * direction).unsqueeze(0)
    torch.manual_seed(0)
    model = Symmetrized(
        lambda x: x[:, 0], "m d -> d", {"d": groups.O(3)}, samplers.Canonical(nets.VNDGCNN(1, scores=False).to(dtype))
    ).eval()
    q = model.estimate(x, samples=1000, generator=seeded()).elements["d"][0].detach().double()
    direction = direction.double()
    along = (q * direction[:, None]).sum(-2)
    assert ((along[:, 0].abs() - 1).abs() < 1e-3).all()
    assert along[:, 0].std() < 1e-3  # always the same sense
    across = torch.tensor([2.0, -1.0, 0.0], dtype=torch.float64) / 5**0.5
    angle = torch.atan2(q[:, :, 1] @ torch.linalg.cross(direction, across), q[:, :, 1] @ across)
    assert stats.kstest(angle.numpy(), "uniform", (-math.pi, 2 * math.pi)).pvalue > NEVER


def test_generic_inputs_leave_nothing_to_chance():
    torch.manual_seed(0)
    x, a = torch.randn(3, 5, 2), torch.ones(3, 5, 5)
    model = Symmetrized(lambda x, a: x[:, 0], "n c, n n -> c", S, samplers.Canonical(nets.GIN(2))).eval()
    drawn = model.estimate(x, a, samples=20).elements["n"]
    assert (drawn == drawn[:, :1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_proposition_2_by_hand(dtype):
    """Canonicalization written out: f of the items in the order of their scores, put back where they came from."""
    torch.manual_seed(0)
    net, f = nets.DeepSets(2, hidden=8).to(dtype).eval(), nn.Linear(2, 2).to(dtype).requires_grad_(False)
    weights = torch.arange(1.0, 6.0, dtype=dtype).view(1, 5, 1)

    def base(x):
        return f(x) * weights[:, : x.shape[1]]

    x = torch.randn(3, 5, 2, dtype=dtype, generator=seeded())
    model = Symmetrized(base, "n c -> n c", S, samplers.Canonical(net)).eval()
    for item, output in zip(x, model(x), strict=True):
        order = sorted(range(5), key=lambda i, item=item: -net(item.unsqueeze(0)).scores[0, i].item())
        wanted = torch.empty_like(item)
        for position, place in enumerate(order):
            wanted[place] = f(item[place]) * (position + 1)
        torch.testing.assert_close(output, wanted)
