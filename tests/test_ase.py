"""Calculators: what is invariant stays as it is, what is not becomes so, and forces are gradients."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.calculator import Calculator, PropertyNotImplementedError
from ase.calculators.emt import EMT
from ase.calculators.lj import LennardJones
from ase.constraints import FixAtoms
from ase.io import read, write
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from ase.stress import voigt_6_to_full_3x3_stress
from torch import Tensor

import probsym.ase
from probsym import Symmetrized, groups, nets, samplers
from probsym.ase import MissingPropertyError, ModelCalculator, SymmetrizedCalculator
from probsym.ase.symmetrized import _placed
from probsym.errors import (
    DependencyError,
    GroupError,
    NonFiniteError,
    ProbsymError,
    RangeError,
    ShapeError,
    SignatureError,
)

PROPERTIES = ["energy", "forces", "stress"]
SHIFTS = torch.cartesian_prod(*[torch.tensor([0.0, -1.0, 1.0], dtype=torch.float64)] * 3)


class Lopsided(Calculator):
    """Pairs whose energy is a Gaussian of the distance times a polynomial of degree 3 in the direction."""

    implemented_properties = PROPERTIES

    def __init__(self, fails_at: int = -1, place: float = 0.0) -> None:
        super().__init__()
        self.calls, self.fails_at, self.place = 0, fails_at, place

    def calculate(self, atoms: Any = None, properties: Any = (), system_changes: Any = ()) -> None:
        super().calculate(atoms, properties, system_changes)
        self.calls += 1
        if self.calls == self.fails_at:
            raise RuntimeError("no convergence")
        x = torch.tensor(atoms.positions, requires_grad=True)
        strain = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
        deform = torch.eye(3, dtype=torch.float64) + (strain + strain.T) / 2
        shifts = SHIFTS[(SHIFTS[:, ~torch.tensor(atoms.pbc)] == 0).all(1)] @ torch.tensor(np.array(atoms.cell))
        moved = x @ deform
        d = moved[None, :, None] - moved[None, None] + (shifts @ deform)[:, None, None]
        a, b, c = d.unbind(-1)
        shape = 1 + 0.3 * a * b - 0.2 * c**2 + 0.1 * torch.arange(1.0, len(x) + 1)[:, None] * a * b * c
        energy = ((-d.square().sum(-1) / 4).exp() * shape).sum()
        energy = energy + self.place * (moved[:, 0] ** 2).sum()
        gradient, virial = torch.autograd.grad(energy, (x, strain))
        self.results = {"energy": float(energy.detach()), "forces": -gradient.numpy()}
        if atoms.cell.rank == 3:
            six = [virial.numpy()[i, j] for i, j in ((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))]
            self.results["stress"] = np.array(six) / atoms.get_volume()


def cluster(count: int = 5, seed: int = 0) -> Atoms:
    return Atoms(f"Ar{count}", np.random.default_rng(seed).normal(size=(count, 3)) * 1.3)


def crystal(pbc: Any = True) -> Atoms:
    random = np.random.default_rng(1)
    return Atoms("Ar3", random.normal(size=(3, 3)), cell=2.5 * np.eye(3) + 0.3 * random.normal(size=(3, 3)), pbc=pbc)


def turned(atoms: Atoms, q: Any) -> Atoms:
    return _placed(atoms, atoms.positions @ q.T, np.array(atoms.cell) @ q.T)


def rotations(count: int, group: groups.Group | None = None) -> Any:
    generator = torch.Generator().manual_seed(3)
    return (group or groups.O(3)).haar((count,), dtype=torch.float64, generator=generator).numpy()


def spread(calculator: Any, atoms: Atoms, count: int = 4) -> float:
    return float(np.std([calculator.get_property("energy", turned(atoms, q)) for q in rotations(count)]))


def work(calculator: Any, atoms: Atoms, steps: int) -> float:
    """Around a closed path; the trapezoidal rule is as good as exact for smooth forces."""
    first, second = np.random.default_rng(2).normal(size=(2, len(atoms), 3)) * 0.2
    total = 0.0
    for angle in np.arange(steps) * (2 * np.pi / steps):
        here = atoms.copy()
        here.positions += np.cos(angle) * first + np.sin(angle) * second
        along = (np.cos(angle) * second - np.sin(angle) * first) * (2 * np.pi / steps)
        total += float((calculator.get_property("forces", here) * along).sum())
    return total


def assert_forces_are_gradients(calculator: Any, atoms: Atoms, step: float = 1e-4) -> None:
    forces = calculator.get_property("forces", atoms).copy()
    for i, k in ((0, 0), (1, 2), (2, 1)):
        energies = []
        for side in (step, -step):
            moved = atoms.copy()
            moved.positions[i, k] += side
            energies.append(calculator.get_property("energy", moved))
        assert abs(forces[i, k] + (energies[0] - energies[1]) / (2 * step)) < 1e-6


@pytest.mark.parametrize(
    ("atoms", "inner"),
    [(molecule("CH3OH"), EMT()), (bulk("Ar", cubic=True), LennardJones(sigma=3.4, rc=5.0, smooth=True))],
    ids=["EMT", "Lennard-Jones, periodic"],
)
@pytest.mark.parametrize("group", [groups.O(3), groups.Octahedral()], ids=repr)
def test_what_is_invariant_does_not_change(atoms: Atoms, inner: Any, group: groups.Group) -> None:
    atoms = atoms.copy()
    atoms.rattle(0.1, seed=0)
    calculator = SymmetrizedCalculator(inner, group, samplers.Quadrature(1, random=False) if not group.finite else None)
    for name in PROPERTIES if atoms.pbc.all() else PROPERTIES[:2]:
        np.testing.assert_allclose(calculator.get_property(name, atoms), inner.get_property(name, atoms), atol=1e-10)
        assert np.max(calculator.results[f"{name}_std"]) < 1e-7  # the square root of rounding


def test_what_is_not_invariant_becomes_so_up_to_the_degree() -> None:
    atoms = cluster()
    assert spread(Lopsided(), atoms) > 0.1
    assert spread(SymmetrizedCalculator(Lopsided()), atoms) < 1e-12
    coarse = SymmetrizedCalculator(Lopsided(), groups.SO(3), samplers.Quadrature(1, random=False))
    assert spread(coarse, atoms) > 1e-3
    drawn = SymmetrizedCalculator(Lopsided(), sampler=samplers.Haar())
    assert spread(drawn, atoms) < 0.4 * spread(Lopsided(), atoms)


def test_deviations_are_those_over_the_rotations() -> None:
    atoms, inner, group = cluster(), Lopsided(), groups.Tetrahedral()
    calculator = SymmetrizedCalculator(inner, group)
    calculator.get_property("forces", atoms)
    matrices = group.matrix(group.elements(), dtype=torch.float64).numpy()
    energies = [inner.get_property("energy", turned(atoms, q.T)) for q in matrices]
    forces = np.stack([inner.get_property("forces", turned(atoms, q.T)) @ q.T for q in matrices])
    assert calculator.results["energy"] == pytest.approx(np.mean(energies), abs=1e-12)
    assert calculator.results["energy_std"] == pytest.approx(np.std(energies), abs=1e-12)
    np.testing.assert_allclose(calculator.results["forces"], forces.mean(0), atol=1e-12)
    np.testing.assert_allclose(calculator.results["forces_std"], forces.std(0), atol=1e-12)


@pytest.mark.parametrize("pbc", [True, (True, True, False)], ids=["periodic", "in two directions"])
def test_forces_and_stress_follow_the_rotation_of_a_cell(pbc: Any) -> None:
    atoms, calculator = crystal(pbc), SymmetrizedCalculator(Lopsided())
    energy, forces, stress = (calculator.get_property(name, atoms) for name in PROPERTIES)
    stress = voigt_6_to_full_3x3_stress(stress)
    for q in rotations(3):
        there = turned(atoms, q)
        assert calculator.get_property("energy", there) == pytest.approx(energy, abs=1e-11)
        np.testing.assert_allclose(calculator.get_property("forces", there), forces @ q.T, atol=1e-11)
        rotated = voigt_6_to_full_3x3_stress(calculator.get_property("stress", there))
        np.testing.assert_allclose(rotated, q @ stress @ q.T, atol=1e-11)
    assert calculator.results["stress_std"].max() > 1e-3


def assert_stress_is_a_gradient(calculator: Any, atoms: Atoms, step: float = 1e-4) -> None:
    stress = calculator.get_property("stress", atoms)
    for place, (i, k) in enumerate(((0, 0), (1, 1), (2, 2), (1, 2), (0, 2), (0, 1))):
        energies = []
        for side in (step, -step):
            strain = np.eye(3)
            strain[i, k] += side / 2
            strain[k, i] += side / 2
            moved = atoms.copy()
            moved.set_cell(np.array(atoms.cell) @ strain, scale_atoms=True)
            energies.append(calculator.get_property("energy", moved))
        assert stress[place] == pytest.approx((energies[0] - energies[1]) / (2 * step * atoms.get_volume()), abs=1e-6)


@pytest.mark.parametrize(
    ("group", "sampler"),
    [
        (groups.SO(3), samplers.Quadrature(1, random=False)),
        (groups.Tetrahedral(), None),
        (groups.SO(3), samplers.Haar()),
        (groups.SE(3), samplers.Quadrature(1)),
    ],
    ids=["Quadrature", "Enumerate", "Haar", "Quadrature, SE(3)"],
)
def test_fixed_elements_give_conservative_forces(group: groups.Group, sampler: Any) -> None:
    calculator = SymmetrizedCalculator(Lopsided(place=0.1), group, sampler, samples=4)
    assert calculator.conservative
    assert_forces_are_gradients(calculator, cluster())
    assert abs(work(calculator, cluster(3), 12)) < 1e-8


def test_stress_is_the_gradient_of_the_averaged_energy() -> None:
    assert_stress_is_a_gradient(SymmetrizedCalculator(Lopsided(), groups.Tetrahedral()), crystal())


@pytest.mark.parametrize(
    "sampler",
    [
        samplers.Haar(),
        samplers.Frame(reads=(0,)),
        samplers.Canonical(nets.VNDGCNN(1, scores=False).double(), reads=(0,)),
    ],
    ids=lambda sampler: type(sampler).__name__,
)
def test_elements_that_change_are_named_and_not_conservative(sampler: Any) -> None:
    torch.manual_seed(0)
    calculator = SymmetrizedCalculator(Lopsided(), groups.SO(3), sampler, redraw=True, samples=2)
    assert not calculator.conservative
    assert abs(work(calculator, cluster(), 12)) > 1e-3


def test_elements_are_drawn_anew_for_another_configuration_only() -> None:
    atoms = crystal()
    calculator = SymmetrizedCalculator(Lopsided(), sampler=samplers.Haar(), samples=3, redraw=True)
    energy = calculator.get_property("energy", atoms)
    calculator.get_property("stress", atoms)
    assert calculator.results["energy"] == energy
    assert calculator.get_property("energy", turned(atoms, np.eye(3))) == energy
    calculator.get_property("energy", crystal(False))
    assert calculator.get_property("energy", atoms) != energy


def test_translations_with_a_euclidean_group() -> None:
    atoms, far = cluster(), cluster()
    far.positions += [3.0, -1.0, 2.0]
    inner = Lopsided(place=0.1)
    rotating, moving = (SymmetrizedCalculator(inner, group) for group in (groups.O(3), groups.E(3)))
    assert abs(rotating.get_property("energy", far) - rotating.get_property("energy", atoms)) > 0.1
    assert moving.get_property("energy", far) == pytest.approx(moving.get_property("energy", atoms), abs=1e-10)
    assert np.abs(moving.get_property("forces", far).sum(0)).max() < 1e-12


def test_all_rotations_at_once() -> None:
    sizes = list[int]()

    def many(turned: list[Atoms]) -> list[dict[str, Any]]:
        sizes.append(len(turned))
        results = []
        for copied in turned:
            inner.calculate(copied, PROPERTIES)
            results.append(dict(inner.results))
        return results

    inner, atoms = Lopsided(), crystal()
    singly, all_at_once = SymmetrizedCalculator(Lopsided()), SymmetrizedCalculator(inner, many=many)
    for name in PROPERTIES:
        np.testing.assert_array_equal(singly.get_property(name, atoms), all_at_once.get_property(name, atoms))
    assert sizes == [48, 48]  # energy and forces, and later the stress
    few = SymmetrizedCalculator(inner, many=lambda turned: many(turned)[:-1])
    with pytest.raises(ShapeError, match=r"Expected results for 48 turned copies from many \(got 47\)"):
        few.get_property("energy", atoms)
    with pytest.raises(MissingPropertyError, match="Expected forces"):
        SymmetrizedCalculator(inner, many=lambda turned: [{"energy": 0.0} for _ in turned]).get_property(
            "energy", atoms
        )


def test_optimisers_molecular_dynamics_and_files(tmp_path: Path) -> None:
    atoms = Atoms("Ar3", [[0, 0, 0], [1.2, 0, 0], [0.4, 1.1, 0.1]])
    atoms.calc = SymmetrizedCalculator(LennardJones(rc=10.0), groups.Tetrahedral())
    BFGS(atoms, logfile=None).run(fmax=1e-3, steps=50)
    np.testing.assert_allclose(atoms.get_all_distances()[~np.eye(3, dtype=bool)], 2 ** (1 / 6), atol=1e-3)
    for name in ("last.traj", "last.xyz"):
        write(tmp_path / name, atoms)
        assert read(tmp_path / name).get_potential_energy() == pytest.approx(atoms.get_potential_energy())
    atoms = cluster(3)
    atoms.calc = SymmetrizedCalculator(Lopsided(), groups.Tetrahedral())
    before = atoms.get_total_energy()
    VelocityVerlet(atoms, 1.0 * units.fs).run(20)
    assert atoms.get_kinetic_energy() > 1e-3
    assert atoms.get_total_energy() == pytest.approx(before, abs=1e-4)


def test_constraints_belong_to_the_atoms_and_not_to_turned_copies() -> None:
    atoms = cluster()
    atoms.set_constraint(FixAtoms([0]))
    atoms.calc = SymmetrizedCalculator(Lopsided(), groups.Tetrahedral())
    free = SymmetrizedCalculator(Lopsided(), groups.Tetrahedral()).get_property("forces", cluster())
    assert not atoms.get_forces()[0].any()
    np.testing.assert_array_equal(atoms.get_forces(apply_constraint=False), free)


def test_bad_input_is_refused() -> None:
    class NoForces(Lopsided):
        implemented_properties = ["energy"]  # noqa: RUF012

    class Wrong(Lopsided):
        def calculate(self, *arguments: Any, **options: Any) -> None:
            super().calculate(*arguments, **options)
            self.results |= {"energy": np.nan}

    atoms, vectors, nowhere = cluster(), cluster(), cluster()
    vectors.set_initial_magnetic_moments(np.ones((5, 3)))
    nowhere.positions[0] = np.nan
    with pytest.raises(
        MissingPropertyError, match=r"Expected one of the properties energy, energy_std \(got 'forces'\)"
    ):
        SymmetrizedCalculator(NoForces()).get_property("forces", atoms)
    atoms.calc = SymmetrizedCalculator(Lopsided())
    with pytest.raises(PropertyNotImplementedError, match="Expected one of the properties"):
        atoms.get_dipole_moment()
    with pytest.raises(MissingPropertyError, match="Expected a calculator of ASE"):
        SymmetrizedCalculator(len)
    for given, kind, message in (
        (Atoms(), ShapeError, "at least one atom"),
        (vectors, ShapeError, "one magnetic moment"),
        (nowhere, NonFiniteError, "finite positions"),
    ):
        with pytest.raises(kind, match=message):
            SymmetrizedCalculator(Lopsided()).get_property("energy", given)
    with pytest.raises(NonFiniteError, match="finite energy in every rotation"):
        SymmetrizedCalculator(Wrong()).get_property("energy", atoms)
    with pytest.raises(GroupError, match="vectors in space"):
        SymmetrizedCalculator(Lopsided(), groups.O(2))
    with pytest.raises(GroupError, match="vectors in space"):
        SymmetrizedCalculator(Lopsided(), groups.S())
    with pytest.raises(RangeError, match="Expected redraw=True for Frame"):
        SymmetrizedCalculator(Lopsided(), sampler=samplers.Frame())
    with pytest.raises(ProbsymError):
        SymmetrizedCalculator(Lopsided(), sampler=samplers.Enumerate())


def test_a_failure_in_one_rotation_leaves_no_results() -> None:
    atoms, inner = cluster(), Lopsided(fails_at=60)
    atoms.calc = SymmetrizedCalculator(inner)
    first = atoms.get_potential_energy()
    atoms.positions[0] += 0.1
    with pytest.raises(RuntimeError, match="no convergence"):
        atoms.get_potential_energy()
    assert atoms.calc.results == {}
    atoms.positions[0] -= 0.1
    assert atoms.get_potential_energy() == pytest.approx(first, abs=1e-12)


def test_the_degree_that_a_spread_needs() -> None:
    calculator = SymmetrizedCalculator(Lopsided(), groups.SO(3))
    assert calculator.quadrature_degree(cluster(), spread=1e-9) == 2
    assert calculator.quadrature_degree(cluster(), spread=10.0) == 0


def test_without_ase_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ase", None)
    spec = importlib.util.spec_from_file_location("without_ase", str(probsym.ase.__file__))
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(DependencyError, match=r"Expected ase 3.23 or later for probsym.ase \(pip install"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


class Field(torch.nn.Module):
    """An energy of types and positions, and of a cell if there is one, that knows nothing of rotations."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.each = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).double()

    def forward(self, types: Tensor, positions: Tensor, cell: Tensor | None = None) -> Tensor:
        if cell is not None:  # as if of the atoms' places in the cell
            positions = positions + cell.sum(1, keepdim=True).sin()
        return self.each(torch.cat([types.to(positions), positions], -1)).sum((1, 2))


