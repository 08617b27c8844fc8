"""Frames, against frames written out by hand in numpy; and the laws where a frame is not finite or too large."""

import itertools
import math

import numpy as np
import pytest
import torch
from scipy import stats

from probsym import Symmetrized, bases, errors, groups, samplers, testing
from probsym.ops.jacobi import jacobi
from probsym.samplers import principal_axes as module
from probsym.samplers.principal_axes import CLOSE
from probsym.samplers.spectral_ranks import spectral_keys

DTYPES = [torch.float64, torch.float32]
NEVER = 1e-4
S, FRAME = {"n": groups.S()}, samplers.Frame
SOLIDS = {
    "octahedron": [[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]],
    "cube": list(itertools.product((-1, 1), repeat=3)),
    "flat square": [[1, 1, 0], [-1, 1, 0], [-1, -1, 0], [1, -1, 0]],
    "flat": [[1, 0.2, 0], [-1, 1, 0], [-0.3, -1, 0], [0.1, -0.4, 0]],
    "line": [[1, 2, 3], [2, 4, 6], [-1, -2, -3], [0.5, 1, 1.5]],
    "point": [[0.3, -0.5, 0.7]],
    "zeros": [[0, 0, 0]] * 3,
}


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def mlp(inputs, shape, dtype=torch.float64, seed=0):
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return bases.MLP([inputs, 12, math.prod(shape)], activation="tanh", shape=shape).to(dtype).requires_grad_(False)


def call(base, *arrays):
    dtype = next(base.parameters()).dtype
    return base(*(torch.tensor(np.ascontiguousarray(array), dtype=dtype)[None] for array in arrays))[0].double().numpy()


def close(actual, wanted, dtype, atol=None):
    atol = atol or (1e-11 if dtype == torch.float64 else 1e-5)
    torch.testing.assert_close(actual.double(), torch.tensor(np.array(wanted)), rtol=0, atol=atol)


def cycle(n, size=None):
    a = torch.zeros(size or n, size or n, dtype=torch.float64)
    for i in range(n):
        a[i, (i + 1) % n] = a[(i + 1) % n, i] = 1
    return a


def path(n, size=None):
    a = cycle(n, size)
    a[0, n - 1] = a[n - 1, 0] = 0
    return a


def weighted(n, seed=0):
    a = torch.rand(n, n, dtype=torch.float64, generator=seeded(seed)).triu(1)
    return a + a.mT


def literal_keys(a, real):
    """The diagonals of the projectors on the eigenspaces of the Laplacian of the real nodes, largest value first."""
    a = a.numpy()[np.ix_(real, real)]
    values, vectors = np.linalg.eigh(np.diag(a.sum(1)) - a)
    columns, last = [], None
    for value, vector in sorted(zip(values, vectors.T, strict=True), key=lambda pair: -pair[0]):
        if last is None or last - value > 1e-6:
            columns.append(np.zeros(len(real)))
        columns[-1] += vector**2
        last = value
    return np.stack(columns, 1).round(7)


def literal_orders(a, mask=None):
    """All permutation matrices whose order of the real nodes sorts the keys, largest first."""
    n = len(a)
    real = list(range(n)) if mask is None else [i for i in range(n) if mask[i]]
    keys = [tuple(row) for row in literal_keys(a, real)]
    for order in itertools.permutations(range(len(real))):
        if all(keys[first] >= keys[second] for first, second in itertools.pairwise(order)):
            matrix = np.zeros((n, n))
            for position, place in enumerate(order):
                matrix[real[place], position] = 1
            yield matrix


def literal_axes(x, group):
    """The principal axes with every choice of signs, determinant 1 for rotations."""
    _, vectors = np.linalg.eigh(x.T @ x)
    for signs in itertools.product((1, -1), repeat=x.shape[1]):
        q = vectors[:, ::-1] * np.array(signs)
        if type(group) in (groups.O, groups.E) or np.linalg.det(q) > 0:
            yield q


