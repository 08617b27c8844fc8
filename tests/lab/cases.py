"""Recipes so small that a run takes a second: decorated cycles of 12 nodes, an MLP of width 16."""

from __future__ import annotations

import io
import math
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, distributed, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from probsym import bases
from probsym.data import decorated_cycles
from probsym.lab.engine import Engine
from probsym.lab.examples import Splits
from probsym.lab.methods import GRAPH_METHODS, needs_ranks, symmetrized_graphs
from probsym.lab.recipe import Recipe, Settings
from probsym.lab.recipes.graphs import Classification, as_examples
from probsym.lab.run import Options, load_run, make_fabric, run
from probsym.lab.separation import SeparationRecipe
from probsym.lab.training import Training, make_engine
from probsym.ops.masked_batch_norm import MaskedBatchNorm

NODES = 12
SETTINGS = Settings(epochs=3, batch_size=10, learning_rate=3e-3, clip=0.1, samples=2, eval_samples=3)
CPU = Options(device="cpu", checkpoint_every=0)


class Tiny(Classification):
    """40 graphs to learn from, 20 to choose by, 30 to test."""

    name = "tiny"
    sizes = (40, 20, 30)
    ranks = False

    def load(self) -> Splits:
        generator = torch.Generator().manual_seed(0)
        graphs = (decorated_cycles(size, NODES, generator) for size in self.sizes)
        return Splits.numbered(*(as_examples(part, ranks=self.ranks) for part in graphs))


class Ranked(Tiny):
    """With the ranks that frames read."""

    ranks = True


class Precise(Tiny):
    """In float64, where the order of a sum does not matter to five digits, even after several steps."""

    def load(self) -> Splits:
        return Splits(
            *(
                part._replace(inputs=tuple(x.double() for x in part.inputs), targets=part.targets.double())
                for part in super().load()
            )
        )

    def metrics(self, output: Tensor, targets: Tensor, mask: Tensor | None = None) -> dict[str, Tensor]:
        return super().metrics(output.double(), targets)


class Weighted(Precise):
    """A loss of the whole batch that is no mean over its examples, and a process that dies in its fourth step if asked.

    `DIES_IN` names the process.
    """

    def __init__(self) -> None:
        self.calls = 0

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        self.calls += output.requires_grad
        if (
            self.calls == 4
            and distributed.is_initialized()
            and os.environ.get("DIES_IN") == str(distributed.get_rank())
        ):
            os.kill(os.getpid(), signal.SIGKILL)
        weights = 1 + 3 * targets
        each = binary_cross_entropy_with_logits(output, targets, reduction="none")
        return (weights * each).sum() / weights.sum()


class Failing(Tiny):
    """A loss that is NaN from the ninth call on, in the third epoch; so are its gradients."""

    def __init__(self) -> None:
        self.calls = 0

    def loss(self, output: Tensor, targets: Tensor) -> Tensor:
        if output.requires_grad:
            self.calls += 1
        return super().loss(output, targets) * (math.nan if self.calls > 8 and output.requires_grad else 1.0)


