"""The average over draws and its standard error: formulas, honesty, stopping, and what else an estimate holds."""

from dataclasses import replace
from itertools import permutations

import pytest
import torch
from scipy import stats
from torch import nn

from probsym import Symmetrized, errors, groups, nets, samplers
from probsym.estimate import Average, draws_for
from probsym.ops import SoftSort, soft_sort
from probsym.samplers.draw import Draw
from probsym.samplers.haar import from_elements
from probsym.signature import Term
from tests.symmetrized_cases import SETTINGS, make_inputs, make_model

S = {"n": groups.S()}
DTYPES = [torch.float64, torch.float32]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64).to(dtype)


def smooth(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x[:, 0] - 2 * x[:, 1]).tanh()[:, 0], x[:, 2].sin()[:, 1]], 1)


class Weighted(samplers.Haar):
    """Uniform elements with weights that come with the noise."""

    def noise(self, batch, draws, generator=None, *, start=0):
        weights = torch.rand(len(batch), draws, generator=generator, dtype=batch.dtype)
        return super().noise(batch, draws, generator)._replace(inputs=(weights,))

    def noise_terms(self, signature):
        return (Term(()),)  # one number a draw, which nothing moves

    def forward(self, batch, noise):
        return replace(from_elements(batch, noise), weights=noise.inputs[0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunk", [None, 1, 4])
def test_mean_and_standard_error(dtype: torch.dtype, chunk: int | None) -> None:
    x = normal(3, 4, 2, dtype=dtype)
    model = Symmetrized(smooth, "n c -> k", S, samples=10)
    estimate = model.estimate(x, keep_values=True, chunk=chunk, generator=seeded())
    y = estimate.values.double()
    tolerance = {"atol": 1e-12, "rtol": 1e-9} if dtype == torch.float64 else {"atol": 1e-6, "rtol": 1e-4}
    assert estimate.samples == 10
    assert estimate.mean.dtype == estimate.stderr.dtype == dtype
    torch.testing.assert_close(estimate.mean.double(), y.mean(1), **tolerance)
    torch.testing.assert_close(estimate.stderr.double(), y.std(1) / 10**0.5, **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("chunk", [None, 1, 4])
@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e4])
def test_weights(dtype: torch.dtype, chunk: int | None, scale: float) -> None:
    x = normal(3, 4, 2, dtype=dtype)
    model = Symmetrized(smooth, "n c -> k", S, Weighted(), samples=10)
    noise = model.noise(x, generator=seeded())
    noise = noise._replace(inputs=(noise.inputs[0] * scale,))
    estimate = model.estimate(x, noise=noise, keep_values=True, chunk=chunk)
    y, w = estimate.values.double(), noise.inputs[0].double().unsqueeze(-1)
    mean = (w * y).sum(1) / w.sum(1)
    variance = 10 / 9 * (w.square() * (y - mean.unsqueeze(1)).square()).sum(1) / w.sum(1).square()
    tolerance = {"atol": 1e-12, "rtol": 1e-9} if dtype == torch.float64 else {"atol": 1e-6, "rtol": 1e-4}
    torch.testing.assert_close(estimate.mean.double(), mean, **tolerance)
    torch.testing.assert_close(model(x, noise=noise), estimate.mean)
    torch.testing.assert_close(estimate.stderr.double(), variance.sqrt(), **tolerance)
    torch.testing.assert_close(estimate.weights.double(), (w / w.sum(1, keepdim=True)).squeeze(-1), **tolerance)


def test_rounding_makes_no_variance_negative() -> None:
    """Squares are taken about the first value, which has no weight here; all others agree."""
    y = normal(200, 2, dtype=torch.float32)[:, [0, 1, 1, 1]]
    average = Average(statistics=True)
    average.add([y], Draw(4, {}, {}, weights=torch.tensor([0.0, 1.0, 1.0, 1.0]).expand(200, 4)))
    (stderr,) = average.stderr()
    assert (stderr < 1e-3).all()


@pytest.mark.parametrize("coupling", ["independent", "antithetic"])
def test_the_mean_has_a_gradient_and_its_error_has_none(coupling: str) -> None:
    x = normal(3, 4, 2).requires_grad_()
    estimate = Symmetrized(smooth, "n c -> k", S, samples=5).estimate(x, coupling=coupling)
    assert estimate.mean.requires_grad
    assert not estimate.stderr.requires_grad


def test_one_draw_and_exact_averages() -> None:
    x = normal(3, 4, 2)
    assert Symmetrized(smooth, "n c -> k", S).estimate(x).stderr.isnan().all()
    exact = Symmetrized(smooth, "n c -> k", S, samplers.Enumerate()).estimate(x)
    assert exact.samples == 24
    assert (exact.stderr == 0).all()
    wanted = torch.stack([smooth(x[:, list(order)]) for order in permutations(range(4))]).mean(0)
    torch.testing.assert_close(exact.mean, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
def test_frame_of_few_and_many_orders_in_one_batch(dtype: torch.dtype) -> None:
    """Weights that fill up a batch round nothing: as exact as every item on its own."""
    triangle, path = (torch.ones(3, 3) - torch.eye(3)), torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    adjacency = torch.stack([triangle, path]).to(dtype)
    x = normal(2, 3, dtype=dtype, seed=1)
    model = Symmetrized(lambda x, a: x[:, 0] + 2 * x[:, 1], "n, n n ->", S, samplers.Frame("laplacian")).eval()
    output = model(x, adjacency)
    alone = torch.cat([model(x[i : i + 1], adjacency[i : i + 1]) for i in range(2)])
    torch.testing.assert_close(output, alone, atol=8 * torch.finfo(dtype).eps, rtol=0)
    torch.testing.assert_close(output[0], x[0].mean() * 3, atol=8 * torch.finfo(dtype).eps, rtol=0)


def test_one_draw_beside_a_listed_frame_has_no_standard_error() -> None:
    triangle, path = (torch.ones(3, 3) - torch.eye(3)), torch.tensor([[0.0, 1, 0], [1, 0, 1], [0, 1, 0]])
    model = Symmetrized(lambda x, a: x[:, 0], "n, n n ->", S, samplers.Frame("laplacian", limit=2)).eval()
    stderr = model.estimate(torch.arange(3.0).expand(2, 3), torch.stack([triangle, path])).stderr
    assert stderr[0].isnan()
    assert stderr[1] == 0


def test_random_bases_of_a_frame_are_not_called_exact() -> None:
    """Equal eigenvalues leave the axes random: the signs say nothing about how far the average is off."""
    model = Symmetrized(lambda x: x[:, 0, 0].square(), "m d ->", {"d": groups.O(2)}, samplers.Frame()).eval()
    estimates = [model.estimate(torch.eye(2)[None]) for _ in range(5)]
    assert torch.stack([estimate.mean for estimate in estimates]).std() > 1e-3
    assert all(estimate.stderr.isnan().all() or (estimate.stderr > 0).all() for estimate in estimates)


@pytest.mark.parametrize("draws", [30, 100])
@pytest.mark.parametrize("sampler", ["Haar", "Learned"])
def test_standard_error_is_honest(sampler: str, draws: int) -> None:
    """The 95 % interval of 3,000 repeats covers the expectation in 93 to 97 %."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        p = samplers.Haar() if sampler == "Haar" else samplers.Learned(nets.DeepSets(2, hidden=8), noise=1.0)
    model = Symmetrized(smooth, "n c -> k", S, p, samples=draws).eval()
    x = normal(1, 4, 2, dtype=torch.float32).expand(3000, -1, -1)
    with torch.no_grad():
        estimate = model.estimate(x, generator=seeded(1))
        if sampler == "Haar":
            true = Symmetrized(smooth, "n c -> k", S, samplers.Enumerate())(x[:1])
        else:
            true = model(x, samples=200, generator=seeded(2)).mean(0, keepdim=True)
    covered = (estimate.mean - true).abs() <= stats.t.ppf(0.975, draws - 1) * estimate.stderr
    assert ((covered.float().mean(0) >= 0.93) & (covered.float().mean(0) <= 0.97)).all()


def test_huge_offsets_do_not_cancel() -> None:
    x = torch.arange(8.0).expand(2, -1)
    model = Symmetrized(lambda x: 1e6 + x[:, 0], "n ->", S, samples=200)
    for chunk in (None, 7):
        estimate = model.estimate(x, keep_values=True, chunk=chunk, generator=seeded())
        y = estimate.values.double()
        torch.testing.assert_close(estimate.stderr.double(), y.std(1) / 200**0.5, rtol=1e-3, atol=0)
        assert (estimate.mean - y.mean(1)).abs().max() <= 0.13  # two steps of float32 at 1e6


@pytest.mark.parametrize("tol", [0.5, 0.05])
def test_tolerance(tol: float) -> None:
    x = normal(3, 4, 2)
    model = Symmetrized(smooth, "n c -> k", S)
    estimate = model.estimate(x, samples=5, tol=tol, keep_values=True, generator=seeded())
    assert estimate.stderr.max() <= tol
    assert estimate.values.shape[1] == estimate.samples == estimate.elements["n"].shape[1]
    so_many = 30
    while so_many < estimate.samples:
        y = estimate.values[:, :so_many]
        assert (y.std(1) / so_many**0.5).max() > tol
        so_many += max(5, so_many // 2)
    assert so_many == estimate.samples
    torch.testing.assert_close(estimate.mean, estimate.values.mean(1))


@pytest.mark.parametrize("samples", [1, 5])
def test_tolerance_is_not_met_by_luck(samples: int) -> None:
    """Of outputs 0 and 1, the first few draws may all be equal; that is no standard error of zero."""
    x = torch.tensor([1.0, -1.0, -1.0, -1.0]).view(1, 4, 1)
    model = Symmetrized(lambda x: (x[:, 0, 0] > 0).float(), "n c -> ", S, samples=samples)
    estimates = [model.estimate(x, tol=0.05, generator=seeded(i)) for i in range(200)]
    assert all(float(estimate.mean) > 0 and estimate.samples >= 30 for estimate in estimates)
    assert sum(abs(float(estimate.mean) - 0.25) <= 0.15 for estimate in estimates) >= 190


@pytest.mark.parametrize(("samples", "most"), [(30, 50), (30, 30), (100, 10), (1, 7)])
def test_so_many_draws_and_no_more(samples: int, most: int) -> None:
    model = Symmetrized(smooth, "n c -> k", S)
    assert model.estimate(normal(3, 4, 2), samples=samples, tol=1e-9, max_samples=most).samples == most


def test_tolerance_of_exact_averages() -> None:
    model = Symmetrized(smooth, "n c -> k", S, samplers.Enumerate())
    assert model.estimate(normal(3, 4, 2), tol=1e-9).samples == 24


def test_values_only_if_asked_for() -> None:
    model = Symmetrized(smooth, "n c -> k", S, samples=3)
    assert model.estimate(normal(3, 4, 2)).values is None
    assert model.estimate(normal(3, 4, 2), keep_values=True).values.shape == (3, 3, 2)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sampler", ["Haar", "Learned", "FromHaar", "Frame", "Canonical"])
@pytest.mark.parametrize("setting", ["S", "E(3)", "S x SE(3)"])
def test_elements(setting: str, sampler: str, dtype: torch.dtype) -> None:
    """Undoing the elements, centroid and all, is what the base saw; applying them is what was averaged."""
    case, seen, made = SETTINGS[setting], [], []
    inputs, _ = make_inputs(case, dtype, "none", seeded())
    model = make_model(case, case.outputs[-1], sampler, dtype)
    model.base.register_forward_hook(lambda module, args, out: seen.append(args))
    model.base.register_forward_hook(lambda module, args, out: made.append(out))
    estimate = model.estimate(*inputs, keep_values=True, generator=seeded())
    draws = estimate.samples
    g = {key: elements.flatten(0, 1) for key, elements in estimate.elements.items()}
    back = {key: case.groups[key].inverse(elements) for key, elements in g.items()}
    undone = model.signature.act(back, [x.repeat_interleave(draws, 0) for x in inputs])
    tolerance = {"atol": 1e-9, "rtol": 0} if dtype == torch.float64 else {"atol": 1e-4, "rtol": 0}
    for x, y in zip(undone, seen[0], strict=True):
        torch.testing.assert_close(x, y, **tolerance)
    (moved,) = model.signature.act_on_outputs(g, [made[0]])
    torch.testing.assert_close(moved, estimate.values.flatten(0, 1), **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("chunk", [None, 2])
def test_entropy(dtype: torch.dtype, training: bool, chunk: int | None) -> None:
    x, mask = normal(3, 5, 2, dtype=dtype), torch.tensor([[1, 0, 1, 1, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 1]]).bool()
    net = nets.DeepSets(2)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, samplers.Learned(net, tau=0.1), samples=5).to(dtype)
    model.train(training)
    noise = model.noise(x, mask=mask, generator=seeded())
    scores = net(x.unsqueeze(1) + noise.inputs[0], mask=mask).scores
    wanted = soft_sort(scores, mask=mask.unsqueeze(1), tau=0.1).entropy().mean()
    estimate = model.estimate(x, mask=mask, noise=noise, chunk=chunk)
    assert set(estimate.losses) == {"entropy"}
    torch.testing.assert_close(estimate.losses["entropy"], wanted, rtol=1e-4, atol=1e-6)
    gradient, expected = (
        torch.autograd.grad(loss, net.head.weight)[0] for loss in (estimate.losses["entropy"], wanted)
    )
    assert gradient.abs().max() > 0
    torch.testing.assert_close(gradient, expected, rtol=1e-3, atol=1e-5)
    with torch.no_grad():
        torch.testing.assert_close(model.estimate(x, mask=mask, noise=noise).losses["entropy"], wanted)


def test_losses_are_computed_in_training_and_otherwise_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(SoftSort, "entropy", lambda self: calls.append(1) or torch.zeros(()))
    model = Symmetrized(smooth, "n c -> k", S, samplers.Learned(nets.DeepSets(2)), samples=3)
    x = normal(3, 4, 2, dtype=torch.float32)
    model.train().estimate(x)
    assert calls == [1]
    estimate = model.eval().estimate(x)
    assert calls == [1]
    assert estimate.losses["entropy"] == 0
    assert (len(estimate.losses), calls) == (1, [1, 1])  # and then no more


@pytest.mark.parametrize("training", [False, True])
def test_the_entropy_is_zero_where_nothing_is_relaxed(training: bool) -> None:
    for sampler in (samplers.Haar(), samplers.Enumerate(), samplers.Frame("sort")):
        losses = Symmetrized(smooth, "n c -> k", S, sampler).train(training).estimate(normal(3, 4, 2)).losses
        assert dict(losses) == {"entropy": 0}


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_entropy_of_finite_groups_is_that_of_their_softmax(dtype: torch.dtype) -> None:
    x, group = normal(3, 5, 2, dtype=dtype), groups.C(4)
    net = nets.Lifted(lambda rows: rows.sum((1, 2)).tanh(), group, rank=2)
    for sampler in (
        samplers.Learned(net, noise=0.5, tau=0.3),
        samplers.FromHaar(lambda x: x[:, 0, :].repeat(1, 2), tau=0.3),
    ):
        model = Symmetrized(lambda x: x[:, 0], "m d -> d", {"d": group}, sampler, samples=6)
        estimate = model.estimate(x, chunk=4)
        logits = torch.cat([part.features["d"] for part in estimate.chunks], 1)
        wanted = torch.distributions.Categorical(logits=logits / 0.3).entropy().mean()
        torch.testing.assert_close(estimate.losses["entropy"], wanted)
        assert estimate.losses["entropy"] > 0.1


def test_an_estimator_is_the_model_with_another_call() -> None:
    model = Symmetrized(nn.Linear(4, 2), "n -> k", S, samples=3)
    estimator = model.estimator()
    assert list(estimator.parameters()) == list(model.parameters())
    assert not model.eval().estimator().model.training
    x = normal(3, 4, dtype=torch.float32)
    estimate = estimator(x, samples=5, generator=seeded(1), keep_values=True)
    assert estimate.values.shape == (3, 5, 2)
    assert torch.equal(estimate.mean, model(x, samples=5, generator=seeded(1)))


# how many draws


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_suggested_samples_give_the_standard_error(dtype):
    """The worst item and output decide: items of 5 and 3 values, the second output ten times the first."""
    model = Symmetrized(lambda x: (x[:, 0], 10 * x[:, 0]), "n -> , ", S, eval_coupling="quasi").eval()
    x, mask = normal(2, 5, dtype=dtype), torch.tensor([[True] * 5, [True, False, True, False, True]])
    variance = max(float(row[real].var(correction=0)) for row, real in zip(x, mask, strict=True))
    samples = model.suggest_samples(x, stderr=0.1, mask=mask, samples=5000, seed=1)
    assert samples == pytest.approx(100 * variance / 0.1**2, rel=0.1)
    assert model.suggest_samples(x, stderr=0.2, mask=mask, samples=5000, seed=1) == pytest.approx(samples / 4, abs=1)
    reached = model.estimate(x, mask=mask, samples=samples, seed=2, coupling="independent").stderr[1].max()
    assert float(reached) == pytest.approx(0.1, rel=0.1)


def test_suggested_samples_of_what_is_exact():
    for sampler in (samplers.Frame(), samplers.Canonical(nets.VNDGCNN(1, hidden=12, scores=False))):
        model = Symmetrized(lambda x: x[:, 0, 0], "m d -> ", {"d": groups.O(3)}, sampler).double().eval()
        assert model.suggest_samples(normal(3, 4, 3), stderr=0.01) == 1


def test_an_empty_batch_needs_one_draw():
    assert Symmetrized(lambda x: x[:, 0], "n c -> c", S).suggest_samples(torch.zeros(0, 3, 2), stderr=0.1) == 1


@pytest.mark.parametrize("stderr", [1e-200, 1e-160])
def test_suggested_samples_are_no_more_than_can_be_counted(stderr):
    with pytest.raises(errors.RangeError, match="finite number of draws"):
        draws_for(0.04, stderr)


def test_suggested_samples_need_a_standard_error():
    square = torch.tensor([[[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]], dtype=torch.float64)
    model = Symmetrized(lambda x: x[:, 0, 0], "m d -> ", {"d": groups.O(3)}, samplers.Frame())
    with pytest.raises(errors.RangeError, match="with a standard error"):
        model.suggest_samples(square, stderr=0.1)
    drawing = Symmetrized(model.base, "m d -> ", {"d": groups.O(3)}, samplers.Frame(exact=False))
    assert drawing.suggest_samples(square, stderr=0.1, samples=4000, seed=0) == pytest.approx(50, rel=0.1)
    for options in ({"stderr": 0.0}, {"stderr": float("nan")}, {"stderr": 0.1, "samples": 1}):
        with pytest.raises(errors.RangeError):
            drawing.suggest_samples(square, **options)
