"""`equivariance_gap`: calibrated where the model is right, powerful where it is not."""

import pytest
import torch
from scipy import stats

from probsym import Symmetrized, groups, nets, samplers
from probsym.errors import RangeError
from probsym.ops import Order
from probsym.samplers.draw import Draw
from probsym.testing import equivariance_gap
from probsym.testing.moved import Moved

S = {"n": groups.S()}


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def inputs(dtype: torch.dtype = torch.float64, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 4, 2, generator=seeded(), dtype=torch.float64).to(dtype)


def smooth(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x[:, 0] - 2 * x[:, 1]).tanh()[:, 0], x[:, 2].sin()[:, 1]], 1)


class Identity(samplers.Haar):
    """Draws nothing: the model is deterministic, and as little symmetric as its base."""

    def forward(self, batch, noise):
        g = {key: torch.arange(orders.shape[-1]).expand_as(orders) for key, orders in noise.elements.items()}
        return Draw(noise.draws(), g, {key: Order(orders, batch.mask_of(key)) for key, orders in g.items()})


class Lazy(samplers.Haar):
    """Uniform in two draws of three, nothing in the third: random, and wrong."""

    def forward(self, batch, noise):
        index = noise.elements["n"].clone()
        index[:, ::3] = torch.arange(index.shape[-1])
        return Draw(index.shape[1], {"n": index}, {"n": Order(index, batch.mask_of("n"))})


class Weighing(samplers.Haar):
    """Uniform orders, those with more weight that leave the first item where it is."""

    def forward(self, batch, noise):
        draw = super().forward(batch, noise)
        return draw.weighted(1.0 + 9 * (draw.elements["n"][..., 0] == 0))


class Once(Identity):
    """One order, whatever the number of draws."""

    def forward(self, batch, noise):
        return super().forward(batch, noise).chunk(0, 1)


@pytest.mark.parametrize("sampler", [Weighing(), Once()], ids=lambda sampler: type(sampler).__name__)
def test_averages_are_compared_where_draws_alone_say_nothing(sampler: samplers.Sampler) -> None:
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", S, sampler, samples=20)
    assert equivariance_gap(model, inputs(batch=8), samples=20, generator=seeded(1)).p_value <= 0.01


class WeighingLearned(samplers.Learned):
    def forward(self, batch, noise):
        draw = super().forward(batch, noise)
        return draw.weighted(torch.ones(batch.count, draw.count))


def test_weighted_draws_with_fixed_noise_get_their_index() -> None:
    sampler = WeighingLearned(nets.DeepSets(2), fixed_noise=True)
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, sampler, samples=3), inputs(torch.float32)
    assert equivariance_gap(model, x, index=torch.arange(2), samples=4, generator=seeded()).stderr == 0


@pytest.mark.parametrize(("sampler", "samples"), [("Haar", 10), ("Haar", 50), ("Learned", 10)])
def test_p_values_are_uniform_for_right_models(sampler: str, samples: int) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        p = samplers.Haar() if sampler == "Haar" else samplers.Learned(nets.DeepSets(2, hidden=4)).double()
    model = Symmetrized(smooth, "n c -> k", S, p)
    generator, x = seeded(1), inputs()
    p_values = [
        equivariance_gap(model, x, samples=samples, relabellings=99, generator=generator).p_value for _ in range(200)
    ]
    p_values = torch.tensor(p_values) - torch.rand(200, generator=generator) / 100  # p is a multiple of 1/100
    assert stats.kstest(p_values.numpy(), "uniform").pvalue > 0.01


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampler", [Lazy(), Identity()])
def test_power(sampler: samplers.Sampler, dtype: torch.dtype) -> None:
    model = Symmetrized(lambda x: x[:, :3, 0] * torch.tensor([1.0, 2.0, 3.0], dtype=x.dtype), "n c -> k", S, sampler)
    model, generator = model.to(dtype), seeded(1)
    x = inputs(dtype, batch=8)
    p_values = [
        equivariance_gap(model, x, samples=50, relabellings=199, generator=generator).p_value for _ in range(20)
    ]
    assert sum(p < 0.01 for p in p_values) >= 18


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("sampler", ["Enumerate", "Frame", "Canonical"])
def test_deterministic_and_right(sampler: str, dtype: torch.dtype) -> None:
    made = {"Enumerate": samplers.Enumerate(), "Frame": samplers.Frame("sort")}
    model = Symmetrized(smooth, "n c -> k", S, made.get(sampler) or samplers.Canonical(nets.DeepSets(2))).to(dtype)
    report = equivariance_gap(model, inputs(dtype), samples=5, relabellings=99, generator=seeded())
    assert report.p_value == 1
    assert report.gap < 1e-6
    assert report.stderr < 1e-6


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_deterministic_and_wrong(dtype: torch.dtype) -> None:
    model, x = Symmetrized(lambda x: x[:, 0], "n c -> c", S, Identity()), inputs(dtype)
    report = equivariance_gap(model, x, samples=20, relabellings=99, generator=seeded())
    moved = Moved.at_random(model.signature, [x], None, seeded()).inputs[0]
    assert report.p_value == 1 / 100
    assert report.gap == pytest.approx(float((moved[:, 0] - x[:, 0]).square().mean().sqrt()), rel=1e-5)
    assert report.stderr < 1e-6