# the principal axes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [groups.O(3), groups.SO(3), groups.E(3), groups.SE(3), groups.O(2)], ids=repr)
@pytest.mark.parametrize("output", ["k", "d", "d d"])
@pytest.mark.parametrize("masked", [False, True])
def test_pca_is_the_sum_over_the_signs_of_the_axes(group, output, masked, dtype):
    d, moves = group.d, isinstance(group, groups.E)
    x = torch.randn(3, 5, d, generator=seeded(), dtype=dtype) + 2
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 0, 1, 1, 0], [0, 1, 1, 1, 1]], dtype=torch.bool) if masked else None
    base = mlp(5 * d, {"k": (3,), "d": (d,), "d d": (d, d)}[output], dtype)
    back = {"k": lambda q, y: y, "d": lambda q, y: q @ y, "d d": lambda q, y: q @ y @ q.T}[output]
    output = "d:point" if moves and output == "d" else output
    wanted = []
    for b in range(3):
        real = x[b].double().numpy() if mask is None else x[b][mask[b]].double().numpy()
        centre = real.mean(0) if moves else np.zeros(d)
        frame = list(literal_axes(real - centre, group))
        assert len(frame) == 2 ** (d - isinstance(group, groups.SO | groups.SE))
        seen = np.concatenate([real - centre, np.zeros((5 - len(real), d))])
        values = [back(q, call(base, seen @ q)) for q in frame]
        wanted.append(np.mean(values, 0) + (centre if output == "d:point" else 0))
    if mask is not None:
        x[~mask] = torch.nan
    term = "m d:point" if moves else "m d"
    model = Symmetrized(base, f"{term} -> {output}", {"d": group}, FRAME())
    estimate = model.estimate(x, mask=None if mask is None else {"m": mask})
    close(estimate.mean, wanted, dtype, 1e-10 if dtype == torch.float64 else 1e-4)
    assert not estimate.stderr.any()
    assert estimate.samples == len(frame)


@pytest.mark.parametrize("group", [groups.O(3), groups.SO(3), groups.SE(3)], ids=repr)
def test_pca_draws_are_uniform_on_the_frame(group):
    term = "m d:point" if isinstance(group, groups.E) else "m d"
    x = torch.randn(1, 5, 3, generator=seeded(1), dtype=torch.float64)
    model = Symmetrized(lambda x: x[:, 0, 0], f"{term} -> ", {"d": group}, FRAME(exact=False))
    drawn = model.estimate(x, samples=2000, generator=seeded()).elements["d"][0][..., :3].numpy()
    centre = x[0].mean(0).numpy() if isinstance(group, groups.E) else 0
    frame = list(literal_axes(x[0].numpy() - centre, group))
    counts = [np.isclose(drawn, q, atol=1e-9).all((1, 2)).sum() for q in frame]
    assert sum(counts) == 2000
    assert stats.chisquare(counts).pvalue > NEVER


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("solid", SOLIDS)
@pytest.mark.parametrize("group", [groups.O(3), groups.SO(3), groups.E(3), groups.SE(3)], ids=repr)
def test_where_eigenvalues_repeat_the_law_is_equivariant(group, solid, exactly):
    x = torch.tensor(SOLIDS[solid], dtype=torch.float64).unsqueeze(0)
    term = "m d:point" if isinstance(group, groups.E) else "m d"
    model = Symmetrized(mlp(x.numel(), (3, 3)), f"{term} -> d d", {"d": group}, FRAME(exact=exactly))
    p_values = []
    for seed in range(2):
        generator = seeded(seed)
        turn = groups.O(3).haar((1,), dtype=x.dtype, generator=generator)
        x = groups.O(3).act(turn, x)
        assert group.contains(model.estimate(x, generator=generator).elements["d"]).all()
        p_values.append(testing.equivariance_gap(model, x, relabellings=199, generator=generator).p_value)
    assert max(p_values) > 0.01  # what is not equivariant fails with either seed


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("solid", "free"), [("octahedron", 3), ("flat square", 2), ("line", 2), ("zeros", 3)])
def test_repeated_eigenspaces_are_turned_at_random(solid, free, dtype):
    x = torch.tensor(SOLIDS[solid], dtype=dtype).unsqueeze(0)
    model = Symmetrized(lambda x: x[:, 0, 0], "m d -> ", {"d": groups.O(3)}, FRAME(exact=False))
    q = model.estimate(x, samples=2000, generator=seeded()).elements["d"][0].double()
    second = torch.einsum("kij,klj->jil", q, q) / 2000  # E q_j q_j' is the projector on the space over its dimension
    _, vectors = torch.linalg.eigh((x[0].mT @ x[0]).double())
    columns = range(3 - free, 3) if solid == "line" else range(free)
    space = vectors.flip(1)[:, list(columns)]
    for j in columns:
        torch.testing.assert_close(second[j], space @ space.mT / free, rtol=0, atol=0.05)