class Plain(nn.Module):
    """A model without any draws."""

    def __init__(self) -> None:
        super().__init__()
        self.base = bases.MLP([NODES * NODES + 2 * NODES, 16, 1], shape=())

    def forward(self, features: Tensor, adjacency: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.base(features, adjacency)


def build(settings: Settings, method: str = "ps", dropout: float = 0.0) -> nn.Module:
    base = bases.MLP([NODES * NODES + 2 * NODES, 16, 1], shape=(), dropout=dropout)
    return symmetrized_graphs(base, method, settings, "")


def build_precise(settings: Settings) -> nn.Module:
    return build(settings).double()


class Normed(nn.Module):
    """A base with statistics of the batch, and little to compile."""

    def __init__(self) -> None:
        super().__init__()
        self.first = bases.MLP([NODES * NODES + 2 * NODES, 8])
        self.norm, self.last = MaskedBatchNorm(8), nn.Linear(8, 1)

    def forward(self, features: Tensor, adjacency: Tensor) -> Tensor:
        return self.last(self.norm(self.first(features, adjacency)).relu()).squeeze(-1)


def build_normed(settings: Settings) -> nn.Module:
    return symmetrized_graphs(Normed(), "ga", settings, "").double()


def build_plain(settings: Settings) -> nn.Module:
    return Plain()


def build_separating(settings: Settings) -> nn.Module:
    base = bases.MLP([NODES * NODES + 2 * NODES, 8, 4], activation="tanh")
    return symmetrized_graphs(base, "ga", settings, "k")


def separation_graphs() -> Any:
    return as_examples(decorated_cycles(8, NODES, torch.Generator().manual_seed(0)))


def neighbours(examples: Any) -> Tensor:
    return torch.arange(examples.size).view(-1, 2)


def named_neighbours(examples: Any) -> dict[str, Tensor]:
    return {"all": neighbours(examples)}


PS = Recipe("tiny/mlp-ps", Tiny, build, SETTINGS)
PLAIN = Recipe("tiny/plain", Tiny, build_plain, SETTINGS)
# at a small tau training is chaotic: what differs in the last digit is ten times as large after every step
SMOOTH = replace(SETTINGS, tau=1.0, learning_rate=1e-3, batch_size=20)
PRECISE = Recipe("tiny/precise", Precise, build_precise, SMOOTH)
WEIGHTED = Recipe("tiny/weighted", Weighted, build_precise, SMOOTH)
NORMED = Recipe("tiny/normed", Weighted, build_normed, replace(SMOOTH, entropy=0.0))
DROPOUT = Recipe("tiny/mlp-dropout", Tiny, partial(build, dropout=0.5), SETTINGS)
FAILING = Recipe("tiny/failing", Failing, build, SETTINGS)
METHODS = {
    method: Recipe(
        f"tiny/mlp-{method}", Ranked if needs_ranks(method) else Tiny, partial(build, method=method), SETTINGS
    )
    for method in GRAPH_METHODS
}
SEPARATION = SeparationRecipe(
    "tiny/separation",
    separation_graphs,
    neighbours,
    named_neighbours,
    build_separating,
    replace(SETTINGS, epochs=0),
    models=2,
    calibrated_models=1,
    calibrated_draws=20,
)
RECIPES = {recipe.name: recipe for recipe in (*METHODS.values(), PLAIN, DROPOUT, FAILING, WEIGHTED, NORMED, SEPARATION)}


def quiet() -> Console:
    return Console(file=io.StringIO())


def engine_of(recipe: Recipe = PS, **changes: Any) -> Engine:
    return make_engine(recipe, replace(recipe.settings, **changes), make_fabric(CPU))


def training_of(
    folder: Path,
    recipe: Recipe = PS,
    seed: int = 0,
    every: float = 60.0,
    keep_every: int | None = None,
    **changes: Any,
) -> Training:
    return Training(engine_of(recipe, **changes), recipe, seed, folder, every, keep_every)


def kept_run(folder: Path, recipe: Recipe = PS, options: Options = CPU, **changes: Any) -> Engine:
    """The engine of a finished run of four epochs with weights kept after every other."""
    words = [f"{name}={value}" for name, value in {"epochs": 4, **changes}.items()]
    run_quietly(recipe, folder, changes=words, options=replace(options, checkpoint_every=60.0, keep_every=2))
    return load_run(folder / recipe.name / "seed-0", recipe, Options(options.device))


def run_quietly(recipe: Any, folder: Path, seeds: tuple[int, ...] = (0,), **options: Any) -> list[dict[str, Any]]:
    return run(recipe, seeds, folder, options=options.pop("options", CPU), console=quiet(), **options)


def without_time(curve: list[dict[str, float]]) -> list[dict[str, float]]:
    return [{name: value for name, value in row.items() if name != "seconds"} for row in curve]


def metrics_of(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result["metrics"].items() if name != "train_seconds"}


def assert_same(actual: Any, wanted: Any) -> None:
    """Bit for bit, times left out."""
    if isinstance(actual, Tensor):
        assert torch.equal(actual, wanted)
    elif isinstance(actual, dict):
        assert actual.keys() == wanted.keys()
        for name in actual.keys() - {"seconds"}:
            assert_same(actual[name], wanted[name])
    elif isinstance(actual, list | tuple):
        assert len(actual) == len(wanted)
        for first, second in zip(actual, wanted, strict=True):
            assert_same(first, second)
    else:
        assert actual == wanted
