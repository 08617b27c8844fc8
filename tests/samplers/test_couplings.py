"""Draws that depend on each other: each keeps its law, the average gets better, and its standard error stays honest."""

import math
from itertools import permutations

import pytest
import torch
from scipy import stats
from torch.quasirandom import SobolEngine

from probsym import Symmetrized, bases, errors, groups, nets, samplers
from probsym.estimate import Average
from probsym.samplers import COUPLINGS, Batch
from probsym.samplers.couplings import BLOCKS
from probsym.samplers.noise import below
from probsym.signature import Signature, Term
from probsym.testing import assert_equivariant, equivariance_gap
from tests.groups.uniformity import (
    NEVER,
    STANDARD_ERRORS,
    counts,
    first_moments,
    orthogonal_second_moments,
    second_moments,
    seeded,
    uniform,
)

S = {"n": groups.S()}
DTYPES = [torch.float64, torch.float32]
NAMES = ["antithetic", "quasi", "stratified"]
TURNING = [groups.O(3), groups.SO(3), groups.E(2), groups.SE(3), groups.SO(2), groups.SE(1), groups.O(1)]
PLANAR = [groups.C(1), groups.C(4), groups.C(5), groups.D(1), groups.D(4), groups.D(3)]


def first(x):
    return x[:, 0]


def bent(x):
    """Neither odd nor even, and not linear."""
    return torch.stack([(x[:, 0] - 2 * x[:, 1]).tanh()[:, 0], (1 + x[:, 2]).exp().sin()[:, 1]], 1)


class Scores(torch.nn.Module):
    """The perturbed first channel."""

    perturbs = (0,)

    def forward(self, x, *others, mask=None):
        return nets.Features(scores=x[..., 0])


class Axes(torch.nn.Module):
    """The perturbed first d points as axes, and their lengths as scores."""

    perturbs = (0,)

    def forward(self, x, *others, mask=None):
        return nets.Features(vectors=x[..., : x.shape[-1], :].mT, scores=x.square().sum(-1))


def on_sets(eta=1.0, **options):
    return Symmetrized(first, "n c -> c", S, samplers.Learned(Scores(), noise=eta), **options).eval()


def on_points(eta=1.0, **options):
    bound = {"n": groups.S(), "d": groups.E(3)}
    return Symmetrized(first, "n d:point -> d:point", bound, samplers.Learned(Axes(), noise=eta), **options).eval()


def haar(group, **options):
    d = 2 if isinstance(group, groups.C | groups.D) else group.d
    read = "m d:point" if "point" in group.kinds else "m d"
    model = Symmetrized(lambda x: x[:, 0].exp(), f"{read} -> d", {"d": group}, samplers.Haar(), **options)
    return model, torch.randn(2, 4, d, dtype=torch.float64, generator=seeded(1))


def drawn(coupling, group, samples, batch=1, dtype=torch.float64, mask=None, seed=0):
    """Elements that Haar draws, (B, K, ...), of S on the items of the mask or on four."""
    if isinstance(group, groups.S):
        shape = (batch, 4, 1) if mask is None else (*mask.shape, 1)
        model, x = Symmetrized(first, "n c -> c", {"n": group}), torch.ones(shape, dtype=dtype)
    else:
        model, x = haar(group)
        x = x[:1].expand(batch, -1, -1).to(dtype)
    return next(iter(model.noise(x, mask=mask, samples=samples, coupling=coupling, generator=seeded(seed))[3].values()))


# every single draw has its law


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coupling", ["antithetic", "quasi"])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_input_noise_keeps_its_law(coupling, place, dtype):
    x = torch.ones(2000, 3, 3, dtype=dtype)
    sets = on_sets(0.3).noise(x, samples=3, coupling=coupling, generator=seeded())
    (u,) = sets.inputs
    assert u.dtype == dtype
    assert u.shape == (2000, 3, 3, 3)
    assert u.min() >= 0
    assert u.max() < torch.tensor(0.3, dtype=dtype)
    assert stats.kstest(u[:, place].double().flatten().numpy() / 0.3, "uniform").pvalue > NEVER
    assert stats.kstest(sets.ties["n"][:, place].double().flatten().numpy(), "uniform").pvalue > NEVER
    assert 0 <= sets.ties["n"].min() <= sets.ties["n"].max() < 1
    points = on_points(0.3).noise(x, samples=3, coupling=coupling, generator=seeded())
    (z,), completion = points.inputs, points.completion["d"]
    assert z.dtype == completion.dtype == dtype
    assert stats.kstest(z[:, place].double().flatten().numpy() / 0.3, "norm").pvalue > NEVER
    assert stats.kstest(completion[:, place].double().flatten().numpy(), "norm").pvalue > NEVER
    assert completion.shape == (2000, 3, 3, 3)
    flat = z[:, place].flatten(1).double()  # the numbers of one draw are independent
    assert (torch.corrcoef(flat.T) - torch.eye(9)).abs().max() < 0.12