def test_gap_and_stderr_of_a_right_model() -> None:
    """The expected square of the gap is that of its standard error, both of known size."""
    model, x, generator = Symmetrized(smooth, "n c -> k", S), inputs(), seeded(1)
    reports = [equivariance_gap(model, x, samples=50, relabellings=1, generator=generator) for _ in range(200)]
    gap, stderr = (
        torch.tensor([getattr(report, name) for report in reports]).square().mean() for name in ("gap", "stderr")
    )
    every = Symmetrized(smooth, "n c -> k", S, samplers.Enumerate()).estimate(x, keep_values=True).values
    known = 2 * every.var(1, correction=0).mean() / 50
    assert gap / stderr == pytest.approx(1, abs=0.15)
    assert stderr / known == pytest.approx(1, abs=0.05)


def test_a_large_output_does_not_hide_a_small_one() -> None:
    model = Symmetrized(lambda x: (1e6 + x.sum((1, 2)), x[:, 0]), "n c -> , c", S, Identity())
    report = equivariance_gap(model, inputs(torch.float32), samples=20, relabellings=99, generator=seeded())
    assert report.p_value <= 0.02


def test_without_groups() -> None:
    model = Symmetrized(smooth, "n c -> k", {}, samples=3)
    assert equivariance_gap(model, inputs(), samples=5, generator=seeded()).p_value == 1


def test_masks_and_several_outputs() -> None:
    mask = torch.tensor([[1, 0, 1, 1], [1, 1, 1, 0]]).bool()
    x = torch.where(mask.unsqueeze(-1), inputs(), torch.nan)
    model = Symmetrized(lambda x: (x, x[:, 0], x[:, 0, 0]), "n c -> n c, c, ", S)
    report = equivariance_gap(model, x, mask=mask, samples=30, generator=seeded())
    assert 0.001 < report.p_value <= 1
    assert report.gap > 0


def test_leaves_modes_and_global_generator() -> None:
    net = nets.GIN(2, hidden=4)
    model = Symmetrized(lambda x, a: x[:, 0], "n c, n n -> c", S, samplers.Learned(net)).train()
    net.layers[0].eval()
    modes, state = [module.training for module in model.modules()], torch.get_rng_state()
    equivariance_gap(model, inputs(torch.float32), torch.ones(2, 4, 4), samples=5, relabellings=9, generator=seeded())
    assert [module.training for module in model.modules()] == modes
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(("samples", "relabellings"), [(1, 99), (0, 99), (10, 0)])
def test_refused(samples: int, relabellings: int) -> None:
    with pytest.raises(RangeError, match=rf"Expected 2 samples and 1 relabelling or more \(got {samples} and"):
        equivariance_gap(Symmetrized(smooth, "n c -> k", S), inputs(), samples=samples, relabellings=relabellings)


def test_an_empty_batch_is_refused() -> None:
    with pytest.raises(RangeError, match="Expected a batch with an item to move"):
        equivariance_gap(Symmetrized(smooth, "n c -> k", S), inputs()[:0])
