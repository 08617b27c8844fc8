"""What rows with GIN-ID owe to details: EXP-classify trained again with something changed.

The paper has 84 % for canonicalization and 50 % for group averaging, and ours are higher. `place` breaks ties between
nodes by their place in the data rather than at random; `padding` lets padded rows enter the statistics of batch norms,
as the published code does; `base` is a GIN-ID like the published one but for the width of its head, with one linear map
a layer, no norm, and a sum over the nodes. Changes are joined by a plus.

Run: python benchmarks/gin_id.py [--method canonical] [--change none --change base+padding] [--seed 0 --seed 1]
[--set epochs=2000] [--device cuda --precision tf32 --capture] [--processes 2] [--runs FOLDER] [--out FILE]. The last
line is JSON.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.recipe_runs import run_quietly, trainable
from benchmarks.record import finish
from probsym.bases import gin_id
from probsym.lab.provenance import provenance
from probsym.lab.recipe import Settings
from probsym.lab.run import PRECISIONS, Options, make_fabric
from probsym.nets import GIN, MaskedBatchNorm
from probsym.nets.gin import Layer
from probsym.samplers import Canonical, Noise
from probsym.symmetrized import Symmetrized

METHODS = ("canonical", "ga")
CHANGES = ("none", "place", "padding", "base")
REPORTED = ("test_accuracy", "test_accuracy_at_best_accuracy", "test_accuracy_at_end", "best_epoch_loss")


class ByPlace(Canonical):
    """Ties go by place: all of their random numbers are zero."""

    def noise(self, *arguments: Any, **options: Any) -> Noise:
        """As usual, but for ties."""
        noise = super().noise(*arguments, **options)
        return noise._replace(ties={key: torch.zeros_like(tie) for key, tie in noise.ties.items()})


class CountingNorm(MaskedBatchNorm):
    """A batch norm that takes padding for real."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """The mask is not looked at."""
        return super().forward(x)


class CountingLayer(Layer):
    """A layer of the sampler's net whose norms take padding for real."""

    def forward(self, hidden: Tensor, linked: Any, real: Tensor | None, packing: Tensor | None = None) -> Tensor:
        """All rows are kept."""
        return super().forward(hidden, linked, None)


class NoNorm(nn.Module):
    """Nothing in the place of a norm."""

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """x itself."""
        return x


def row_of(method: str) -> str:
    """The row that is trained again."""
    return f"exp-classify/gin-id-{method}"


def known_changes(joined: str) -> tuple[str, ...]:
    """The changes in a text like "base+padding", in the order of `CHANGES`; each must be known and there once."""
    names = joined.split("+")
    known = tuple(name for name in CHANGES if name in names)
    if len(known) < len(names) or (len(known) > 1 and "none" in known):
        raise argparse.ArgumentTypeError(f"expected different ones of {', '.join(CHANGES)} joined by + (got {joined})")
    return known


def matters(method: str, changes: Sequence[str]) -> bool:
    """Whether every change makes a difference: with group averaging no ties are broken, and only the base has norms."""
    return method != "ga" or not ("place" in changes or {"base", "padding"} <= set(changes))


def built(settings: Settings, method: str, changes: Sequence[str]) -> nn.Module:
    """The row's model with the changes."""
    model = trainable(row_of(method)).build(settings)
    assert isinstance(model, Symmetrized)
    base = model.base
    assert isinstance(base, gin_id.GINID)
    if "base" in changes:
        base.pooling = "sum"
        for layer in base.layers:
            assert isinstance(layer, gin_id.Layer)
            layer.mlp, layer.norm = nn.Sequential(layer.mlp[0]), NoNorm()
            nn.init.uniform_(layer.epsilon)
    if method == "canonical":
        _change_sampler(model, changes)
    if "padding" in changes:
        for module in model.modules():
            if isinstance(module, MaskedBatchNorm):
                module.__class__ = CountingNorm
    return model


def _change_sampler(model: Symmetrized, changes: Sequence[str]) -> None:
    assert isinstance(model.sampler, Canonical)
    net = model.sampler.net
    assert isinstance(net, GIN)
    if "place" in changes:
        model.sampler = ByPlace(net, reads=(0, 1), tau=model.sampler.tau)
    if "padding" in changes:
        for layer in net.layers:
            layer.__class__ = CountingLayer


def trained(
    method: str, changes: Sequence[str], seed: int, settings: list[str], options: Options, folder: Path
) -> dict[str, float]:
    """What one run reports; an interrupted one goes on."""
    if options.device == "cpu":
        torch.set_num_threads(1)
    recipe = replace(trainable(row_of(method)), build=partial(built, method=method, changes=changes))
    (result,) = run_quietly(recipe, [seed], folder / "+".join(changes), settings, options)
    return {name: result["metrics"][name] for name in REPORTED}


def main() -> None:
    """Train every change with every seed, print what comes out, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--method", default="canonical", choices=METHODS)
    parser.add_argument("--change", action="append", type=known_changes)
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--precision", default="32-true", choices=PRECISIONS)
    parser.add_argument("--capture", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=Path("runs/gin-id"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    options = Options(arguments.device, 1, arguments.precision, capture=arguments.capture)
    method, every = arguments.method, [(change,) for change in CHANGES if matters(arguments.method, [change])]
    changes, seeds = sorted(set(arguments.change or every)), sorted(set(arguments.seed or [0, 1, 2]))
    for combination in changes:
        if not matters(method, combination):
            parser.error(f"expected changes that make a difference with {method} (got {'+'.join(combination)})")
    by_changes: dict[str, dict[int, dict[str, float]]] = {"+".join(combination): {} for combination in changes}
    with ProcessPoolExecutor(arguments.processes, get_context("spawn")) as pool:
        jobs = {
            ("+".join(combination), seed): pool.submit(
                trained, method, combination, seed, arguments.set, options, arguments.runs
            )
            for seed in seeds
            for combination in changes
        }
        for (name, seed), job in jobs.items():
            by_changes[name][seed] = job.result()
            numbers = ", ".join(f"{metric} {value:g}" for metric, value in by_changes[name][seed].items())
            print(f"{name}, seed {seed}: {numbers}", flush=True)
    result = {
        "benchmark": "gin_id",
        "method": method,
        "changed": arguments.set,
        "precision": arguments.precision,
    }
    finish({**result, "found": by_changes, **provenance(make_fabric(options).device)}, arguments.out)


if __name__ == "__main__":
    main()