def one_hot(numbers: Tensor) -> Tensor:
    return torch.stack([numbers == 1, numbers == 8], -1).double()


def potential(sampler: Any = None, signature: str = "n c, n d:point -> ") -> Symmetrized:
    samples = 1 if sampler is not None and sampler.lists_elements else 4
    return Symmetrized(Field(), signature, {"d": groups.E(3)}, sampler, samples)


@pytest.mark.parametrize(
    ("sampler", "conservative"),
    [
        (None, True),
        (samplers.Quadrature(2), True),
        (samplers.Frame(reads=(1,)), False),
        (samplers.Frame(reads=(1,), weighted=True), False),
        (samplers.Learned(nets.VNDGCNN(1, scores=False).double(), reads=(1,)), False),
    ],
    ids=["Haar", "Quadrature", "Frame", "weighted Frame", "Learned"],
)
def test_a_calculator_from_a_model(sampler: Any, conservative: bool) -> None:
    atoms, model = molecule("H2O"), potential(sampler)
    calculator = ModelCalculator(model, one_hot, {1: -13.0, 8: -2000.0})
    inputs = one_hot(torch.tensor([8, 1, 1]))[None], torch.tensor(atoms.positions)[None]
    expected = float(model(*inputs, seed=0).detach()) - 2026.0
    assert calculator.get_property("energy", atoms) == pytest.approx(expected, abs=1e-10)
    assert_forces_are_gradients(calculator, atoms)
    assert calculator.get_property("energy_std", atoms) > 1e-4
    assert calculator.conservative is conservative
    assert set(calculator.results) == {"energy", "forces", "energy_std"}


