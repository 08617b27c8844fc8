"""What trained potentials of acetylacetone do: energies along two paths, spread over rotations, drift in NVE, passes.

    python benchmarks/trained_potentials.py RUN [RUN ...] [--rotations 100] [--picoseconds 1] [--out FILE]

A run is a folder of `probsym train acetylacetone/transformer-...`, and its errors are in its own result. The base that
was trained with augmented data is also tested here as an average over draws.
"""

import argparse
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.potentials import MILLI, drift, spread
from benchmarks.record import finish
from probsym import Symmetrized, groups, samplers
from probsym.ase import ModelCalculator
from probsym.data import Molecules
from probsym.data import acetylacetone as acetylacetone_sets
from probsym.lab.engine import Engine
from probsym.lab.provenance import provenance
from probsym.lab.recipes import acetylacetone
from probsym.lab.run import Options, load_run, read_run

Sets = dict[str, Molecules]
DRAWS, DEGREES = (1, 8, 32), (1, 3)
OWN_DRAWS = acetylacetone.SETTINGS.samples
KELVIN, FEMTOSECONDS = 300.0, 0.5
STEP = 3e-5
"""Of central differences, in angstrom."""
COORDINATES: dict[str, Callable[[Atoms], float]] = {
    "dihedral": lambda atoms: atoms.get_dihedral(0, 1, 2, 3),
    "h_transfer": lambda atoms: atoms.get_distance(11, 5) - atoms.get_distance(11, 3),
}
"""The angle of the bond that turns, in degrees, and how much farther the proton is from one oxygen than the other."""


def averaged(
    base: nn.Module, sampler: samplers.Sampler, group: groups.Group | None = None, draws: int = 1
) -> Symmetrized:
    """The base with other elements than it was trained with."""
    return Symmetrized(base, "n c, n d:point -> ", {"d": group or groups.E(3)}, sampler, samples=draws).eval()


def with_elements(method: str, model: Any) -> dict[str, Symmetrized]:
    """A trained model with all elements that it makes sense with, its own first.

    A base that was trained with random elements, or with augmented data, serves any of them.
    """
    if method in ("fa", "canonical"):
        return {type(model.sampler).__name__: model}
    base, sampler = model.base, model.sampler if method == "ps" else samplers.Haar()
    ways = {in_words(sampler, draws): averaged(base, sampler, draws=draws) for draws in DRAWS}
    own = in_words(sampler, OWN_DRAWS)
    if method != "ps":
        rules = {degree: samplers.Quadrature(degree, random=False) for degree in DEGREES}
        ways |= {f"Quadrature({degree})": averaged(base, rule) for degree, rule in rules.items()}
    if method == "augmented":
        own = "bare"
        ways[own] = averaged(base, samplers.Quadrature(0, random=False), groups.SE(3))
    if method == "quadrature":
        own = f"Quadrature({model.sampler.degree})"
    return {own: ways.pop(own), **ways}


def in_words(sampler: samplers.Sampler, draws: int) -> str:
    """Such as "Haar, 8 draws"."""
    return f"{type(sampler).__name__}, {draws} draw{'s' if draws > 1 else ''}"


def configurations(molecules: Molecules) -> list[Atoms]:
    """As ASE has them."""
    return [
        Atoms(numbers.numpy(), x.numpy()) for numbers, x in zip(molecules.numbers, molecules.positions, strict=True)
    ]


def passes(calculator: ModelCalculator, atoms: Atoms) -> int:
    """How many molecules go through the base for one energy."""
    seen, base = list[int](), calculator.model.base
    assert isinstance(base, nn.Module)
    hook = base.register_forward_hook(lambda _, inputs, __: seen.append(len(inputs[0])))
    calculator.calculate(atoms)
    hook.remove()
    return sum(seen)