@pytest.mark.parametrize("offset", [[0.1, 0.7, -0.3], [3.7, 1.3, 9.1]])
@pytest.mark.parametrize("dtype", DTYPES)
def test_axes_of_points_that_coincide_are_not_those_of_rounding(offset, dtype):
    """Three times the same point has no direction about its centroid, whatever the mean is rounded to."""
    x = torch.tensor(offset, dtype=dtype).expand(1, 3, 3)
    turns = groups.O(3).haar((20,), dtype=dtype, generator=seeded())
    x = groups.O(3).act(turns, x)
    model = Symmetrized(lambda x: x[:, 0], "m d:point -> d", {"d": groups.E(3)}, FRAME(exact=False))
    first = model.estimate(x, samples=50, generator=seeded()).elements["d"][..., 0]
    largest = torch.linalg.matrix_norm(first.mT @ first / 50, 2)  # 1 where the first axis is always the same line
    assert largest.max() < 0.9


@pytest.mark.parametrize(("dtype", "far"), [(torch.float32, 3e4), (torch.float64, 1e8), (torch.float64, 1e9)])
def test_axes_far_from_the_origin_are_lost_no_sooner_than_their_digits(dtype, far):
    """What is left of the points after rounding still has axes, the same as about the origin."""
    x = torch.randn(8, 5, 3, generator=seeded(), dtype=dtype)
    model = Symmetrized(mlp(15, (3,), dtype), "m d:point -> k", {"d": groups.E(3)}, FRAME())
    moved = x + far
    estimate = model.estimate(moved)
    assert not estimate.stderr.isnan().any()
    torch.testing.assert_close(estimate.mean, model(moved - far), rtol=0, atol=1e-3)


@pytest.mark.parametrize("solid", ["octahedron", "line"])
def test_the_error_of_one_random_basis_is_not_zero(solid):
    """All signs of one basis give the same here; the basis is a single draw, so what it misses is not known."""
    x = torch.tensor(SOLIDS[solid], dtype=torch.float64).unsqueeze(0)
    diagonal = torch.diag(torch.tensor([1.0, 2, 3], dtype=torch.float64))
    model = Symmetrized(lambda x: diagonal.expand(len(x), 3, 3), "m d -> d d", {"d": groups.O(3)}, FRAME())
    estimates = [model.estimate(x, generator=seeded(seed)) for seed in range(5)]
    spread = torch.stack([estimate.mean for estimate in estimates]).std(0)
    assert spread.max() > 0.1
    assert not any(bool((estimate.stderr < spread / 100).any()) for estimate in estimates)


# graphs


@pytest.mark.parametrize("seed", range(3))
def test_spectral_keys_are_the_literal_ones(seed):
    a = (torch.rand(6, 6, generator=seeded(seed)) < 0.5).double().triu(1)
    a, mask = a + a.mT, torch.tensor([1, 0, 1, 1, 1, 0], dtype=torch.bool)
    wanted = torch.tensor(literal_keys(a, range(6)))
    keys = spectral_keys(a[None], None)[0]
    torch.testing.assert_close(keys[:, : wanted.shape[1]], wanted, rtol=0, atol=1e-6)
    assert not keys[:, wanted.shape[1] :].any()
    masked = torch.where(mask & mask[:, None], a, 0)
    wanted = torch.tensor(literal_keys(a, mask.nonzero().flatten().tolist()))
    keys = spectral_keys(masked[None], mask[None])[0][mask]
    torch.testing.assert_close(keys[:, 1 : 1 + wanted.shape[1]], wanted, rtol=0, atol=1e-6)


