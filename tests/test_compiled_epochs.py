"""Compiled models through epochs whose batches differ in size, in training and in evaluation.

    PYTHONPATH=src:. PROBSYM_TOOLS=1 python -m pytest -p no:cacheprovider tests/test_compiled_epochs.py

runs all of it, on a GPU by inductor where there is one. On a CPU the compiler makes no code, which takes as long as all
else together, unless PROBSYM_BACKEND=inductor asks for it.
"""

import os
from collections.abc import Callable
from itertools import product

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from probsym import Symmetrized, groups, samplers
from probsym.lab.engine import COMPILER
from tests.symmetrized_cases import SETTINGS, make_inputs, make_model

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BACKEND = os.environ.get("PROBSYM_BACKEND", "inductor" if DEVICE == "cuda" else "aot_eager")
EPOCH = (6, 4, 5)
"""The sizes of the batches."""
DRAWS = {"fallback_random": True, "reorder_for_peak_memory": False}
"""Draws as without a compiler, and in that order, which torch before 2.13 may change (pytorch issue 181136)."""

CASES = [
    ("S", "Haar"),
    ("S", "Enumerate"),
    ("S", "Frame"),
    ("S", "Frame draws"),
    ("S", "Frame weighted"),
    ("S", "Canonical"),
    ("S", "Learned"),
    ("S", "FromHaar"),
    ("S", "Energy"),
    ("S", "Energy soft"),
    ("E(3)", "Frame"),
    ("E(3)", "Frame weighted"),
    ("E(3)", "Learned"),
    ("E(3)", "Quadrature"),
    ("C(4)", "Enumerate"),
    ("D(4)", "Energy"),
    ("Signs", "Frame"),
    ("S x SE(3)", "Frame"),
    ("S x SE(3)", "Learned"),
]
AT_ONCE = [("S", "Enumerate"), ("S", "Learned")]
"""What is tested everywhere; the rest takes long."""

PIECES = {("S", "Frame"): 4, ("S", "Energy"): 3, ("D(4)", "Energy"): 3}
"""Graphs that a call is split into, where the number of draws depends on the input; all others are one."""


def step(call: Symmetrized, model: Symmetrized, inputs: list[Tensor], mask: Tensor | None) -> dict[str, Tensor]:
    """The output for draws that follow from the seed, and the gradients in training by name."""
    model.zero_grad()
    torch.manual_seed(0)
    y = call(*inputs, mask=mask)
    if not model.training:
        return {"output": y.detach()}
    y.square().sum().backward()
    return {"output": y.detach(), **{name: p.grad for name, p in model.named_parameters() if p.grad is not None}}


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize(("setting", "sampler"), CASES)
def test_epochs(setting: str, sampler: str) -> None:
    """The same numbers as without a compiler; the second epoch compiles nothing."""
    if (setting, sampler) not in AT_ONCE and not os.environ.get("PROBSYM_TOOLS"):
        pytest.skip("takes long; set PROBSYM_TOOLS")
    case, pieces = SETTINGS[setting], PIECES.get((setting, sampler), 1)
    model = make_model(case, case.outputs[-1], sampler, torch.float64).to(DEVICE)
    generator = torch.Generator().manual_seed(1)
    batches = [make_inputs(case, torch.float64, "mixed", generator, batch=batch) for batch in EPOCH]
    batches = tree_map_only(Tensor, lambda x: x.to(DEVICE), batches)
    from torch._dynamo.testing import CompileCounterWithBackend  # noqa: PLC0415, these take long
    from torch._inductor import config  # noqa: PLC0415

    torch.compiler.reset()
    counter = CompileCounterWithBackend(BACKEND)
    compiled = torch.compile(model, backend=counter)
    counts = []
    for epoch, training in product(range(2), (True, False)):
        model.train(training)
        for inputs, mask in batches:
            wanted = step(model, model, inputs, mask)
            with config.patch({**COMPILER, **DRAWS}):
                actual = step(compiled, model, inputs, mask)
            where = f"epoch {epoch}, training {training}, batch of {len(inputs[0])}"
            torch.testing.assert_close(
                actual, wanted, atol=1e-6, rtol=1e-5, msg=lambda text, where=where: f"{text}\n{where}"
            )
            counts.append(counter.frame_count)
    assert counts[0] == pieces
    assert counts[len(counts) // 2 - 1] <= 3 * pieces  # the first size, any size, and those once more in evaluation
    assert counts[-1] == counts[len(counts) // 2 - 1]


@pytest.mark.filterwarnings("ignore")  # torch's own, where a graph splits
def test_padding_beyond_the_limit_is_not_listed() -> None:
    """The padded size has 24 orders, the largest item 6: compiled code too lists those, though in pieces."""
    torch.compiler.reset()
    sampler = samplers.Enumerate(limit=10)
    model = Symmetrized(lambda x: x[:, 0] * x[:, 1].square(), "n -> ", {"n": groups.S()}, sampler)
    x, mask = torch.tensor([[1.0, 2.0, 4.0, 0.0]]), torch.tensor([[True, True, True, False]])
    torch.testing.assert_close(torch.compile(model, backend="eager")(x, mask=mask), model(x, mask=mask))


@pytest.mark.filterwarnings("ignore")  # torch's own, while compiling
@pytest.mark.parametrize("inside", [True, False])
def test_gradients_in_low_precision(inside: bool) -> None:
    """Both ways of `docs/guide/speed.md` keep the sampler's gradients in float32, as they are without a compiler."""
    from torch._functorch import config  # noqa: PLC0415, takes long

    case = SETTINGS["S"]
    model = make_model(case, case.outputs[-1], "Learned", torch.float32).to(DEVICE)
    inputs, mask = make_inputs(case, torch.float32, "mixed", torch.Generator().manual_seed(1), batch=5)
    inputs, mask = tree_map_only(Tensor, lambda x: x.to(DEVICE), (inputs, mask))
    noise, low = model.noise(*inputs, mask=mask), torch.autocast(DEVICE, torch.bfloat16)

    def autocast(*given: Tensor) -> Tensor:
        with low:
            return model(*given, mask=mask, noise=noise)

    def gradients(call: Callable[..., Tensor]) -> list[Tensor]:
        model.zero_grad()
        call(*inputs).square().sum().backward()
        return [p.grad.clone() for p in model.sampler.parameters() if p.grad is not None]

    wanted = gradients(autocast)
    torch.compiler.reset()
    if inside:
        actual = gradients(torch.compile(autocast, backend="aot_eager"))  # inductor rounds the base in other places
    else:
        if not hasattr(config, "backward_pass_autocast"):
            pytest.skip("this torch lacks the setting")
        compiled = torch.compile(model, backend="aot_eager")
        with config.patch(backward_pass_autocast="off"), low:
            output = compiled(*inputs, mask=mask, noise=noise)
        actual = gradients(lambda *_: output)
    torch.testing.assert_close(actual, wanted, atol=1e-4, rtol=1e-4)