def largest_force_error(calculator: ModelCalculator, atoms: Atoms) -> float:
    """Of any component, against central differences of the energy in float64, in eV per angstrom."""
    model, seed = deepcopy(calculator.model).double(), calculator.seed
    forces = ModelCalculator(model, acetylacetone.one_hot, seed=seed).get_property("forces", atoms).ravel()
    steps = STEP * np.eye(len(forces))
    moved = atoms.positions.ravel() + np.concatenate([steps, -steps])
    types = acetylacetone.one_hot(torch.from_numpy(atoms.numbers)).double().expand(len(moved), -1, -1)
    with torch.no_grad():
        energies = model(types, torch.from_numpy(moved).unflatten(1, (-1, 3)), seed=seed).numpy()
    ahead, behind = np.split(energies, 2)
    return float(np.abs(forces + (ahead - behind) / (2 * STEP)).max())


def along(energies: list[float], lowest: int) -> list[float]:
    """Energies of a path without that of its lowest configuration, in meV."""
    return [MILLI * (energy - energies[lowest]) for energy in energies]


def errors(engine: Engine, model: Symmetrized, seed: int) -> dict[str, float]:
    """The metrics of the test sets with other elements, by the names that they have in results."""
    engine.model = model
    return {f"test_{name}": value for name, value in engine.evaluate(engine.data.test, seed, "test").items()}


def measured(method: str, engine: Engine, seed: int, sets: Sets, turns: Tensor, span: float) -> dict[str, Any]:
    """All that there is to say of one trained model; `span` picoseconds of molecular dynamics."""
    assert isinstance(engine.task, acetylacetone.Acetylacetone)
    models, first = with_elements(method, engine.model), configurations(sets["test_300k"])[0]
    alone, rows = engine.task.references, dict[str, dict[str, Any]]()
    calculators = {name: ModelCalculator(model, acetylacetone.one_hot, alone) for name, model in models.items()}
    for name, calculator in calculators.items():
        rows[name] = {"passes": passes(calculator, first), "conservative": calculator.conservative}
        rows[name] |= {f"spread_{key}": value for key, value in spread(calculator, first, turns.numpy()).items()}
        print(method, name, rows[name], flush=True)
    own, calculator = next(iter(calculators.items()))
    rows[own] |= drift(calculator, first, span, FEMTOSECONDS, KELVIN)
    rows[own]["largest_force_error"] = largest_force_error(calculator, first)
    print(method, own, rows[own], flush=True)
    paths = {}
    for path in COORDINATES:
        molecules = sets[f"test_{path}"]
        energies = [calculator.get_property("energy", atoms) for atoms in configurations(molecules)]
        paths[path] = along(energies, int(molecules.energy.argmin()))
    if method == "augmented":
        other = in_words(samplers.Haar(), OWN_DRAWS)
        rows[other]["errors"] = errors(engine, models[other], seed)
    return {"own": own, "elements": rows, "paths_mev": paths}


def references(sets: Sets) -> dict[str, dict[str, list[float]]]:
    """The paths themselves: where each configuration is, and its energy as it should be."""
    paths = {}
    for path, coordinate in COORDINATES.items():
        molecules = sets[f"test_{path}"]
        energies = along(molecules.energy.tolist(), int(molecules.energy.argmin()))
        paths[path] = {"coordinate": [coordinate(atoms) for atoms in configurations(molecules)], "energy_mev": energies}
    return paths


def main() -> None:
    """Measure all runs, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("runs", type=Path, nargs="+")
    parser.add_argument("--rotations", type=int, default=100)
    parser.add_argument("--picoseconds", type=float, default=1.0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    sets, _ = acetylacetone_sets()
    recipes = {recipe.name: recipe for recipe in acetylacetone.RECIPES}
    generator = torch.Generator().manual_seed(0)
    turns = groups.O(3).haar((arguments.rotations,), dtype=torch.float64, generator=generator)
    runs = []
    for folder in arguments.runs:
        run = read_run(folder)
        method = run["row"].rpartition("-")[2]
        engine = load_run(folder, recipes[run["row"]], Options("cpu"))
        numbers = measured(method, engine, run["seed"], sets, turns, arguments.picoseconds)
        runs.append({**{key: run.get(key) for key in ("row", "seed", "changed", "commit", "date")}, **numbers})
    result = {"benchmark": "trained_potentials", "rotations": arguments.rotations, "picoseconds": arguments.picoseconds}
    result |= {"paths": references(sets), "runs": runs}
    finish({**result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
