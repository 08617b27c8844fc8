"""The gradient in the inputs is that of the function that was computed, for the noise that was drawn."""

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from probsym import Symmetrized, bases, groups, nets, samplers
from probsym.nets import Features
from tests.symmetrized_cases import SAMPLERS, SETTINGS, Setting, applies, make_inputs, make_model

CASES = [(setting, sampler) for setting in SETTINGS for sampler in SAMPLERS if applies(setting, sampler)]
STEP = 3e-6


def generic_inputs(case: Setting, masking: str) -> tuple[list[Tensor], object]:
    """Random inputs without ties: in graphs all nodes are linked, with weights of their own."""
    inputs, mask = make_inputs(case, torch.float64, masking, torch.Generator().manual_seed(1))
    for i, term in enumerate(case.inputs.split(",")):
        if term.split() == ["n", "n"]:
            weights = torch.rand(inputs[i].shape, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
            inputs[i] = weights + weights.mT
    return inputs, mask


def slope(function: Callable[..., Tensor], inputs: Sequence[Tensor], directions: Sequence[Tensor]) -> Tensor:
    """The derivative along a direction, by a central difference."""
    with torch.no_grad():
        ahead, behind = (
            function(*(x + sign * STEP * v for x, v in zip(inputs, directions, strict=True))) for sign in (1, -1)
        )
    return (ahead - behind) / (2 * STEP)


def errors(model: Symmetrized, inputs: Sequence[Tensor], mask: object, order: int = 1) -> float:
    """How far a derivative along a random direction is from the central difference, relative to its size."""
    noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(2))  # type: ignore[arg-type]
    generator = torch.Generator().manual_seed(3)
    directions = [[torch.randn(x.shape, dtype=x.dtype, generator=generator) for x in inputs] for _ in range(2)]

    def value(*given: Tensor) -> Tensor:
        y = model(*given, mask=mask, noise=noise)
        return (y.square() * torch.linspace(0.5, 1.5, y.numel(), dtype=y.dtype).view(y.shape)).sum()

    def along(*given: Tensor) -> Tensor:
        live = [x.detach().requires_grad_() for x in given]
        with torch.enable_grad():
            gradients = torch.autograd.grad(value(*live), live, create_graph=order == 2, materialize_grads=True)
            first = sum((g * v).sum() for g, v in zip(gradients, directions[0], strict=True))
            if order == 1:
                return first
            second = torch.autograd.grad(first, live, materialize_grads=True)
        return sum((g * v).sum() for g, v in zip(second, directions[1], strict=True))

    def first_only(*given: Tensor) -> Tensor:
        live = [x.detach().requires_grad_() for x in given]
        with torch.enable_grad():
            gradients = torch.autograd.grad(value(*live), live, materialize_grads=True)
        return sum((g * v).sum() for g, v in zip(gradients, directions[0], strict=True))

    wanted = slope(value if order == 1 else first_only, inputs, directions[order - 1])
    return float((along(*inputs) - wanted).abs() / wanted.abs().clamp(min=1e-3))


@pytest.mark.parametrize(("setting", "sampler"), CASES)
def test_gradients_are_central_differences(setting: str, sampler: str) -> None:
    case = SETTINGS[setting]
    model = make_model(case, case.outputs[-1], sampler, torch.float64)
    for masking in ("none", "holes") if case.maskable else ("none",):
        assert errors(model, *generic_inputs(case, masking)) < 1e-6, masking


@pytest.mark.parametrize(("setting", "sampler"), CASES)
def test_second_derivatives_are_central_differences(setting: str, sampler: str) -> None:
    case = SETTINGS[setting]
    inputs, mask = generic_inputs(case, "none")
    assert errors(make_model(case, case.outputs[-1], sampler, torch.float64), inputs, mask, order=2) < 1e-5


@pytest.mark.parametrize("masking", ["none", "holes"])
@pytest.mark.parametrize(("setting", "sampler"), [case for case in CASES if case[0] in ("SO(3)", "E(3)", "O(5)")])
def test_forces_can_be_learned(setting: str, sampler: str, masking: str) -> None:
    """The derivative of a force in the parameters, those of the sampler among them, is a central difference."""
    case = SETTINGS[setting]
    inputs, mask = generic_inputs(case, masking)
    model = make_model(case, case.outputs[0], sampler, torch.float64)
    noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(2))
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    generator = torch.Generator().manual_seed(3)
    directions = [torch.randn(parameter.shape, dtype=parameter.dtype, generator=generator) for parameter in parameters]

    def misfit() -> Tensor:
        x = inputs[0].detach().requires_grad_()
        energy = model(x, *inputs[1:], mask=mask, noise=noise).square().sum()
        (force,) = torch.autograd.grad(energy, x, create_graph=True)
        return (torch.where(force.abs() < 10, force, 0) - 0.1).square().sum()

    gradients = torch.autograd.grad(misfit(), parameters, materialize_grads=True)
    along = sum((g * v).sum() for g, v in zip(gradients, directions, strict=True))
    values = []
    for sign in (1, -2):
        with torch.no_grad():
            for parameter, v in zip(parameters, directions, strict=True):
                parameter.add_(sign * STEP * v)
        values.append(misfit().detach())
    wanted = (values[0] - values[1]) / (2 * STEP)
    assert float((along - wanted).abs() / wanted.abs()) < 1e-5


