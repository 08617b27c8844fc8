"""Uniform draws, whatever the input is."""

import pytest
import torch

from probsym import Symmetrized, groups, samplers
from probsym.samplers import Noise
from tests.groups.uniformity import NEVER, STANDARD_ERRORS, first_moments, seeded, uniform

DTYPES = [torch.float64, torch.float32]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("holes", [None, [1, 0, 1, 1]])
def test_orders_are_uniform_over_the_real_items(holes, dtype):
    mask = None if holes is None else torch.tensor([holes], dtype=torch.bool)
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()}, samplers.Haar())
    drawn = model.estimate(torch.ones(1, 4, 1, dtype=dtype), mask=mask, samples=4800, generator=seeded()).elements["n"]
    listed = groups.S().elements(size=4)
    if mask is not None:
        listed = listed[groups.S().contains(listed, mask=mask) & (listed[:, 3] == 1)]
        assert len(listed) == 6
    assert uniform(drawn[0], listed) > NEVER


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("group", [groups.E(3), groups.SE(3)], ids=repr)
def test_euclidean_elements_are_uniform_about_the_centroid(group, dtype):
    x = torch.randn(1, 5, 3, dtype=dtype, generator=seeded(1)) + 7
    model = Symmetrized(lambda x: x.mean(1), "m d:point -> d:point", {"d": group}, samplers.Haar())
    estimate = model.estimate(x, samples=4000, generator=seeded())
    g = estimate.elements["d"][0]
    q, t = group.linear_part(g), group.translation(g)
    assert q.dtype == dtype
    assert group.contains(estimate.elements["d"]).all()
    assert first_moments(q) < STANDARD_ERRORS
    torch.testing.assert_close(t, x.mean(1).expand(4000, 3))
    torch.testing.assert_close(estimate.mean, x.mean(1))  # the base commutes, so every draw gives the centroid


def test_factors_are_independent():
    bound = {"n": groups.S(), "d": groups.C(3)}
    model = Symmetrized(lambda x: x[:, 0, 0], "n d -> ", bound, samplers.Haar())
    elements = model.estimate(torch.ones(1, 3, 2), samples=3600, generator=seeded()).elements
    pairs = torch.cat([elements["n"][0], elements["d"][0].unsqueeze(1)], 1)
    listed = torch.stack([torch.cat([p, q.view(1)]) for p in groups.S().elements(size=3) for q in torch.arange(3)])
    assert uniform(pairs, listed) > NEVER


def test_items_of_a_batch_and_draws_are_independent():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()})
    drawn = model.estimate(torch.ones(60, 3, 1), samples=60, generator=seeded()).elements["n"]
    same = (drawn[1:] == drawn[:-1]).all(-1).double().mean(), (drawn[:, 1:] == drawn[:, :-1]).all(-1).double().mean()
    assert all(abs(float(share) - 1 / 6) < 0.04 for share in same)


def test_elements_are_those_of_the_noise():
    model = Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": groups.S()})
    x, p = torch.randn(2, 4, 3), torch.tensor([[[2, 0, 1, 3]], [[3, 2, 1, 0]]])
    y = model(x, noise=Noise((), {}, {}, {"n": p}))
    assert torch.equal(y, torch.stack([x[0, 2], x[1, 3]]))


def test_haar_is_the_default():
    assert isinstance(Symmetrized(lambda x: x, "n c -> n c", {"n": groups.S()}).sampler, samplers.Haar)