GRAPHS = {
    "weights": (weighted(5), 1),
    "path": (path(5), 4),
    "cycle": (cycle(5), 120),
    "complete": (1 - torch.eye(4, dtype=torch.float64), 24),
    "empty": (torch.zeros(4, 4, dtype=torch.float64), 24),
    "path and a point": (path(3, 4), 2),
    "triangle and an edge": (torch.block_diag(cycle(3), path(2)), 12),
    "two weighted parts": (torch.block_diag(weighted(3), weighted(2, 1)), 2),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_laplacian_frame_is_the_literal_one(name):
    a, size = GRAPHS[name]
    n = len(a)
    x = torch.randn(1, n, 2, generator=seeded(), dtype=torch.float64)
    base = mlp(n * n + 2 * n, (n, 2))
    model = Symmetrized(base, "n c, n n -> n c", S, FRAME())
    estimate = model.estimate(x, a[None])
    frame = list(literal_orders(a))
    wanted = np.mean([p @ call(base, p.T @ x[0].numpy(), p.T @ a.numpy() @ p) for p in frame], 0)
    close(estimate.mean[0], wanted, torch.float64)
    listed = {tuple(order.tolist()) for order in estimate.elements["n"][0]}
    assert listed == {tuple(p.argmax(0).tolist()) for p in frame}
    assert estimate.samples == len(frame) == size
    assert not estimate.stderr.any()


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sorting_by_spectral_ranks_is_the_spectral_frame(masked, dtype):
    a = torch.stack([path(6), cycle(6), torch.block_diag(cycle(3), path(3)), weighted(6), cycle(4, 6)]).to(dtype)
    holes = [[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0], [0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0]]
    mask = torch.tensor(holes, dtype=torch.bool) if masked else None
    a = a if mask is None else torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), a, 0)
    ranks = -samplers.spectral_ranks(a, mask).to(dtype)
    spectral = Symmetrized(lambda a, r: a[:, 0, 0], "n n, n -> ", S, FRAME("laplacian", (0,), exact=False))
    sorting = Symmetrized(lambda a, r: a[:, 0, 0], "n n, n -> ", S, FRAME("sort", (1,), exact=False))
    noise = spectral.noise(a, ranks, mask=mask, samples=50, generator=seeded())
    spectral_orders, sorted_orders = (
        model.estimate(a, ranks, mask=mask, noise=noise).elements["n"] for model in (spectral, sorting)
    )
    assert torch.equal(spectral_orders, sorted_orders)
    assert [len(spectral_orders[i].unique(dim=0)) > 1 for i in (0, 1, 3)] == [True, True, False]


def test_spectral_ranks_are_those_of_the_literal_keys():
    a = torch.stack([path(5), cycle(5), torch.block_diag(cycle(3), path(2)), weighted(5)])
    for graph, ranks in zip(a, samplers.spectral_ranks(a), strict=True):
        keys = [tuple(row) for row in literal_keys(graph, range(5))]
        for i, j in itertools.product(range(5), repeat=2):
            assert (keys[i] == keys[j]) == bool(ranks[i] == ranks[j])
            assert (keys[i] > keys[j]) == bool(ranks[i] < ranks[j])


def test_automorphic_nodes_tie_and_others_need_not():
    keys = literal_keys(path(5), range(5))
    assert np.allclose(keys[0], keys[4])
    assert np.allclose(keys[1], keys[3])
    assert not np.allclose(keys[0], keys[1])
    model = Symmetrized(lambda a: a[:, 0], "n n -> n", S, FRAME())
    places = model.estimate(path(5)[None]).elements["n"][0].argsort(-1)
    assert [len(set(places[:, i].tolist())) for i in range(5)] == [2, 2, 1, 2, 2]


@pytest.mark.parametrize("dtype", DTYPES)
def test_frames_of_different_sizes_in_one_batch(dtype):
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 1], [1, 0, 1, 1, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)
    a = torch.stack([path(5), cycle(5), 1 - torch.eye(5, dtype=torch.float64), weighted(5)]).to(dtype)
    x = torch.randn(4, 5, 2, generator=seeded(), dtype=dtype)
    base = mlp(35, (5, 2), dtype)
    wanted = []
    for b in range(4):
        frame = list(literal_orders(a[b].double(), mask[b].tolist()))
        links, xs = a[b].double().numpy(), x[b].double().numpy()
        wanted.append(np.mean([p @ call(base, p.T @ xs, p.T @ links @ p) for p in frame], 0))
    model = Symmetrized(base, "n c, n n -> n c", S, FRAME())
    estimate = model.estimate(x, a, mask=mask)
    close(estimate.mean, wanted, dtype)
    assert not estimate.stderr.any()