def test_a_calculator_from_a_model_that_reads_the_cell() -> None:
    atoms = crystal()
    atoms.numbers[:] = [8, 1, 1]
    calculator = ModelCalculator(potential(samplers.Quadrature(2), "n c, n d:point, k d -> "), one_hot)
    assert_forces_are_gradients(calculator, atoms)
    assert_stress_is_a_gradient(calculator, atoms)
    flat = atoms.copy()
    flat.cell[2] = 0
    flat.pbc[2] = False
    assert calculator.get_property("forces", flat).shape == (3, 3)
    with pytest.raises(ShapeError, match="a cell with a volume"):
        calculator.get_property("stress", flat)


def test_draws_of_a_model_are_the_same_unless_there_is_no_seed() -> None:
    atoms, moved = molecule("H2O"), molecule("H2O")
    moved.positions[0] += 0.1
    for seed, same in ((0, True), (None, False)):
        calculator = ModelCalculator(potential(), one_hot, seed=seed)
        first = calculator.get_property("energy", atoms)
        calculator.get_property("energy", moved)
        assert (calculator.get_property("energy", atoms) == first) is same
        assert calculator.conservative is same


def test_models_and_atoms_that_do_not_fit_are_refused() -> None:
    for signature, kinds in (
        ("n c, n d:point -> k", {"d": groups.E(3)}),
        ("n d:point -> ", {"d": groups.E(3)}),
        ("n d:point, n c -> ", {"d": groups.E(3)}),
    ):
        with pytest.raises(SignatureError, match="Expected types, positions, maybe a cell -> one energy"):
            ModelCalculator(Symmetrized(torch.nn.Identity(), signature, kinds))
    with pytest.raises(GroupError, match="vectors in space"):
        ModelCalculator(Symmetrized(torch.nn.Identity(), "n c, n d:point -> ", {"d": groups.E(2)}))
    calculator = ModelCalculator(potential(), one_hot, {1: -13.0})
    with pytest.raises(SignatureError, match="reads the cell for periodic atoms"):
        calculator.get_property("energy", crystal())
    with pytest.raises(RangeError, match=r"a reference energy for every element \(got none for \[8\]\)"):
        calculator.get_property("energy", molecule("H2O"))
    with pytest.raises(MissingPropertyError, match="stress"):
        calculator.get_property("stress", molecule("H2O"))
    with pytest.raises(ShapeError, match="at least one atom"):
        calculator.get_property("energy", Atoms())