def test_repeated_eigenvalues_have_finite_gradients_that_are_those_of_the_function() -> None:
    """Three points in five dimensions leave a plane that nothing singles out; noise picks axes in it."""
    torch.manual_seed(0)
    base = bases.MLP([15, 16, 4], activation="tanh")
    model = Symmetrized(base, "m d -> k", {"d": groups.O(5)}, samplers.Frame()).double()
    assert errors(model, [torch.randn(2, 3, 5, dtype=torch.float64)], None) < 1e-6
    square = torch.tensor([[1.0, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0]]).double().unsqueeze(0).requires_grad_()
    flat = Symmetrized(bases.MLP([12, 16, 4], activation="tanh"), "m d -> k", {"d": groups.O(3)}, samplers.Frame())
    flat.double()(square).sum().backward()
    assert square.grad is not None
    assert square.grad.isfinite().all()


@pytest.mark.parametrize("name", ["Learned", "Canonical", "FromHaar"])
@pytest.mark.parametrize("setting", ["S", "C(4)", "S x SE(3)"])
def test_the_straight_through_gradient_in_the_inputs_would_be_noticed(setting: str, name: str) -> None:
    case = SETTINGS[setting]
    inputs, mask = generic_inputs(case, "none")
    model = make_model(case, case.outputs[-1], name, torch.float64)
    model.sampler.input_gradient = True  # type: ignore[assignment]
    assert errors(model, inputs, mask) > 1e-4


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("name", ["Learned", "Canonical", "FromHaar"])
@pytest.mark.parametrize("setting", ["S", "O(3)", "C(4)", "S x SE(3)"])
def test_parameters_get_the_same_gradient_whether_inputs_ask_for_one(setting: str, name: str, training: bool) -> None:
    case, gradients = SETTINGS[setting], []
    for live in (False, True):
        inputs, mask = generic_inputs(case, "holes")
        model = make_model(case, case.outputs[-1], name, torch.float64).train(training)
        noise = model.noise(*inputs, mask=mask, generator=torch.Generator().manual_seed(2))
        model(*(x.requires_grad_(live) for x in inputs), mask=mask, noise=noise).square().sum().backward()
        gradients.append(
            {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
        )
    assert gradients[0].keys() == gradients[1].keys()
    for key, gradient in gradients[0].items():
        torch.testing.assert_close(gradients[1][key], gradient, rtol=1e-8, atol=1e-10)
    assert any(key.startswith("sampler") and bool(gradient.abs().max() > 0) for key, gradient in gradients[0].items())


class Both(nn.Module):
    """Scores and vectors, with dropout, counting its calls."""

    perturbs, extra_noise = (0,), 0

    def __init__(self) -> None:
        super().__init__()
        self.dropout, self.calls = nn.Dropout(0.5), 0

    def forward(self, x: Tensor, mask: None = None) -> Features:
        self.calls += 1
        x = self.dropout(x)
        return Features(scores=x.square().sum(-1), vectors=(x[..., :3, :] + 0.1).mT)


@pytest.mark.parametrize(
    ("bound", "live", "input_gradient", "calls"),
    [
        ("nd", True, False, 2),
        ("nd", False, False, 1),
        ("nd", True, True, 1),
        ("n", True, False, 1),
        ("d", True, False, 1),
    ],
)
def test_nets_are_called_twice_only_where_they_must(bound: str, live: bool, input_gradient: bool, calls: int) -> None:
    every = {"n": groups.S(), "d": groups.O(3)}
    net = Both()
    sampler = samplers.Learned(net, tau=0.1, input_gradient=input_gradient)
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {key: every[key] for key in bound}, sampler, samples=2)
    x = torch.randn(2, 4, 3, requires_grad=live)
    model(x)
    assert net.calls == calls


def test_both_passes_drop_the_same() -> None:
    torch.manual_seed(0)
    model = Symmetrized(
        lambda x: x[:, 0],
        "n d -> d",
        {"n": groups.S(), "d": groups.O(3)},
        samplers.Learned(Both(), noise=0.1),
        samples=2,
    )
    x = torch.randn(2, 4, 3)
    noise = model.noise(x)
    torch.manual_seed(1)
    plain = model(x, noise=noise)
    after = torch.rand(())
    torch.manual_seed(1)
    torch.testing.assert_close(model(x.requires_grad_(), noise=noise), plain)
    assert torch.rand(()) == after


@pytest.mark.parametrize("asked", [False, True])
def test_an_encoder_gets_the_straight_through_gradient_if_asked(asked: bool) -> None:
    """Scores alone depend on the encoder here: what is sorted comes from elsewhere."""
    torch.manual_seed(0)
    encoder, x, other = nn.Linear(2, 2), torch.randn(3, 5, 2), torch.randn(3, 5, 1)
    sampler = samplers.Learned(nets.DeepSets(2), tau=0.1, reads=(0,), input_gradient=asked)
    model = Symmetrized(lambda seen, moved: moved[:, 0], "n c, n k -> k", {"n": groups.S()}, sampler, samples=4)
    (gradient,) = torch.autograd.grad(model(encoder(x), other).sum(), encoder.weight, materialize_grads=True)
    assert bool(gradient.abs().max() > 0) == asked


def test_statistics_of_norms_count_a_step_once() -> None:
    buffers = []
    for live in (False, True):
        torch.manual_seed(0)
        sampler = samplers.Learned(nets.VNDGCNN(1, hidden=24), tau=0.1)
        model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"n": groups.S(), "d": groups.O(3)}, sampler, samples=2)
        x = torch.randn(4, 5, 3, generator=torch.Generator().manual_seed(1)).requires_grad_(live)
        model(x, generator=torch.Generator().manual_seed(2))
        buffers.append([buffer.clone() for buffer in model.buffers()])
    assert buffers[0]
    for without_gradient, with_gradient in zip(*buffers, strict=True):
        torch.testing.assert_close(without_gradient, with_gradient)