@pytest.mark.parametrize("graph", ["cycle", "empty"])
def test_frames_beyond_the_limit_are_drawn(graph):
    a = {"cycle": cycle(4), "empty": torch.zeros(4, 4, dtype=torch.float64)}[graph][None]
    model = Symmetrized(lambda a, x: x[:, 0], "n n, n c -> c", S, FRAME(limit=23), samples=2400)
    x = torch.eye(4, dtype=torch.float64)[None]
    estimate = model.estimate(a, x, generator=seeded())
    assert estimate.samples == 2400
    counts = [(estimate.elements["n"][0] == p).all(-1).sum() for p in groups.S().elements(size=4)]
    assert stats.chisquare(counts).pvalue > NEVER
    assert bool((estimate.stderr > 0).all())
    assert not Symmetrized(lambda a, x: x[:, 0], "n n, n c -> c", S, FRAME(limit=24)).estimate(a, x).stderr.any()


def mixed_frames():
    """A graph that has more orders than the limit beside one that has four."""
    return Symmetrized(lambda a: a[:, 0, 1] + 2 * a[:, 2, 3], "n n -> ", S, FRAME(limit=100)), torch.stack(
        [cycle(5), path(5)]
    )


def test_mixed_batch_knows_which_averages_are_exact():
    model, a = mixed_frames()
    model.samples = 40
    estimate = model.estimate(a, generator=seeded())
    assert estimate.stderr[1] == 0
    values = model.estimate(a, generator=seeded(), keep_values=True).values[0]
    assert float(estimate.mean[0]) == pytest.approx(float(values[:40].mean()), abs=1e-6)
    assert float(estimate.stderr[0]) == pytest.approx(float(values[:40].std() / 40**0.5), rel=1e-3)


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_error_of_a_drawn_item_does_not_depend_on_its_neighbour(samples):
    model, a = mixed_frames()
    model.samples = samples
    for seed in range(3):
        alone = model.estimate(a[:1], generator=seeded(seed), keep_values=True)
        both = model.estimate(a, generator=seeded(seed), keep_values=True)
        drawn = both.values[0, :samples]
        wanted = drawn.std() / samples**0.5 if samples > 1 else torch.tensor(torch.nan, dtype=torch.float64)
        assert alone.stderr.isnan().all() == (samples == 1)
        torch.testing.assert_close(both.stderr[0], wanted, equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_chunks_give_the_same(chunk):
    model, a = mixed_frames()
    model.samples = 3
    noise = model.noise(a, generator=seeded(1))
    whole, parts = model.eval().estimate(a, noise=noise), model.estimate(a, noise=noise, chunk=chunk)
    torch.testing.assert_close(parts.mean, whole.mean, rtol=0, atol=1e-6)
    assert parts.samples == whole.samples


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("group", [None, groups.O(3)], ids=str)
def test_chunks_bound_what_the_base_sees(group, training):
    seen = []

    def base(x):
        seen.append(len(x))
        return x[:, 0, 0]

    if group is None:
        model, x = Symmetrized(base, "n n -> ", S, FRAME(), chunk=2), path(5)[None]
    else:
        model, x = Symmetrized(base, "m d -> ", {"d": group}, FRAME(), chunk=2), torch.randn(1, 4, 3)
    model.train(training)(x)
    assert max(seen) == 2
    assert sum(seen) == (4 if group is None else 8)


def test_padding_does_not_change_the_frame():
    """Tiny weights are weights: eigenvalues are compared with those of the graph, not with that of the padding."""
    for scale in (1.0, 1e-9):
        model = Symmetrized(lambda a: a[:, 0, 1], "n n -> ", S, FRAME())
        a = torch.zeros(1, 6, 6, dtype=torch.float64)
        a[0, :5, :5] = weighted(5) * scale
        assert model.estimate(a[:, :5, :5]).samples == 1
        assert model.estimate(a, mask=torch.arange(6)[None] < 5).samples == 1


@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_adjacency_of_any_dtype_and_with_channels(dtype):
    a = path(4)
    model = Symmetrized(lambda a: a[:, 0].float(), "n n -> n", S, FRAME())
    with_channels = Symmetrized(lambda a: a[:, 0, :, 0], "n n e -> n", S, FRAME())
    listed = model.estimate(a.to(dtype)[None]).elements["n"]
    halves = torch.stack([a / 4, 3 * a / 4], -1)[None]
    assert torch.equal(listed.sort(1).values, with_channels.estimate(halves).elements["n"].sort(1).values)


def test_sort_frame_with_duplicates():
    x = torch.tensor([[[1.0, 2], [3, 0], [1, 2], [1, 5], [1, 2]], [[5, 0], [4, 0], [3, 0], [2, 0], [1, 0]]])
    model = Symmetrized(lambda x: x.flatten(1) @ torch.arange(10.0), "n c -> ", S, FRAME())
    estimate = model.estimate(x, mask=torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 1, 1]], dtype=torch.bool))
    assert {tuple(order) for order in estimate.elements["n"][0].tolist()} == {
        (1, 3, *order) for order in itertools.permutations((0, 2, 4))
    }
    assert estimate.elements["n"][1, 0].tolist() == [0, 1, 3, 4, 2]
    first = torch.tensor([3.0, 0, 1, 5, 1, 2, 1, 2, 1, 2]) @ torch.arange(10.0)
    second = torch.tensor([5.0, 0, 4, 0, 2, 0, 1, 0, 0, 0]) @ torch.arange(10.0)
    torch.testing.assert_close(estimate.mean, torch.stack([first, second]))
    assert not estimate.stderr.any()


