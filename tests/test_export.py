import sys

import pytest
import torch
from torch import nn

from probsym import Symmetrized, bases, export, groups, nets, samplers
from probsym.errors import DependencyError, TracingError
from tests.symmetrized_cases import IN_CI

S = groups.S()


def first_item(sampler: samplers.Sampler | None = None) -> Symmetrized:
    """Whose expectation is the mean over the items, if orders are uniform."""
    return Symmetrized(lambda x: x[:, 0], "n c -> c", {"n": S}, sampler).eval()


@pytest.mark.parametrize("coupling", ["independent", "antithetic", "stratified"])
def test_programs_draw_for_themselves(coupling: str) -> None:
    model = first_item()
    program = export.program(model, torch.randn(3, 4, 2), samples=2400, coupling=coupling).module()
    x = torch.randn(5, 4, 2)
    first, second = program(x), program(x)
    for output in (first, second):
        torch.testing.assert_close(output, x.mean(1), atol=0.15, rtol=0)
    assert not torch.equal(first, second) or coupling == "stratified"  # each item then comes first equally often


def test_sobol_sequences_are_not_drawn_inside() -> None:
    model, x = first_item(), torch.randn(4, 5, 2)
    with pytest.raises(TracingError, match="'quasi'"):
        export.program(model, x, coupling="quasi")
    noise = model.noise(x, samples=4, coupling="quasi")
    program = export.program(model, x[:2], noise=noise.rows(0, 2)).module()
    torch.testing.assert_close(program(x, noise=noise.named()), model(x, noise=noise))


def test_an_example_of_one_item_does() -> None:
    model, x = first_item(), torch.randn(6, 5, 2)
    program = export.program(model, x[:1], noise=model.noise(x[:1])).module()
    noise = model.noise(x)
    torch.testing.assert_close(program(x, noise=noise.named()), model(x, noise=noise))


def test_elements_that_act_on_several_axes_of_the_batch_at_once() -> None:
    octahedral, x = groups.Octahedral(), torch.randn(5, 4, 3)
    sampler = samplers.Canonical(nets.Lifted(lambda rows: rows[:, 0, 0], octahedral))
    model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"d": octahedral}, sampler).eval()
    noise = model.noise(x)
    program = export.program(model, x[:2], noise=noise.rows(0, 2)).module()
    torch.testing.assert_close(program(x, noise=noise.named()), model(x, noise=noise))


def test_masks_by_name() -> None:
    model = Symmetrized(bases.MLP([20, 3]), "n d:point, q c -> k", {"n": S, "d": groups.E(3)}, samples=2).eval()
    given = torch.randn(4, 4, 3), torch.randn(4, 4, 2)
    masks = {"n": torch.rand(4, 4) < 0.7, "q": torch.rand(4, 4) < 0.7}
    noise = model.noise(*given, mask=masks)
    some = [x[:2] for x in given], {name: mask[:2] for name, mask in masks.items()}
    program = export.program(model, *some[0], mask=some[1], noise=noise.rows(0, 2)).module()
    torch.testing.assert_close(program(*given, mask=masks, noise=noise.named()), model(*given, mask=masks, noise=noise))


class Timed(nn.Module):
    def forward(self, x: torch.Tensor, time: torch.Tensor, scale: torch.Tensor, power: int) -> torch.Tensor:
        return scale * x[:, 0] * time.unsqueeze(1) ** power


@pytest.mark.parametrize("count", [1, 2])
def test_further_arguments_of_the_base(count: int) -> None:
    model, x = Symmetrized(Timed(), "n c -> c", {"n": S}, samples=3).eval(), torch.randn(5, 4, 2)
    noise, extra = model.noise(x), {"time": torch.rand(5), "scale": torch.tensor(2.0), "power": 2}
    few = {**extra, "time": extra["time"][:count]}
    program = export.program(model, x[:count], noise=noise.rows(0, count), extra=few).module()
    extra["scale"] = torch.tensor(3.0)
    output = program(x, noise=noise.named(), extra=extra)
    torch.testing.assert_close(output, model(x, noise=noise, extra=extra))


class Counts(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[:, 0] + torch.zeros(len(x), 1)


def test_bases_that_take_the_length_of_a_batch_are_traced_strictly() -> None:
    model, x = Symmetrized(Counts(), "n c -> c", {"n": S}, samples=2).eval(), torch.randn(6, 5, 2)
    noise = model.noise(x)
    program = export.program(model, x[:2], noise=noise.rows(0, 2), strict=True).module()
    torch.testing.assert_close(program(x, noise=noise.named()), model(x, noise=noise))


def test_models_in_training_are_refused() -> None:
    with pytest.raises(TracingError, match="evaluation mode"):
        export.program(first_item().train(), torch.randn(2, 5, 2))


def test_other_modules_are_refused() -> None:
    with pytest.raises(TracingError, match=r"Expected a Symmetrized model to export \(got Linear\)"):
        export.program(nn.Linear(2, 2), torch.zeros(1, 2))  # type: ignore[arg-type]


def test_without_onnxscript_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(DependencyError, match=r"probsym\[onnx\]"):
        export.onnx(first_item(), torch.randn(2, 5, 2))


@pytest.mark.filterwarnings("ignore")  # of torch.onnx itself
@IN_CI
@pytest.mark.parametrize("sampler", [samplers.Haar(), samplers.Frame(kind="sort", exact=False)], ids=["Haar", "sort"])
def test_onnx_draws_for_itself(sampler: samplers.Sampler) -> None:
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    program = export.onnx(first_item(sampler), torch.randn(2, 4, 2), samples=2400)
    session = runtime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    x = torch.randn(3, 4, 2)
    x[:, 1:3, 0] = 9  # ties for the first place of the sorted, which the second channel decides
    wanted = (
        x.mean(1) if isinstance(sampler, samplers.Haar) else torch.stack([x[..., 0].amax(1), x[:, 1:3, 1].amax(1)], 1)
    )
    (y,) = session.run(None, {"inputs_0": x.numpy()})
    torch.testing.assert_close(torch.from_numpy(y), wanted, atol=0.5, rtol=0)
