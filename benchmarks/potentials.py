"""What averaging over rotations does to a potential that is not invariant: spread, work around a path, drift in NVE.

    python benchmarks/potentials.py [--rotations 100] [--picoseconds 10] [--out FILE]

The potential is that of Lennard-Jones for 13 argon atoms, in a space that is distorted by up to ten percent.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.cluster import Icosahedron
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from numpy.typing import NDArray
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.record import finish
from probsym import Symmetrized, groups, nets, samplers
from probsym.ase import ModelCalculator, SymmetrizedCalculator
from probsym.lab.provenance import provenance

EPSILON, SIGMA = 0.0104, 3.4
METRIC = np.diag([1.1, 0.95, 0.95]) + 0.03 * (np.ones((3, 3)) - np.eye(3))
MILLI, KELVIN = 1000, 30.0


class Distorted(Calculator):
    """Lennard-Jones in the squared distance d' M d."""

    implemented_properties = ["energy", "forces"]  # noqa: RUF012

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Energy and forces."""
        super().calculate(atoms, properties, system_changes)
        assert atoms is not None
        (self.results,) = many([atoms])


def many(turned: list[Atoms]) -> list[dict[str, Any]]:
    """Energy and forces of several at once."""
    x = np.stack([copy.positions for copy in turned])
    d = x[:, :, None] - x[:, None]
    along = d @ METRIC
    s = (d * along).sum(-1) / SIGMA**2
    itself = np.eye(x.shape[1], dtype=bool)
    s[:, itself] = 1.0
    pair = np.where(itself, 0.0, 4 * EPSILON * (s**-6 - s**-3))
    slope = np.where(itself, 0.0, 4 * EPSILON * (-6 * s**-7 + 3 * s**-4))
    forces = -(slope[..., None] * 2 * along / SIGMA**2).sum(2)
    return [{"energy": energies.sum() / 2, "forces": force} for energies, force in zip(pair, forces, strict=True)]


def energy(types: Tensor, positions: Tensor) -> Tensor:
    """The same as a function of tensors, for models."""
    first, second = torch.triu_indices(positions.shape[1], positions.shape[1], 1)
    d = positions[:, first] - positions[:, second]
    s = (d @ torch.from_numpy(METRIC) * d).sum(-1) / SIGMA**2
    return (4 * EPSILON * (s**-6 - s**-3)).sum(1)


def averaged(group: groups.Group, sampler: samplers.Sampler | None = None, **options: Any) -> SymmetrizedCalculator:
    """The calculator averaged, all rotations at once."""
    return SymmetrizedCalculator(Distorted(), group, sampler, many, **options)


def model(sampler: samplers.Sampler, **options: Any) -> ModelCalculator:
    """The same energy as a symmetrized model, with the gradient of all that the sampler does."""
    samples = 1 if sampler.lists_elements else 12
    return ModelCalculator(Symmetrized(energy, "n, n d:point -> ", {"d": groups.E(3)}, sampler, samples), **options)


def net() -> nets.VNDGCNN:
    """A net as it is before any training."""
    torch.manual_seed(0)
    return nets.VNDGCNN(in_channels=1, hidden=24, scores=False).double()


SPREAD: dict[str, Callable[[], Calculator]] = {
    "bare": Distorted,
    "Enumerate, Tetrahedral": lambda: averaged(groups.Tetrahedral()),
    "Enumerate, Octahedral": lambda: averaged(groups.Octahedral()),
    "Enumerate, Icosahedral": lambda: averaged(groups.Icosahedral()),
    **{
        f"Quadrature({degree})": partial(averaged, groups.SO(3), samplers.Quadrature(degree, random=False))
        for degree in (1, 2, 4, 5)
    },
    **{
        f"Haar, {samples} draws": partial(averaged, groups.SO(3), samplers.Haar(), samples=samples)
        for samples in (12, 24, 60)
    },
}
RUNS: dict[str, Callable[[], Calculator]] = {
    "bare": Distorted,
    "Enumerate, Tetrahedral": lambda: averaged(groups.Tetrahedral()),
    "Quadrature(1), fixed": lambda: averaged(groups.SO(3), samplers.Quadrature(1, random=False)),
    "Haar, 12 draws, fixed": lambda: averaged(groups.SO(3), samplers.Haar(), samples=12),
    "Haar, 12 draws, redrawn": lambda: averaged(groups.SO(3), samplers.Haar(), samples=12, redraw=True),
    "Frame, forces averaged": lambda: averaged(groups.SO(3), samplers.Frame(reads=(0,)), redraw=True),
    "model, Haar, 12 draws, fixed": lambda: model(samplers.Haar()),
    "model, Frame": lambda: model(samplers.Frame()),
    "model, weighted Frame": lambda: model(samplers.Frame(weighted=True)),
    "model, Canonical": lambda: model(samplers.Canonical(net(), reads=(1,))),
    "model, Learned, 12 draws, fixed": lambda: model(samplers.Learned(net(), noise=0.5, reads=(1,))),
}


def cluster() -> Atoms:
    """Thirteen argon atoms at rest in the distorted space."""
    atoms = Icosahedron("Ar", 2, 5.3)
    atoms.pbc = False
    atoms.calc = Distorted()
    BFGS(atoms, logfile=None).run(fmax=1e-3, steps=200)
    return Atoms(atoms.symbols, atoms.positions + 0.1 * np.random.default_rng(0).normal(size=(13, 3)))


def spread(calculator: Calculator, atoms: Atoms, turns: NDArray[np.float64]) -> dict[str, float]:
    """Over rotations of the atoms: deviation of the energy, and of forces that are turned back, root mean square."""
    energies, forces = [], []
    centred = atoms.positions - atoms.positions.mean(0)
    for turn in turns:
        there = Atoms(atoms.symbols, centred @ turn.T)
        energies.append(calculator.get_property("energy", there))
        forces.append(calculator.get_property("forces", there) @ turn)
    deviation = np.stack(forces).std(0)
    return {"energy_mev": MILLI * float(np.std(energies)), "forces_mev": MILLI * float((deviation**2).mean() ** 0.5)}


def work(calculator: Calculator, atoms: Atoms, steps: int = 256) -> float:
    """Around a closed path, in meV: zero for conservative forces."""
    first, second = 0.3 * np.random.default_rng(1).normal(size=(2, *atoms.positions.shape))
    total = 0.0
    for angle in np.arange(steps) * (2 * np.pi / steps):
        here = Atoms(atoms.symbols, atoms.positions + np.cos(angle) * first + np.sin(angle) * second)
        along = (np.cos(angle) * second - np.sin(angle) * first) * (2 * np.pi / steps)
        total += float((calculator.get_property("forces", here) * along).sum())
    return MILLI * total


def drift(
    calculator: Calculator, atoms: Atoms, picoseconds: float, step: float = 5.0, kelvin: float = KELVIN
) -> dict[str, float]:
    """Of the total energy in NVE, in meV: what a straight line rises by, and the largest change."""
    atoms = Atoms(atoms.symbols, atoms.positions)
    atoms.calc = calculator
    thermal = np.sqrt(atoms.get_masses() * units.kB * kelvin)[:, None]
    atoms.set_momenta(thermal * np.random.default_rng(2).normal(size=atoms.positions.shape))
    dynamics, totals = VelocityVerlet(atoms, step * units.fs), list[float]()
    dynamics.attach(lambda: totals.append(MILLI * float(atoms.get_total_energy())), interval=1)
    dynamics.run(round(1000 * picoseconds / step))
    energies = np.array(totals)
    slope = np.polyfit(np.linspace(0, 1, len(energies)), energies, 1)[0]
    return {"drift_mev": float(slope), "largest_mev": float(np.abs(energies - energies[0]).max())}


def main() -> None:
    """Measure all, end with JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rotations", type=int, default=100)
    parser.add_argument("--picoseconds", type=float, default=10.0)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    atoms = cluster()
    generator = torch.Generator().manual_seed(0)
    turns = groups.SO(3).haar((arguments.rotations,), dtype=torch.float64, generator=generator).numpy()
    by_sampler, runs = {}, {}
    for name, make in SPREAD.items():
        by_sampler[name] = spread(make(), atoms, turns)
        print(name, by_sampler[name], flush=True)
    for name, make in RUNS.items():
        runs[name] = {"work_mev": work(make(), atoms), **drift(make(), atoms, arguments.picoseconds)}
        print(name, runs[name], flush=True)
    calculator = averaged(groups.SO(3))
    degrees = {f"{wanted:g}": calculator.quadrature_degree(atoms, wanted / MILLI) for wanted in (10.0, 1.0, 0.1)}
    result = {"benchmark": "potentials", "energy_mev": MILLI * Distorted().get_property("energy", atoms)}
    result |= {"spread": by_sampler, "runs": runs, "degree_for_mev": degrees}
    finish({**result, **provenance(torch.device("cpu"))}, arguments.out)


if __name__ == "__main__":
    main()
