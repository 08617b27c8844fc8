"""Whole training steps of a recipe, plain, compiled and captured, beside a bare base with its optimiser."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor, nn

from benchmarks.record import captured, side_by_side
from probsym.lab.recipe import Recipe
from probsym.lab.recipes import RECIPES
from probsym.lab.run import Options, make_fabric
from probsym.lab.training import make_engine


def training_steps(name: str, options: Options, bare: Callable[[], object], repeats: int) -> dict[str, float]:
    """Median seconds of a step in every mode that the device has, and of `bare`."""
    recipe, runs = RECIPES[name], dict[str, Callable[[], object]]()
    assert isinstance(recipe, Recipe)
    fabric, settings = make_fabric(options), replace(recipe.settings, epochs=1)
    modes = {"plain": (False, False)}
    if fabric.device.type == "cuda":
        modes |= {"captured": (False, True), "compiled": (True, False), "compiled_captured": (True, True)}
    for mode, (compiled, graph) in modes.items():
        engine = make_engine(recipe, settings, fabric, compile=compiled, capture=graph)
        engine.model.train()
        runs[mode] = _stepper(engine.train_step, engine.order(0, 0)[0])
    return side_by_side({**runs, "bare": bare}, repeats=repeats, device=fabric.device)


def bare_step(model: nn.Module, inputs: tuple[Tensor, ...], clip: float | None = None) -> Callable[[], object]:
    """A step of a model with Adam on given rows, captured where possible."""
    cuda = inputs[0].device.type == "cuda"
    optimiser = torch.optim.Adam(model.parameters(), fused=cuda, capturable=cuda)

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model(*inputs).square().mean().backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimiser.step()

    return captured(step) if cuda else step


def _stepper(train_step: Callable[[Tensor, int, int], Tensor], index: Tensor) -> Callable[[], object]:
    return lambda: train_step(index, 0, 0)
