"""Models that differentiate inside, in evaluation."""

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, groups
from probsym.testing import assert_equivariant, equivariance_gap
from probsym.testing.moved import evaluating
from probsym.testing.subject import Subject

SIGNATURE = "n d:point -> n d"
BOTH = {"n": groups.S(), "d": groups.E(3)}


class Forces(nn.Module):
    """Minus the gradient of an energy of distances."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.energy = nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)).double()

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        squares = (x.unsqueeze(1) - x.unsqueeze(2)).square().sum(-1, keepdim=True)
        (gradient,) = torch.autograd.grad(self.energy(squares).sum(), x, create_graph=True)
        return -gradient


class InPlace(Forces):
    """Asks its caller's own tensor for a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.requires_grad_())


class Lopsided(Forces):
    """Pulled along an axis of the room."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + torch.tensor([0.1, 0.0, 0.0], dtype=x.dtype)


def points() -> Tensor:
    return torch.randn(1, 4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("kind", [Forces, InPlace])
def test_forces_can_be_tested(kind: type[Forces]) -> None:
    model, x = kind(), points()
    assert assert_equivariant(model, x, signature=SIGNATURE, groups=BOTH).error < 1e-9
    assert equivariance_gap(model, x, signature=SIGNATURE, groups=BOTH, samples=4).p_value == 1
    assert not x.requires_grad
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_wrong_forces_are_found() -> None:
    with pytest.raises(AssertionError, match=r"under E\(3\) on 'd'"):
        assert_equivariant(Lopsided(), points(), signature=SIGNATURE, groups=BOTH)


@pytest.mark.parametrize("chunk", [None, 2])
def test_symmetrized_forces_can_be_tested(chunk: int | None) -> None:
    model = Symmetrized(Lopsided(), SIGNATURE, BOTH, samples=4, chunk=chunk).eval()
    assert assert_equivariant(model, points()).error < 1e-9
    assert equivariance_gap(model, points(), samples=20).p_value > 1e-3
    wanted = model.suggest_samples(points(), stderr=0.001, samples=400, seed=0)
    assert wanted == pytest.approx(0.1**2 / 3 / 0.001**2, rel=0.2)


@pytest.mark.parametrize("kind", ["module", "function", "symmetrized"])
def test_no_graph_is_kept_from_call_to_call(kind: str) -> None:
    """Also of modules that only a function reaches, whose parameters keep their gradients."""
    layer, rules = nn.Linear(3, 3).double(), ("n d -> n d", {"n": groups.S()})
    models = {"module": layer, "function": layer.forward, "symmetrized": Symmetrized(layer, *rules, samples=2)}
    model = models[kind]
    subject = Subject.of(model, *(rules if kind != "symmetrized" else (None, None)))
    x = points().requires_grad_()
    with evaluating(model):
        noise = subject.model.noise(x) if subject.model is not None else None
        values = subject.values([x], None, noise)
    assert not any(y.requires_grad for y in values.outputs)
    assert x.requires_grad
    assert all(parameter.requires_grad for parameter in layer.parameters())