@pytest.mark.parametrize("dtype", DTYPES)
def test_extremes_stay_inside(dtype):
    """What the largest and smallest uniform numbers become."""
    small = torch.tensor([0.0, 1e-30, 0.1], dtype=dtype)
    noise = samplers.Noise((small.view(1, 1, 3, 1),), {"n": small.view(1, 1, 3)}, {}, {})

    class Given(samplers.Learned):
        def noise(self, batch, draws, generator=None, *, start=0):
            return noise

    batch = Batch.outline(Signature.parse("n c -> ", S), [torch.zeros(1, 3, 1, dtype=dtype)]).ready()
    pair = COUPLINGS["antithetic"](Given(Scores(), noise=0.7), batch, 2)
    assert (pair.ties["n"] < 1).all()
    both = pair.inputs[0]
    top = torch.tensor(0.7, dtype=dtype)
    assert (both[0, 1, :2] < top).all()
    assert (both[0, 1, :2] > 0.7 - 1e-6).all()
    torch.testing.assert_close(both[0, 1, 2], (top - 0.1).view(1))
    assert below(top, 0.7) < top
    edge = torch.tensor([0.0, 2.0**-60, 1 - 2.0**-53], dtype=torch.float64)
    for law in (samplers.quasi.STANDARD, samplers.quasi.UNIT):
        spread = samplers.quasi._spread(edge, law, dtype)
        assert spread.isfinite().all()
        assert law.normal or bool((spread < 1).all())
    assert spread.dtype == dtype
    z = samplers.quasi._spread(edge, samplers.quasi.STANDARD, torch.float64)
    assert -9 < z[0] < -8 < 8 < z[2] < 9


@pytest.mark.parametrize("coupling", NAMES)
@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("holes", [None, [1, 0, 1, 1]])
def test_orders_are_uniform(coupling, place, holes):
    mask = None if holes is None else torch.tensor([holes], dtype=torch.bool).expand(4800, -1)
    orders = drawn(coupling, groups.S(), 5, batch=4800, mask=mask)[:, place]
    listed = groups.S().elements(size=4)
    if mask is not None:
        listed = listed[groups.S().contains(listed, mask=mask[:1]) & (listed[:, 3] == 1)]
        assert len(listed) == 6
    assert uniform(orders, listed) > NEVER


@pytest.mark.parametrize("group", PLANAR, ids=repr)
@pytest.mark.parametrize("coupling", NAMES)
@pytest.mark.parametrize("place", [0, 1, 4])
def test_elements_of_finite_groups_are_uniform(coupling, group, place):
    elements = drawn(coupling, group, 5, batch=3000)[:, place]
    assert group.order == 1 or uniform(elements.unsqueeze(1), group.elements().unsqueeze(1)) > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("place", [0, 1, 4])
@pytest.mark.parametrize("coupling", ["antithetic", "quasi", "stratified"])
@pytest.mark.parametrize("group", [groups.SO(3), groups.E(3)], ids=repr)
def test_rotations_are_uniform(coupling, group, place, dtype):
    rotations = drawn(coupling, group, 5, batch=3000, dtype=dtype)[:, place]
    assert rotations.dtype == dtype
    assert group.linear.contains(rotations).all()
    q = rotations.double()
    determinants = torch.linalg.det(q).sign()
    assert first_moments(q) < STANDARD_ERRORS
    assert second_moments(q, orthogonal_second_moments(3)) < STANDARD_ERRORS
    if isinstance(group, groups.E):
        assert abs(float(determinants.mean())) < 0.1
    else:
        assert (determinants == 1).all()


@pytest.mark.parametrize("coupling", NAMES)
def test_factors_of_one_draw_are_independent(coupling):
    bound = {"n": groups.S(), "d": groups.C(3)}
    model = Symmetrized(lambda x: x[:, 0, 0], "n d -> ", bound)
    noise = model.noise(torch.ones(3600, 3, 2), samples=4, coupling=coupling, generator=seeded())
    listed = torch.stack([torch.cat([p, q.view(1)]) for p in groups.S().elements(size=3) for q in torch.arange(3)])
    for place in range(4):
        pairs = torch.cat([noise.elements["n"][:, place], noise.elements["d"][:, place, None]], 1)
        assert uniform(pairs, listed) > NEVER


@pytest.mark.parametrize("coupling", NAMES)
def test_items_of_a_batch_are_independent(coupling):
    orders = drawn(coupling, groups.S(), 1, batch=3000)[:, 0]
    assert abs(float((orders[1:] == orders[:-1]).all(-1).double().mean()) - 1 / 24) < 0.02


# antithetic


