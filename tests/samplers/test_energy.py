"""Weights by an energy, against sums written out with loops."""

import math
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, samplers, testing
from probsym.errors import GroupError, NonFiniteError, RangeError, ShapeError, SignatureError

C4 = {"h w": groups.C(4)}


def corner(x: Tensor) -> Tensor:
    return x[:, 0, 0]


def images(batch: int = 3) -> Tensor:
    return torch.randn(batch, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("tau", [0.0, 0.5, 3.0])
def test_images_in_every_orientation(tau: float) -> None:
    base = bases.MLP([16, 8, 2], activation="tanh").double()
    x = images()
    model = Symmetrized(base, "(h w) -> k", C4, samplers.Energy(corner, tau))
    wanted = []
    for upright in x:
        turned = [torch.rot90(upright, -k, (0, 1)) for k in range(4)]
        energies = [float(image[0, 0]) for image in turned]
        least = min(energies)
        weights = [math.exp(-(e - least) / tau) if tau else float(e == least) for e in energies]
        wanted.append(sum(w * base(image[None])[0] for w, image in zip(weights, turned, strict=True)) / sum(weights))
    estimate = model.estimate(x)
    torch.testing.assert_close(estimate.mean, torch.stack(wanted))
    assert (estimate.stderr == 0).all()
    assert estimate.samples == (1 if tau == 0 else 4)


def test_the_base_sees_only_what_has_least_energy() -> None:
    rows: list[int] = []
    model = Symmetrized(lambda x: rows.append(len(x)) or x[:, 0, 1], "(h w) -> ", C4, samplers.Energy(corner))
    model(images(5))
    assert rows == [5]


def test_equal_energies_share_the_average() -> None:
    model = Symmetrized(lambda x: x[:, 0, 1], "(h w) -> ", C4, samplers.Energy(corner))
    x = torch.tensor([[[0.0, 1.0], [5.0, 0.0]], [[0.0, 1.0], [2.0, 3.0]], [[1.0, 1.0], [1.0, 1.0]]])
    estimate = model.estimate(x)
    assert estimate.mean.tolist() == [3.0, 1.0, 1.0]  # the mean of 1 and 5; the only one; all four
    assert estimate.samples == 4
    assert (estimate.weights > 0).sum(1).tolist() == [2, 1, 4]
    nearly = x + torch.tensor([[0.0, 0.0], [0.0, 1e-7]])  # rounding does not decide
    torch.testing.assert_close(model(nearly), estimate.mean, atol=1e-5, rtol=0)


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_infinite_energies_forbid_elements(tau: float) -> None:
    """And leave close energies apart, which a large number would not."""

    def energy(x: Tensor) -> Tensor:
        return torch.where(x[:, 0, 0] > 4, torch.inf, x[:, 0, 0])

    model = Symmetrized(lambda x: x[:, 0, 0], "(h w) -> ", C4, samplers.Energy(energy, tau))
    x = torch.tensor([[[1.0, 2.0], [3.0, 9.0]]])
    allowed = torch.arange(1.0, 4.0)
    weights = torch.softmax(-allowed / tau, 0) if tau else torch.tensor([1.0, 0.0, 0.0])
    torch.testing.assert_close(model(x)[0], (weights * allowed).sum())


@pytest.mark.parametrize("tau", [0.0, 0.5])
@pytest.mark.parametrize(
    ("energies", "got"),
    [
        ([0.0, math.nan, 0.0, 0.0], "nan"),
        ([0.0, -math.inf, 0.0, 0.0], "-inf"),
        ([math.inf] * 4, "inf"),
    ],
)
def test_energies_without_a_least_are_refused(energies: list[float], got: str, tau: float) -> None:
    of_each = torch.tensor([0.0, 0.0, math.inf, 0.0, *energies])

    def energy(x: Tensor) -> Tensor:
        return of_each[x[:, 0, 0].long()]

    model = Symmetrized(lambda x: x[:, 0, 0], "(h w) -> ", C4, samplers.Energy(energy, tau))
    with pytest.raises(NonFiniteError, match=rf"finite least energy, .*\(got {got} for item 1\)"):
        model(torch.arange(8.0).view(2, 2, 2))


@pytest.mark.parametrize("named", ["none", "first", "both"])
def test_of_two_groups_of_items_masks_come_by_name(named: str) -> None:
    """Whichever are masked: an energy need not guess which axis a mask is of."""
    masks = {"n": torch.tensor([[True, True, False]]), "m": torch.tensor([[True, True]])}
    masks = {"none": None, "first": {"n": masks["n"]}, "both": masks}[named]

    def energy(x: Tensor, mask: Mapping[str, Tensor] | None) -> Tensor:
        if masks is None or mask is None:
            assert masks is mask
            return x[:, 0, 0]
        assert {key: each.shape for key, each in mask.items()} == {key: (4, masks[key].shape[1]) for key in masks}
        return x[:, 0, 0]

    model = Symmetrized(lambda x: x[:, 0, 0], "n m -> ", {"n": groups.S(), "m": groups.S()}, samplers.Energy(energy))
    least = 0.0 if named == "none" else 2.0
    assert model(torch.tensor([[[4.0, 3.0], [2.0, 5.0], [0.0, 0.0]]]), mask=masks).tolist() == [least]


@pytest.mark.parametrize("masked", [False, True])
def test_orders_of_sets(masked: bool) -> None:
    """The energy gets the mask, and an order of the real items alone."""
    mask = torch.tensor([[True, True, True], [True, False, True]]) if masked else None
    x = torch.tensor([[3.0, 1.0, 2.0], [5.0, -9.0, 4.0]])

    def first_two(x: Tensor, mask: Tensor | None = None) -> Tensor:
        assert (mask is not None) == masked
        return 10 * x[:, 0] + x[:, 1]

    model = Symmetrized(lambda x: x, "n -> k", {"n": groups.S()}, samplers.Energy(first_two))
    assert model(x, mask=mask).tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 0.0] if masked else [-9.0, 4.0, 5.0]]