@pytest.mark.parametrize("kind", [None, "laplacian", "sort"])
def test_sort_on_a_graph_is_asked_for(kind):
    a, x = cycle(4)[None], torch.tensor([[[4.0], [3], [2], [1]]], dtype=torch.float64)
    model = Symmetrized(lambda x, a: x[:, 0], "n c, n n -> c", S, FRAME(kind))
    assert model.estimate(x, a).samples == (1 if kind == "sort" else 24)


# points that permute and rotate


def literal_pose(x, group):
    """Every sign of the axes, and the points in them, largest coordinates first."""
    for q in literal_axes(x, group):
        order = sorted(range(len(x)), key=lambda i: tuple(-(x[i] @ q)))
        yield q, np.eye(len(x))[:, order]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [groups.O(3), groups.SO(3), groups.E(3), groups.SE(3)], ids=repr)
def test_pose_is_the_literal_one(group, dtype):
    moves = isinstance(group, groups.E)
    x = torch.randn(2, 5, 3, generator=seeded(), dtype=dtype)
    base, wanted = mlp(15, (5, 3), dtype), []
    for points in x.double().numpy():
        centre = points.mean(0) * moves
        values = [p @ call(base, p.T @ (points - centre) @ q) @ q.T for q, p in literal_pose(points - centre, group)]
        wanted.append(np.mean(values, 0) + centre)
    term = "n d:point" if moves else "n d"
    estimate = Symmetrized(base, f"{term} -> {term}", {"n": groups.S(), "d": group}, FRAME()).estimate(x)
    close(estimate.mean, wanted, dtype, 1e-10 if dtype == torch.float64 else 1e-4)
    assert not estimate.stderr.any()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [groups.O(3), groups.SE(3)], ids=repr)
def test_pose_of_generic_points_is_invariant_exactly_and_velocities_break_ties(group, dtype):
    term = "n d:point, n d -> k" if isinstance(group, groups.E) else "n d, n d -> k"
    x, v = (torch.randn(3, 5, 3, generator=seeded(seed), dtype=dtype) for seed in (0, 1))
    x[:, 3] = x[:, 1]  # two points in one place
    model = Symmetrized(mlp(30, (3,), dtype), term, {"n": groups.S(), "d": group}, FRAME())
    estimate = model.estimate(x, v, generator=seeded(2))
    assert not estimate.stderr.any()
    for seed in range(4):
        generator = seeded(10 + seed)
        order = groups.S().haar((3,), size=5, generator=generator)
        turn = group.haar((3,), dtype=dtype, generator=generator)
        moved = model.signature.act({"n": order, "d": turn}, [x, v])
        if isinstance(group, groups.E):
            moved = moved[0] + torch.randn(3, 1, 3, dtype=dtype, generator=generator), moved[1]
        atol = 1e-12 if dtype == torch.float64 else 1e-5
        torch.testing.assert_close(model(*moved, generator=generator), estimate.mean, rtol=0, atol=atol)
    alone = Symmetrized(mlp(30, (3,), dtype), term, {"n": groups.S(), "d": group}, FRAME(reads=(0,)))
    assert not alone.estimate(x, v).chunks[0].exact.any()


