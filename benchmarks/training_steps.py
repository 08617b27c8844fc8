"""Whole training steps of a recipe, plain, compiled and captured, beside a user's own loop and a bare base."""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.recipe_runs import trainable
from benchmarks.record import captured, side_by_side
from probsym import Symmetrized
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import make_engine


def read_arguments(doc: str | None) -> tuple[argparse.Namespace, Options]:
    """What such a benchmark is told on the command line; `doc` is its own docstring."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0] if doc else None)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", help="the one recipe to measure, where there are several")
    arguments = parser.parse_args()
    return arguments, Options(arguments.device, precision=arguments.precision)


def training_steps(
    name: str, options: Options, bare: Mapping[str, Callable[[], object]], repeats: int
) -> dict[str, float]:
    """Median seconds of a step in every mode that the device has, and of the `bare` ones, by name."""
    recipe, runs = trainable(name), dict[str, Callable[[], object]]()
    fabric, settings = make_fabric(options), replace(recipe.settings, epochs=1)
    modes = {"plain": (False, False)}
    if fabric.device.type == "cuda":
        modes |= {"captured": (False, True), "compiled": (True, False), "compiled_captured": (True, True)}
    for mode, (compiled, graph) in modes.items():
        engine = make_engine(recipe, settings, fabric, compile=compiled, capture=graph)
        engine.model.train()
        runs[mode] = _stepper(engine.train_step, engine.order(0, 0)[0])
    if fabric.device.type == "cuda":
        runs["own_loop"] = own_loop(name, options)
        runs["own_loop_captured"] = captured(own_loop(name, options, capturable=True))
    return side_by_side({**runs, **bare}, repeats=repeats, device=fabric.device)


def own_loop(name: str, options: Options, capturable: bool = False) -> Callable[[], object]:
    """A step as a user writes it: one line compiles the model, the rest is plain PyTorch.

    It is launched with little overhead by itself, or else fit to be captured, as docs/guide/speed.md does it.
    """
    recipe, fabric = trainable(name), make_fabric(options)
    engine = make_engine(recipe, replace(recipe.settings, epochs=1), fabric)
    task, settings, batch = engine.task, engine.settings, engine.data.train.take(engine.order(0, 0)[0])
    model = engine.model.train()
    assert isinstance(model, Symmetrized)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=fabric.device.type == "cuda", capturable=capturable)
    torch._inductor.config.comprehensive_padding = False  # for this and what follows see docs/guide/speed.md
    torch._inductor.config.inplace_buffers = False
    torch._functorch.config.backward_pass_autocast = "off"
    estimator = torch.compile(model.estimator(), mode=None if capturable else "reduce-overhead")

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        with fabric.autocast():
            estimate = estimator(*batch.inputs, mask=batch.mask)
            loss = task.loss(estimate.mean, batch.targets) + settings.entropy * estimate.losses["entropy"]
        loss.backward()
        optimiser.step()

    return step


def bare_steps(
    model: nn.Module, inputs: tuple[Tensor, ...], options: Options, clip: float | None = None
) -> dict[str, Callable[[], object]]:
    """Steps of a model with Adam on given rows, in the same precision, by name.

    One is compiled and captured where possible; on a GPU the other is a user's own loop, as `own_loop` is.
    """
    fabric = make_fabric(options)
    cuda = fabric.device.type == "cuda"

    def stepper(call: Callable[..., Tensor], capturable: bool) -> Callable[[], None]:
        optimiser = torch.optim.Adam(model.parameters(), fused=cuda, capturable=capturable)

        def step() -> None:
            optimiser.zero_grad(set_to_none=True)
            call().backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(model.parameters(), clip)
            optimiser.step()

        return step

    def loss(call: Callable[..., Tensor]) -> Tensor:
        with fabric.autocast():
            return call(*inputs).float().square().mean()

    if not cuda:
        return {"bare": stepper(lambda: loss(model), capturable=False)}
    quick = torch.compile(model, mode="reduce-overhead")
    return {
        "bare": captured(stepper(partial(torch.compile(loss), model), capturable=True)),
        "bare_own_loop": stepper(lambda: loss(quick), capturable=False),
    }


def _stepper(train_step: Callable[[Tensor, int, int], Tensor], index: Tensor) -> Callable[[], object]:
    return lambda: train_step(index, 0, 0)