def test_gradients_reach_the_energy_and_the_inputs() -> None:
    energy, x = nn.Sequential(nn.Flatten(), nn.Linear(16, 1)).double(), images().requires_grad_()
    model = Symmetrized(lambda x: x[:, 0, 1].sin(), "(h w) -> ", C4, samplers.Energy(energy, tau=0.7))
    assert torch.autograd.gradcheck(model, (x,))
    estimate = model.train().estimate(x)
    assert not estimate.stderr.requires_grad
    estimate.mean.sum().backward()
    assert all(p.grad.abs().max() > 0 for p in energy.parameters() if p.dim() > 1)
    cold = Symmetrized(model.base, "(h w) -> ", C4, samplers.Energy(energy))
    energy.zero_grad()
    cold(x).sum().backward()
    assert all(p.grad is None for p in energy.parameters())


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_some_elements_of_a_continuous_group(tau: float) -> None:
    def right(x: Tensor) -> Tensor:
        return -x[:, 0, 0]

    def base(x: Tensor) -> Tensor:
        return x[:, 1] ** 2

    sampler = samplers.Energy(right, tau, elements=5000)
    model = Symmetrized(base, "n d -> d", {"d": groups.SO(2)}, sampler)
    x = torch.tensor([[[3.0, 4.0], [1.0, -2.0]]], dtype=torch.float64)
    estimate = model.estimate(x, generator=torch.Generator().manual_seed(0))
    assert estimate.stderr.isnan().all()
    angles = torch.linspace(0, 2 * math.pi, 20001, dtype=torch.float64)[:-1]
    q = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], -1).view(-1, 2, 2)
    seen = x @ q  # inverse(g) x
    energy = right(seen)
    weights = torch.softmax(-energy / tau, 0) if tau else (energy == energy.min()).double()
    wanted = (weights.unsqueeze(-1) * (base(seen).unsqueeze(1) @ q.mT).squeeze(1)).sum(0) / weights.sum()
    torch.testing.assert_close(estimate.mean[0], wanted, atol=0.15, rtol=0)
    few = Symmetrized(base, "n d -> d", {"d": groups.SO(2)}, samplers.Energy(right, tau, elements=4))
    assert testing.assert_equivariant(few, x).error < 1e-12
    assert testing.equivariance_gap(few, x, generator=torch.Generator().manual_seed(1)).p_value > 1e-3


def test_a_classifier_chooses_its_own_pose() -> None:
    """The entropy of a frozen prediction: turned inputs get the prediction of the upright one."""
    torch.manual_seed(0)
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(16, 5), nn.LogSoftmax(-1)).double().requires_grad_(False)

    class Entropy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            logs = classifier(x)
            return -(logs.exp() * logs).sum(-1)

    model = Symmetrized(classifier, "(h w) -> k", {"h w": groups.D(4)}, samplers.Energy(Entropy()))
    x = images()
    for element in range(8):
        moved = groups.D(4).act(torch.tensor(element), x, (1, 2), "grid")
        torch.testing.assert_close(model(moved), model(x))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: samplers.Energy(3), SignatureError, "energy to be a module or function"),
        (lambda: samplers.Energy(corner, tau=-1.0), RangeError, "tau to be finite and 0 or more"),
        (lambda: samplers.Energy(corner, elements=0), RangeError, "elements"),
        (
            lambda: Symmetrized(corner, "n d -> ", {"d": groups.O(3)}, samplers.Energy(corner)),
            GroupError,
            r"finite group, or elements= as many as are to be weighed \(got O\(3\)\)",
        ),
        (
            lambda: Symmetrized(corner, "(h w) -> ", C4, samplers.Energy(lambda x: x))(images()),
            ShapeError,
            r"one number for each of 12 rows \(got \(12, 4, 4\)\)",
        ),
        (
            lambda: Symmetrized(corner, "(h w) -> ", C4, samplers.Energy(corner))(images(), samples=3),
            RangeError,
            "no samples for Energy",
        ),
        (
            lambda: Symmetrized(corner, "(h w) -> ", C4, samplers.Energy(corner))(images(), coupling="quasi"),
            RangeError,
            "no coupling for Energy",
        ),
    ],
)
def test_refuses(call, error, message) -> None:
    with pytest.raises(error, match=message):
        call()