@pytest.mark.parametrize("samples", [1, 2, 5, 6])
@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs_are_mirrored(samples, dtype):
    x, pairs = torch.ones(2, 3, 3, dtype=dtype), samples // 2 * 2
    sets = on_sets(0.3).noise(x, samples=samples, coupling="antithetic", generator=seeded())
    points = on_points(0.3).noise(x, samples=samples, coupling="antithetic", generator=seeded())
    for values, total in [
        (sets.inputs[0], 0.3),
        (sets.ties["n"], 1.0),
        (points.inputs[0], 0),
        (points.completion["d"], 0),
    ]:
        assert values.shape[1] == samples
        both = values[:, 0:pairs:2] + values[:, 1:pairs:2]
        torch.testing.assert_close(both, torch.full_like(both, total), rtol=0, atol=2 * torch.finfo(dtype).eps)
    half = on_sets(0.3).noise(x, samples=(samples + 1) // 2, generator=seeded())
    assert torch.equal(half.inputs[0], sets.inputs[0][:, ::2])


@pytest.mark.parametrize("group", [*TURNING, *PLANAR], ids=repr)
def test_elements_are_opposite(group):
    g, group = drawn("antithetic", group, 7), group.linear
    s = group.compose(group.inverse(g[:, 0:6:2]), g[:, 1:6:2])
    torch.testing.assert_close(s, s[:1, :1].expand_as(s))  # one s for all
    trivial = group in (groups.SO(1), groups.C(1))
    assert trivial == torch.allclose(s.double(), group.identity(s.shape[:2], dtype=s.dtype).double())
    twice, identity = (x.double() for x in (group.compose(s, s), group.identity(s.shape[:2], dtype=s.dtype)))
    assert torch.allclose(twice, identity) == (group != groups.C(5) and group != groups.D(3))
    assert group.contains(g).all()
    h = group.haar(g.shape[:2], dtype=torch.float64, generator=seeded(3))
    torch.testing.assert_close(group.opposite(group.compose(h, g)), group.compose(h, group.opposite(g)))


def test_the_matrices_between_opposite_elements():
    for group, diagonal in [(groups.O(3), [-1, -1, -1]), (groups.SO(3), [-1, -1, 1]), (groups.SO(2), [-1, -1])]:
        g = drawn("antithetic", group, 2)[0]
        torch.testing.assert_close(g[0].mT @ g[1], torch.diag(torch.tensor(diagonal).double()))
    a, b = drawn("antithetic", groups.D(4), 2)[0]
    v = torch.tensor([1.0, 2.0])
    torch.testing.assert_close(groups.D(4).act(a, v), -groups.D(4).act(b, v))


def test_orders_of_a_pair_are_reversed_and_padding_is_not():
    mask = torch.tensor([[0, 1, 1, 1, 0], [1, 1, 1, 1, 1], [0, 0, 1, 0, 0]], dtype=torch.bool)
    g = drawn("antithetic", groups.S(), 6, mask=mask)
    assert groups.S().contains(g, mask=mask.unsqueeze(1)).all()
    for item, real in enumerate(mask.sum(1).tolist()):
        assert torch.equal(g[item, 0::2, :real].flip(-1), g[item, 1::2, :real])
        assert (g[item, :, real:] == (~mask[item]).nonzero().flatten()).all()


def test_what_is_odd_in_normal_noise_is_integrated_exactly():
    x = torch.randn(3, 4, 3, dtype=torch.float64, generator=seeded(1))
    weights = torch.randn(4, 3, dtype=torch.float64, generator=seeded(2))
    (z,) = on_points().noise(x, samples=6, coupling="antithetic", generator=seeded()).inputs
    (free,) = on_points().noise(x, samples=6, generator=seeded()).inputs
    assert (2 + (z * weights).sum((-2, -1))).mean(1).sub(2).abs().max() < 1e-12
    assert (2 + (free * weights).sum((-2, -1))).mean(1).sub(2).abs().max() > 0.1
    model = Symmetrized(lambda x: x[:, 0] @ weights.T, "m d -> k", {"d": groups.O(3)})  # linear in Q
    assert model(x, samples=2, coupling="antithetic").abs().max() < 1e-12


@pytest.mark.parametrize("chunk", [None, 1, 2, 3])
@pytest.mark.parametrize("samples", [2, 3, 10, 11])
def test_standard_error_is_that_of_pairs(samples, chunk):
    x = torch.randn(3, 4, 2, dtype=torch.float64, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S)
    estimate = model.estimate(
        x, samples=samples, coupling="antithetic", keep_values=True, chunk=chunk, generator=seeded()
    )
    y, even = estimate.values, samples // 2 * 2
    torch.testing.assert_close(estimate.mean, y.mean(1))
    means = torch.cat([(y[:, 0:even:2] + y[:, 1:even:2]) / 2, y[:, even:]], 1)
    weights = torch.tensor([2.0] * (even // 2) + [1.0] * (samples - even), dtype=torch.float64).view(-1, 1)
    many = len(weights)
    if many == 1:
        assert estimate.stderr.isnan().all()
        return
    variance = many / (many - 1) * (weights * (means - estimate.mean.unsqueeze(1))).square().sum(1) / samples**2
    torch.testing.assert_close(estimate.stderr, variance.sqrt(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("chunk", [None, 1, 3])
def test_standard_error_of_weighted_pairs(chunk):
    average = [samplers.Draw(5, {}, {}, weights=torch.tensor([[0.5, 1, 0, 0, 2], [1, 1, 1, 1, 1]]))]
    if chunk is not None:
        average = [average[0].chunk(i, i + chunk) for i in range(0, 5, chunk)]
    y = torch.randn(2, 5, 3, dtype=torch.float64, generator=seeded())
    stderr = estimate_of(average, y)
    blocks = [[(0, 1), (4,)], [(0, 1), (2, 3), (4,)]]  # a pair without weight is none
    w = torch.tensor([[0.5, 1, 0, 0, 2], [1, 1, 1, 1, 1]], dtype=torch.float64)
    for item, own in enumerate(blocks):
        mean = (w[item, :, None] * y[item]).sum(0) / w[item].sum()
        off = torch.stack([sum(w[item, k] * (y[item, k] - mean) for k in block) for block in own])
        wanted = (len(own) / (len(own) - 1) * off.square().sum(0)).sqrt() / w[item].sum()
        torch.testing.assert_close(stderr[item], wanted)


def estimate_of(parts, y):
    average, start = Average(statistics=True, block=2), 0
    for part in parts:
        average.add([y[:, start : start + part.count]], part)
        start += part.count
    average.stderr()  # asking changes nothing
    return average.stderr()[0]


@pytest.mark.parametrize("samples", [40, 41])
def test_standard_error_of_pairs_is_calibrated(samples):
    x = torch.randn(1, 4, 2, dtype=torch.float64, generator=seeded(4)).expand(3000, -1, -1)
    bases = {"nearly odd": lambda x: x[:, 0, 0] - x[:, 3, 0] + 0.3 * x[:, 1, 1].exp(), "bent": lambda x: bent(x)[:, 1]}
    for name, base in bases.items():
        model = Symmetrized(base, "n c -> ", S)
        estimate = model.estimate(x, samples=samples, coupling="antithetic", keep_values=True, generator=seeded())
        true = float(estimate.mean.std())
        assert abs(float(estimate.stderr.square().mean().sqrt()) / true - 1) < 0.15
        naive = float((estimate.values.std(1) / samples**0.5).mean())
        assert name == "bent" or naive > 1.5 * true


# quasi


def test_draws_are_a_shifted_sobol_sequence():
    model = on_sets()
    (u,) = model.noise(torch.ones(2, 3, 2, dtype=torch.float64), samples=8, coupling="quasi", generator=seeded()).inputs
    off = (u - SobolEngine(9).draw(8, dtype=torch.float64)[:, :6].view(8, 3, 2)) % 1
    torch.testing.assert_close(off, off[:, :1].expand_as(off))
    assert (off[0, 0] - off[1, 0]).abs().min() > 1e-6
    assert torch.unique(off[0, 0]).numel() == 6


@pytest.mark.parametrize("make", [on_sets, on_points])
def test_quasi_is_better_on_smooth_functions_of_the_noise(make):
    x = torch.zeros(200, 3, 3, dtype=torch.float64)

    def error(coupling):
        (z,) = make().noise(x, samples=64, coupling=coupling, generator=seeded()).inputs
        return float((z.flatten(2).mean(-1) + z[..., 0, 0].sin() * 0.5).mean(1).std())

    assert error("quasi") < 0.25 * error("independent")


@pytest.mark.parametrize("group", [groups.S(), groups.O(3), groups.D(4)], ids=repr)
def test_quasi_is_better_over_groups(group):
    if isinstance(group, groups.S):
        model = Symmetrized(lambda x: (x * torch.arange(4.0).view(4, 1)).sum((1, 2)).tanh(), "n c -> ", S)
        x = torch.randn(1, 4, 1, dtype=torch.float64, generator=seeded(1))
    else:
        model, x = haar(group)
    x = x[:1].expand(300, -1, -1)
    quasi, free = (
        model(x, samples=64, coupling=coupling, generator=seeded()).std(0).max() for coupling in ("quasi", None)
    )
    assert quasi < 0.8 * free


def test_quasi_spreads_a_finite_group_beside_a_mask():
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"n": groups.S(), "d": groups.C(4)})
    mask = torch.tensor([[True, True, False], [True, False, True]])
    drawn = model.estimate(torch.randn(2, 3, 2), mask=mask, samples=8, coupling="quasi", generator=seeded()).elements
    assert [row.bincount().tolist() for row in drawn["d"]] == [[2] * 4] * 2


def test_quasi_counts_every_random_number():
    model, x = on_sets(), torch.zeros(1, 10, 2120)
    model.noise(x[..., :2119], samples=1, coupling="quasi")  # 21190 of the noise, 10 for ties
    with pytest.raises(errors.RangeError, match=r"at most 21201 random numbers per draw.*\(got 21210\)"):
        model.noise(x, samples=1, coupling="quasi")


# stratified


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("times", [1, 2])
def test_all_permutations_are_the_exact_average(times, dtype):
    x = torch.randn(3, 4, 2, dtype=dtype, generator=seeded(1))
    exact = Symmetrized(bent, "n c -> k", S, samplers.Enumerate())(x)
    estimate = Symmetrized(bent, "n c -> k", S).estimate(x, samples=24 * times, coupling="stratified")
    torch.testing.assert_close(estimate.mean, exact)
    assert estimate.stderr.isnan().all()


@pytest.mark.parametrize(
    "bound",
    [
        {"n": groups.S(), "d": groups.C(4)},
        {"n": groups.S(), "d": groups.D(3)},
        {"d": groups.D(4)},
        {"n": groups.S(), "d": groups.C(3), "e": groups.C(2)},
    ],
    ids=str,
)
def test_all_elements_of_a_product_are_the_exact_average(bound):
    term = " ".join(["n", "d", "e"][: max(2, len(bound))])
    x = torch.randn(2, 3, 2, *([2] * (len(bound) > 2)), dtype=torch.float64, generator=seeded(1))
    mix = torch.randn(x[0].numel(), 2, dtype=torch.float64, generator=seeded(2))
    made = [
        Symmetrized(lambda x: (x.flatten(1) @ mix).sin(), f"{term} -> k", bound, sampler)
        for sampler in (samplers.Enumerate(), samplers.Haar())
    ]
    total = made[0].estimate(x).samples
    torch.testing.assert_close(made[1](x, samples=total, coupling="stratified"), made[0](x))
    for samples in (total // 2, total + 5):  # and each factor is even in any number of draws
        noise = made[1].noise(x, samples=samples, coupling="stratified")
        for key, group in bound.items():
            listed = group.elements(size=3)
            drawn = noise.elements[key].reshape(2, samples, -1)
            often = torch.stack([counts(draws, listed.reshape(len(listed), -1)) for draws in drawn])
            assert set(often.unique().tolist()) <= {samples // len(listed), -(-samples // len(listed))}


@pytest.mark.parametrize("samples", [1, 5, 6, 7, 30])
def test_permutations_of_masked_items_without_replacement(samples):
    mask = torch.tensor([[0, 1, 1, 0, 1, 0], [1, 1, 1, 1, 0, 0], [0, 0, 0, 1, 0, 0], [1, 0, 0, 0, 1, 0]]).bool()
    g = drawn("stratified", groups.S(), samples, mask=mask)
    assert g.shape == (4, samples, 6)
    for item, real in enumerate(mask.sum(1).tolist()):
        places = mask[item].nonzero().flatten().tolist()
        listed = torch.tensor(list(permutations(places)))
        often = counts(g[item, :, :real], listed)
        assert often.sum() == samples
        assert set(often.tolist()) <= {samples // len(listed), -(-samples // len(listed))}
        assert (g[item, :, real:] == (~mask[item]).nonzero().flatten()).all()


def test_seven_items_and_no_more():
    mask = torch.ones(1, 9).bool()
    mask[0, [2, 5]] = False
    g = drawn("stratified", groups.S(), 5040, mask=mask)
    assert len(torch.unique(g[0], dim=0)) == 5040
    with pytest.raises(errors.GroupError, match=r"at most 7 items to stratify \(got 9\)"):
        drawn("stratified", groups.S(), 5, mask=torch.ones(1, 9).bool())


def test_stratified_draws_are_so_from_the_first_on_and_in_random_order():
    g = drawn("stratified", groups.C(4), 10, batch=4000)
    for start in (0, 4):
        assert (g[:, start : start + 4].sort(1).values == torch.arange(4)).all()
    orders = torch.tensor(list(permutations(range(4))))
    assert uniform(g[:, :4], orders) > NEVER


@pytest.mark.parametrize("group", [groups.O(2), groups.SO(2), groups.O(3), groups.SO(3), groups.SE(3)], ids=repr)
def test_rotations_come_in_blocks_that_cover_the_signed_permutations(group):
    d = group.d
    proper = isinstance(group, groups.SO | groups.SE)
    many = math.factorial(d) * 2**d // (2 if proper else 1)
    elements = drawn("stratified", group, 2 * many + 1, batch=3)[..., :d]
    for block in elements:
        # each is one uniform element times a signed permutation: h' g has entries 0, 1 and -1 within a block
        inside = (block.unsqueeze(1).mT @ block).round(decimals=6).abs()
        same = ((inside == 0) | (inside == 1)).flatten(2).all(-1)
        sizes = sorted(same.sum(1).unique().tolist())
        assert sizes == [1, many]
        whole = block[same[int((same.sum(1) == many).nonzero()[0])]]
        assert len(torch.unique(whole.round(decimals=6), dim=0)) == len(whole)
        if d == 3:
            # so that functions of degree one and two average exactly
            v = torch.tensor([0.3, -1.2, 0.7], dtype=torch.float64)
            w = whole @ v
            assert w.mean(0).abs().max() < 1e-12
            assert torch.einsum("ka,kb,kc->abc", w, w, w).abs().max() < 1e-10
            assert torch.allclose(w.mT @ w / many, v.square().sum() / 3 * torch.eye(3, dtype=torch.float64))


def test_the_first_draws_are_a_block_however_many_follow():
    few, many = (drawn("stratified", groups.O(3), samples) for samples in (48, 200))
    for block in (few[0], many[0, :48]):
        inside = (block[0].mT @ block).round(decimals=6).abs()
        assert ((inside == 0) | (inside == 1)).all()
        assert len(torch.unique(block.round(decimals=6), dim=0)) == 48


def test_stratified_rotations_are_better_for_smooth_functions():
    model, x = haar(groups.E(3))
    x = 0.5 * x
    exact = model(x, samples=200_000, generator=seeded(5))
    errors_of = {
        name: torch.stack([model(x, samples=48, coupling=name, generator=seeded(i)) - exact for i in range(40)])
        for name in ("independent", "stratified")
    }
    small, large = (errors_of[name].square().mean() for name in ("stratified", "independent"))
    assert small < 0.3 * large


def test_rotations_beside_permutations_stay_different():
    bound = {"n": groups.S(), "d": groups.SO(3)}
    model = Symmetrized(first, "n d -> d", bound)
    noise = model.noise(torch.ones(1, 3, 3), samples=6, coupling="stratified", generator=seeded())
    assert len(torch.unique(noise.elements["n"][0], dim=0)) == 6
    assert groups.SO(3).contains(noise.elements["d"]).all()
    assert torch.unique(noise.elements["d"][0], dim=0).shape[0] == 6


def test_stratified_sides_of_any_net():
    sampler = samplers.FromHaar(lambda x: (x[..., 0] * torch.arange(3.0)).cos())
    x = torch.randn(2, 3, 2, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, sampler)
    sides = groups.S().elements(size=3).expand(2, -1, -1)
    noise = model.noise(x, samples=6)._replace(elements={"n": sides})
    torch.testing.assert_close(model(x, samples=6, coupling="stratified"), model(x, noise=noise))


# the average


def nbody(dtype=torch.float64, **options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = bases.MLP([24, 16, 12], activation="tanh", shape=(4, 3))
        sampler = samplers.Learned(nets.VNDGCNN(2, hidden=12, neighbours=2), noise=0.5, tau=0.1)
        joined = Together(base)
        bound = {"n": groups.S(), "d": groups.E(3)}
        model = Symmetrized(joined, "n d:point, n d -> n d", bound, sampler, samples=4, **options)
    x, v = torch.randn(2, 2, 4, 3, dtype=torch.float64, generator=seeded(5)).to(dtype)
    return model.to(dtype).eval(), (x, v)


class Together(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, x, v):
        return self.base(torch.cat([x.flatten(1), v.flatten(1)], 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("coupling", ["antithetic", "quasi"])
def test_learned_distributions_of_points(coupling, dtype):
    """The same expectation as of many independent draws, the gradient whole, and equivariant draw by draw."""
    model, inputs = nbody(dtype)
    with torch.no_grad():
        many = model.estimate(*inputs, samples=4000, generator=seeded())
        copies = [x.repeat_interleave(500, 0) for x in inputs]
        output = model(*copies, samples=8, coupling=coupling, generator=seeded(1)).unflatten(0, (2, 500)).double()
    error = (many.stderr.double().square() + output.var(1) / 500).sqrt()
    assert ((output.mean(1) - many.mean).abs() / error).max() < STANDARD_ERRORS
    model.train()(*inputs, samples=3, coupling=coupling).square().sum().backward()
    for part in (model.base, model.sampler):
        gradients = [p.grad for p in part.parameters() if p.grad is not None]
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert sum(float(gradient.abs().sum()) for gradient in gradients) > 0
    model, inputs = nbody(dtype, eval_coupling=coupling)
    assert assert_equivariant(model, *inputs, samples=6).draws == 12


@pytest.mark.parametrize("coupling", NAMES)
def test_the_expectation_is_the_same(coupling):
    x = torch.randn(1, 4, 2, dtype=torch.float64, generator=seeded(1)).expand(4000, -1, -1)
    mask = torch.tensor([True, True, False, True]).expand(4000, -1)
    for base in (bent, lambda x: x[:, :2].square().sum(1)):
        exact = Symmetrized(base, "n c -> k", S, samplers.Enumerate())(x[:1], mask=mask[:1])
        output = Symmetrized(base, "n c -> k", S)(x, mask=mask, samples=5, coupling=coupling, generator=seeded())
        assert ((output.mean(0) - exact).abs() / (output.std(0) / 4000**0.5)).max() < STANDARD_ERRORS


@pytest.mark.parametrize("coupling", NAMES)
@pytest.mark.parametrize("chunk", [1, 3, 4])
def test_chunks_change_nothing(coupling, chunk):
    x = torch.randn(3, 5, 2, dtype=torch.float64, generator=seeded(1))
    mask = torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 0]]).bool()
    whole, parts = (Symmetrized(bent, "n c -> k", S, samples=10, chunk=size).eval() for size in (None, chunk))
    options = {"mask": mask, "coupling": coupling}
    torch.testing.assert_close(parts(x, **options, generator=seeded()), whole(x, **options, generator=seeded()))
    a, b = (model.estimate(x, **options, generator=seeded()) for model in (whole, parts))
    assert torch.equal(a.elements["n"], b.elements["n"])
    torch.testing.assert_close((a.mean, a.stderr), (b.mean, b.stderr), equal_nan=True)


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_generators(coupling):
    x = torch.randn(3, 5, 2, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, samples=10)
    output, again, different = (model(x, coupling=coupling, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(output, again)
    assert not torch.equal(output, different)
    assert torch.equal(model(x, noise=model.noise(x, coupling=coupling, generator=seeded(1))), output)
    assert torch.equal(model.estimator()(x, coupling=coupling, generator=seeded(1)).mean, output)


def test_no_coupling_is_independence():
    x = torch.randn(3, 5, 2, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, samples=10)
    plain, independent = (model.estimate(x, coupling=name, generator=seeded()) for name in (None, "independent"))
    assert torch.equal(plain.mean, independent.mean)
    assert torch.equal(plain.stderr, independent.stderr)
    assert torch.equal(model.noise(x, generator=seeded()).elements["n"], plain.elements["n"])


@pytest.mark.parametrize("coupling", COUPLINGS)
def test_standard_errors_where_there_are_any(coupling):
    x = torch.randn(3, 5, 2, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, samples=10, eval_coupling=coupling).eval()
    estimate = model.estimate(x)
    none = coupling in ("quasi", "stratified")
    assert (BLOCKS.get(coupling) is None) == none
    assert estimate.stderr.isnan().all() == none
    assert estimate.stderr.shape == estimate.mean.shape
    noise = model.noise(x)
    assert model.estimate(x, noise=noise).stderr.isnan().all() == none
    assert model.train().estimate(x, noise=noise, coupling=coupling).stderr.isnan().all() == none


@pytest.mark.parametrize("most", [61, 10_000])
def test_tolerance_of_pairs(most):
    x = torch.randn(3, 5, 2, dtype=torch.float64, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, samples=5)
    options = {"coupling": "antithetic", "keep_values": True, "generator": seeded(), "max_samples": most}
    estimate = model.estimate(x, tol=0.03, **options)
    if most == 61:
        assert estimate.samples == 61
        return
    assert estimate.samples % 2 == 0
    assert estimate.samples > 60
    pairs = estimate.values.unflatten(1, (-1, 2)).mean(2)
    torch.testing.assert_close(estimate.stderr, pairs.std(1) / pairs.shape[1] ** 0.5)
    assert estimate.stderr.max() <= 0.03
    g = estimate.elements["n"]
    assert torch.equal(g[:, 0::2].flip(-1), g[:, 1::2])  # in every round
    assert model.estimate(x, tol=10.0, coupling="antithetic").samples == 60


# what a model remembers


def test_evaluation_is_coupled_and_training_is_not():
    x = torch.randn(2, 4, 2, generator=seeded(1))
    model = Symmetrized(first, "n c -> c", S, samples=24, eval_coupling="stratified")
    assert repr(model).count("eval_coupling='stratified'") == 1
    assert "coupling" not in repr(Symmetrized(first, "n c -> c", S))
    torch.testing.assert_close(model.eval()(x), x.mean(1))
    assert len(torch.unique(model.noise(x).elements["n"][0], dim=0)) == 24
    assert not torch.allclose(model(x, coupling="independent"), x.mean(1))
    assert not torch.allclose(model.train()(x), x.mean(1))
    torch.testing.assert_close(model(x, coupling="stratified"), x.mean(1))


def test_a_saved_model_keeps_its_coupling(tmp_path):
    pytest.importorskip("safetensors")
    model = Symmetrized(bases.MLP([8, 3]), "n c -> k", S, samples=2, eval_coupling="quasi")
    model.save_pretrained(tmp_path)
    assert Symmetrized.from_pretrained(tmp_path).eval_coupling == "quasi"
    assert Symmetrized.from_pretrained(tmp_path, eval_coupling=None).eval_coupling is None
    config = tmp_path / "config.json"
    config.write_text(config.read_text().replace('"eval_coupling": "quasi"', '"later": 1'))  # from before there was any
    assert Symmetrized.from_pretrained(tmp_path).eval_coupling is None
    config.write_text(config.read_text().replace('"later": 1', '"eval_coupling": "best"'))
    with pytest.raises(errors.RangeError, match="Expected coupling to be one of"):
        Symmetrized.from_pretrained(tmp_path)


def test_the_gap_is_measured_with_independent_draws():
    model = Symmetrized(bent, "n c -> k", S, eval_coupling="stratified")
    x = torch.randn(2, 4, 2, generator=seeded(1))
    pvalues = [equivariance_gap(model, x, samples=12, generator=seeded(i), relabellings=99).p_value for i in range(60)]
    assert stats.kstest(pvalues, "uniform").pvalue > NEVER


def test_listed_elements_have_nothing_to_couple():
    x = torch.randn(2, 4, 3, dtype=torch.float64, generator=seeded(1))
    model = Symmetrized(bent, "n c -> k", S, samplers.Enumerate(), eval_coupling="quasi").eval()
    assert (model.estimate(x, tol=0.1).stderr == 0).all()
    bound = {"d": groups.O(3)}
    framed = Symmetrized(
        lambda x: x[:, 0].exp(), "m d -> d", bound, samplers.Frame(), eval_coupling="antithetic"
    ).eval()
    assert (framed.estimate(x).stderr == 0).all()
    for symmetrized in (model, framed):
        with pytest.raises(
            errors.RangeError, match=r"Expected no coupling for .*lists its elements.*\(got 'antithetic'"
        ):
            symmetrized(x, coupling="antithetic")
        with pytest.raises(errors.RangeError, match="lists its elements"):
            symmetrized.noise(x, coupling="antithetic")
        symmetrized(x, coupling="independent")
    g = framed.estimate(x, samples=6).elements["d"]  # draws from the frame, and the signs of a pair differ
    torch.testing.assert_close(g[:, 0::2], -g[:, 1::2])


def test_nothing_random_is_nothing_to_couple():
    model = Symmetrized(lambda x: x, "n c -> n c", {})
    x = torch.randn(2, 4, 3)
    for coupling in ("antithetic", "quasi"):
        assert torch.equal(model(x, samples=3, coupling=coupling), x)


class Weighted(samplers.Haar):
    """Noise of its own, whose law it does not tell."""

    def noise(self, batch, draws, generator=None, *, start=0):
        return super().noise(batch, draws, generator)._replace(inputs=(torch.rand(len(batch), draws),))

    def noise_terms(self, signature):
        return (Term(()),)


X = torch.ones(2, 4, 2)
FIXED = samplers.Learned(nets.DeepSets(2), fixed_noise=True)
ERRORS = {
    "name": (
        lambda: Symmetrized(first, "n c -> c", S)(X, coupling="best"),
        errors.RangeError,
        r"one of independent, antithetic, quasi, stratified \(got 'best'\)",
    ),
    "no name": (lambda: Symmetrized(first, "n c -> c", S)(X, coupling=3), errors.RangeError, r"one of .*\(got 3\)"),
    "own name": (lambda: Symmetrized(first, "n c -> c", S, eval_coupling="best"), errors.RangeError, r"\(got 'best'\)"),
    "fixed noise": (
        lambda: Symmetrized(first, "n c -> c", S, FIXED)(X, index=torch.arange(2), coupling="quasi"),
        errors.SignatureError,
        r"\(got fixed_noise=True\)",
    ),
    "own fixed noise": (
        lambda: Symmetrized(first, "n c -> c", S, FIXED, eval_coupling="antithetic"),
        errors.SignatureError,
        r"\(got fixed_noise=True\)",
    ),
    "learned": (
        lambda: on_sets()(X, coupling="stratified"),
        errors.RangeError,
        r"sampler of uniform elements .*\(got Learned\)",
    ),
    "own learned": (
        lambda: on_sets(eval_coupling="stratified"),
        errors.RangeError,
        r"sampler of uniform elements .*\(got Learned\)",
    ),
    "no finite factor": (
        lambda: haar(groups.SO(4))[0](torch.ones(2, 4, 4), coupling="stratified"),
        errors.GroupError,
        r"`stratifies`, such as a finite group or rotations of at most 3 dimensions, .*\(got SO\(4\)\)",
    ),
    "laws": (
        lambda: Symmetrized(first, "n c -> c", S, Weighted())(X, coupling="quasi"),
        errors.SignatureError,
        r"laws of its input noise .*\(got Weighted\)",
    ),
    "tol quasi": (
        lambda: Symmetrized(first, "n c -> c", S).estimate(X, tol=0.1, coupling="quasi"),
        errors.RangeError,
        r"standard error for tol \(got coupling 'quasi'",
    ),
    "tol stratified": (
        lambda: Symmetrized(first, "n c -> c", S, eval_coupling="stratified").eval().estimate(X, tol=0.1),
        errors.RangeError,
        r"standard error for tol \(got coupling 'stratified'",
    ),
    "eight items": (
        lambda: Symmetrized(first, "n c -> c", S)(torch.ones(1, 8, 1), coupling="stratified"),
        errors.GroupError,
        r"at most 7 items to stratify \(got 8\)",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_eval_coupling_yields_to_independence():
    model = Symmetrized(bent, "n c -> k", S, eval_coupling="quasi").eval()
    assert model.estimate(torch.randn(2, 4, 2), tol=1.0, coupling="independent").samples == 30
    fixed = Symmetrized(first, "n c -> c", S, FIXED).eval()
    fixed(X, index=torch.arange(2), coupling="independent")
    assert math.isfinite(float(fixed.estimate(X, samples=3, index=torch.arange(2)).stderr.max()))


LISTED = {"Signs": (groups.Signs(), 3), "Shift": (groups.Shift(), 5), "Icosahedral": (groups.Icosahedral(), 3)}


@pytest.mark.parametrize("coupling", NAMES)
@pytest.mark.parametrize("name", LISTED)
def test_every_draw_from_a_list_keeps_its_law(name, coupling):
    group, size = LISTED[name]
    model = Symmetrized(first, "n d -> d", {"d": group})
    elements, x = group.elements(size=size), torch.ones(1500, 2, size)
    rows = elements.reshape(len(elements), -1)
    noise = model.noise(
        x, samples=len(elements) if coupling == "stratified" else 3, coupling=coupling, generator=seeded()
    )
    draws = noise.elements["d"]
    for place in (0, 2):
        assert uniform(draws[:, place].reshape(1500, -1), rows) > NEVER
    if coupling == "stratified":
        each = draws[0].reshape(len(elements), -1).unique(dim=0)
        assert len(each) == len(elements)
    if coupling == "antithetic":
        assert torch.equal(draws[:, 1], group.opposite(draws[:, 0]))


def test_a_coupling_of_ones_own_is_one_line(monkeypatch):
    monkeypatch.setitem(COUPLINGS, "own", COUPLINGS["independent"])
    model, x = Symmetrized(first, "n c -> c", S, samples=4), torch.randn(2, 3, 1)
    estimate = model.estimate(x, coupling="own", seed=0)
    assert torch.equal(estimate.mean, model(x, coupling="independent", seed=0))
    assert estimate.stderr.isnan().all()  # nobody knows how its draws depend on each other