@pytest.mark.parametrize("solid", ["octahedron", "cube", "flat square", "line", "zeros"])
@pytest.mark.parametrize("group", [groups.O(3), groups.SE(3)], ids=repr)
def test_pose_of_symmetric_points_is_equivariant_in_law(group, solid):
    x = torch.tensor(SOLIDS[solid], dtype=torch.float64).unsqueeze(0)
    term = "n d:point" if isinstance(group, groups.E) else "n d"
    n = x.shape[1]
    model = Symmetrized(mlp(3 * n, (n, 3)), f"{term} -> n d", {"n": groups.S(), "d": group}, FRAME(exact=False))
    gaps = [testing.equivariance_gap(model, x, relabellings=199, generator=seeded(seed)) for seed in range(2)]
    assert max(gap.p_value for gap in gaps) > 0.01


@pytest.mark.parametrize("d", [2, 3])
@pytest.mark.parametrize("output", ["k", "d", "n d:axial"])
def test_pose_of_axial_vectors_is_equivariant(d, output):
    """Under a reflection the coordinates of axial vectors in the axes change sign, and so must their order."""
    shape = {"k": (2,), "d": (d,), "n d:axial": (4, d)}[output]
    bound = {"n": groups.S(), "d": groups.O(d)}
    model = Symmetrized(mlp(4 * d, shape), f"n d:axial -> {output}", bound, FRAME())
    x = torch.randn(3, 4, d, generator=seeded(), dtype=torch.float64)
    for seed in range(3):
        testing.assert_equivariant(model, x, generator=seeded(seed))


# the solver of a GPU


@pytest.mark.parametrize(
    ("device", "d", "wanted"),
    [("cpu", 3, torch.linalg.eigh), ("meta", 3, jacobi), ("meta", 8, jacobi), ("meta", 9, torch.linalg.eigh)],
)
def test_only_what_waits_has_another_solver(device, d, wanted):
    assert module._solver(torch.empty(2, 5, d, device=device)) is wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("permuted", [False, True])
@pytest.mark.parametrize("group", [groups.O(3), groups.SE(3)], ids=repr)
@pytest.mark.parametrize("solid", ["any", *SOLIDS])
def test_frames_are_the_same_with_either_solver(solid, group, permuted, dtype, monkeypatch):
    x = torch.randn(20, 5, 3, generator=seeded()) if solid == "any" else torch.tensor(SOLIDS[solid]).unsqueeze(0)
    x = x.to(dtype)
    term = "n d:point" if isinstance(group, groups.E) else "n d"
    bound = {"d": group} | ({"n": groups.S()} if permuted else {})
    model = Symmetrized(lambda x: x, f"{term} -> {term}", bound, FRAME())
    noise = model.noise(x, generator=seeded(1))
    wanted = model.estimate(x, noise=noise)
    monkeypatch.setattr(module, "_solver", lambda points: jacobi)
    estimate = model.estimate(x, noise=noise)
    torch.testing.assert_close(estimate.elements["d"], wanted.elements["d"], rtol=0, atol=4 * CLOSE[dtype])
    assert not permuted or torch.equal(estimate.elements["n"], wanted.elements["n"])
    for chunk, wanted_chunk in zip(estimate.chunks, wanted.chunks, strict=True):
        assert torch.equal(chunk.exact, wanted_chunk.exact)


# malformed calls and corners


class Quadrupoles(groups.SO):
    """Rotations of five numbers, of which three vectors are no frame."""

    def axis_size(self, kind="plain"):
        return 5


@pytest.mark.parametrize(
    ("signature", "bound", "options", "error", "message"),
    [
        ("m d -> ", {"d": groups.C(4)}, {}, errors.GroupError, r"Expected S, or one of O, SO, E, SE.*\(got C\(4\)\)"),
        (
            "n c, m c -> ",
            {"n": groups.S(), "m": groups.S()},
            {},
            errors.GroupError,
            r"for a frame \(got S\(\), S\(\)\)",
        ),
        ("n d -> ", {"n": groups.S(), "d": groups.D(3)}, {}, errors.GroupError, r"\(got S\(\), D\(3\)\)"),
        ("n c -> ", {}, {}, errors.GroupError, r"for a frame \(got none\)"),
        (
            "n d -> ",
            {"d": Quadrupoles(3)},
            {},
            errors.GroupError,
            r"elements of Quadrupoles\(3\) to be matrices of their axis, of size 5, .*\(got \(3, 3\)\)",
        ),
        ("n c -> ", S, {"kind": "laplacian"}, errors.GroupError, r"kind 'sort' here \(got 'laplacian'\)"),
        ("n n -> ", S, {"kind": "pca"}, errors.GroupError, r"'laplacian' or 'colours' or 'sort' here \(got 'pca'\)"),
        ("n n -> ", S, {"kind": "sort"}, errors.SignatureError, r"Expected an input of 'n n ->' for a frame of kind"),
        ("m d -> ", {"d": groups.O(3)}, {"kind": "pose"}, errors.GroupError, r"kind 'pca' here \(got 'pose'\)"),
        ("d d -> ", {"d": groups.O(3)}, {}, errors.SignatureError, r"kind 'pca' \(got none\)"),
        ("n c, n n -> ", S, {"reads": (0,)}, errors.SignatureError, r"among the inputs \[1\].*\(got \(0,\)\)"),
        ("n n -> ", S, {"reads": (1,)}, errors.SignatureError, r"among the inputs \[0\].*\(got \(1,\)\)"),
        ("m d -> ", {"d": groups.O(11)}, {}, errors.GroupError, r"at most 1024 signs .*exact=False \(got 2048\)"),
    ],
)
def test_refuses(signature, bound, options, error, message):
    with pytest.raises(error, match=message):
        Symmetrized(lambda *x: x[0], signature, bound, FRAME(**options))


def test_refuses_an_unknown_kind():
    with pytest.raises(errors.RangeError, match=r"one of laplacian, colours, sort, pca, pose, signs \(got 'svd'\)"):
        FRAME("svd")


def test_limit_counts_the_rotations_that_are_listed():
    x = torch.randn(1, 5, 3)
    model = Symmetrized(lambda x: x[:, 0, 0], "m d -> ", {"d": groups.SO(3)}, FRAME(limit=4))
    assert model.estimate(x).samples == 4


@pytest.mark.parametrize("exactly", [True, False])
@pytest.mark.parametrize("signature", ["n c -> c", "n n -> n", "m d -> d", "n d -> d"])
def test_empty_batch(signature, exactly):
    bound = {key: groups.S() if key == "n" else groups.O(3) for key in "nd" if key in signature.split()}
    model = Symmetrized(lambda x: x[:, 0], signature, bound, FRAME(exact=exactly))
    assert model(torch.ones(0, 3, 3)).shape == (0, 3)


def test_axes_follow_the_input_and_orders_do_not():
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    model = Symmetrized(mlp(12, (2,)), "m d -> k", {"d": groups.O(3)}, FRAME())
    assert model.estimate(x).elements["d"].requires_grad
    model(x).sum().backward()
    assert x.grad.abs().sum() > 0
    with torch.no_grad():
        assert not model.estimate(x).elements["d"].requires_grad
    assert not model.estimate(x.detach()).elements["d"].requires_grad


@pytest.mark.parametrize(("signature", "group"), [("n d -> d", groups.O(3)), ("n d:point -> d", groups.E(3))])
def test_principal_axes_of_nothing_are_refused(signature: str, group: groups.Group) -> None:
    model = Symmetrized(lambda x: x.sum(1), signature, {"d": group}, samplers.Frame())
    with pytest.raises(errors.ShapeError, match=r"Expected a vector or more along 'd' to find principal axes of"):
        model(torch.zeros(2, 0, 3))
