"""Calculators for ASE: one that makes any other calculator invariant, and one from a symmetrized energy model.

Needs ase (`pip install probsym[atoms]`), which nothing else imports.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probsym.degrees import quadrature_degree
from probsym.errors import (
    DependencyError,
    GroupError,
    NonFiniteError,
    ProbsymError,
    RangeError,
    ShapeError,
    SignatureError,
)
from probsym.estimate import Estimate
from probsym.groups import Group, O
from probsym.samplers import Enumerate, Quadrature, Sampler
from probsym.symmetrized import Symmetrized

try:
    from ase import Atoms
    from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
    from ase.stress import full_3x3_to_voigt_6_stress, voigt_6_to_full_3x3_stress
except ImportError as error:
    raise DependencyError("Expected ase 3.23 or later for probsym.ase (pip install probsym[atoms])") from error

Results = Mapping[str, Any]
TERMS = {"energy": "", "free_energy": "", "forces": "n d", "stress": "d d"}
"""What can be averaged, and how it turns."""

__all__ = ["MissingPropertyError", "ModelCalculator", "SymmetrizedCalculator"]


class MissingPropertyError(ProbsymError, PropertyNotImplementedError):
    """A property that the calculator inside does not have; ASE knows it as its own error."""


class _Calculator(Calculator):
    """What both share: atoms and properties are checked, and results are filled at once or not at all."""

    def get_property(self, name: str, atoms: Atoms | None = None, allow_calculation: bool = True) -> Any:
        """The property, calculated if need be."""
        if name not in self.implemented_properties:
            known = ", ".join(self.implemented_properties)
            raise MissingPropertyError(f"Expected one of the properties {known} (got {name!r})")
        return super().get_property(name, atoms, allow_calculation)

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        """Fill `results` with energy and forces, and what else is asked for; if anything fails they stay empty."""
        super().calculate(atoms, properties, system_changes)
        self.results = {}
        assert self.atoms is not None
        _check_atoms(self.atoms)
        asked = {"energy", "free_energy", "forces", *(name.removesuffix("_std") for name in properties)}
        names = [name for name in TERMS if name in asked and name in self.implemented_properties]
        self.results = self._found(self.atoms, names)

    @abstractmethod
    def _found(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        """The properties of these names, with their deviations."""


class SymmetrizedCalculator(_Calculator):
    """Any calculator of ASE, made invariant: energy, forces and stress are averaged over rotations of atoms and cell.

        E(x) = sum_k w_k E_0(Q_k^-1 x)        F(x) = sum_k w_k Q_k F_0(Q_k^-1 x)

    `results` also has `energy_std`, `forces_std` and `stress_std`: the deviation over the rotations, entry by entry,
    after turning back. It says how far from invariant the calculator inside is.

    The elements do not depend on the positions: drawn once, from the seed, they stay. The forces are then the gradient
    of the averaged energy, and conservative. The average is invariant under a finite group exactly, under rotations up
    to the degree of a `Quadrature`, and in distribution for draws, such as those of `Haar`. With `redraw=True` they are
    drawn anew for every configuration, which samplers that read the positions need (`Frame`, `Canonical`, `Learned`):
    the forces are then averages too, but not the gradient of one energy. `conservative` says which it is.

    Args:
        calculator: any calculator of ASE; it is called for one turned copy of the atoms after the other.
        group: acts on vectors in space: O(3), SO(3), finite groups of rotations. With E(3) or SE(3), rotations are
            about the centroid of the positions, so that the energy does not change with translations either.
        sampler: which rotations; if None, every element of a finite group, else `Quadrature(3)`, 48 in O(3).
        many: computes all turned copies at once instead: from a list of atoms, a list of dictionaries with the
            properties that they have in ASE.
        redraw: draw the elements anew for every configuration.
        samples: how many draws, for samplers that do not list elements.
        seed: of what is drawn.

    >>> from ase.build import molecule
    >>> from ase.calculators.emt import EMT
    >>> atoms = molecule("H2O")
    >>> atoms.calc = SymmetrizedCalculator(EMT())
    >>> energy = atoms.get_potential_energy()
    >>> bool(abs(energy - EMT().get_potential_energy(atoms)) < 1e-10), bool(atoms.calc.results["energy_std"] < 1e-10)
    (True, True)
    """

    def __init__(
        self,
        calculator: Any,
        group: Group | None = None,
        sampler: Sampler | None = None,
        many: Callable[[list[Atoms]], Iterable[Results]] | None = None,
        redraw: bool = False,
        samples: int = 32,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.group = O(3) if group is None else group
        _check_group(self.group)
        has = getattr(calculator, "implemented_properties", None)
        if not hasattr(calculator, "get_property") or not has or "energy" not in has:
            raise MissingPropertyError(f"Expected a calculator of ASE with an energy (got {calculator!r})")
        if sampler is None:
            sampler = Enumerate() if self.group.finite else Quadrature(3, random=redraw)
        self.calculator, self.sampler, self.many = calculator, sampler, many
        self.redraw, self.samples, self.seed, self._drawn = redraw, samples, seed, 0
        self.implemented_properties = [name for name in TERMS if name in has]
        self.implemented_properties += [f"{name}_std" for name in self.implemented_properties]
        model = self._model(["energy"], Atoms())  # refuses a sampler that cannot serve the group
        if sampler.read(model.signature) and not redraw:
            raise RangeError(
                f"Expected redraw=True for {type(sampler).__name__}, whose elements depend on the positions (got False)"
            )

    @property
    def conservative(self) -> bool:
        """Whether forces are the gradient of the averaged energy, given that those of the calculator inside are."""
        return not self.redraw

    def calculate(
        self,
        atoms: Atoms | None = None,
        properties: Sequence[str] = ("energy",),
        system_changes: Sequence[str] = tuple(all_changes),
    ) -> None:
        if system_changes and self.redraw:
            self._drawn += 1  # later properties of the same configuration have the same elements
        super().calculate(atoms, properties, system_changes)

    def quadrature_degree(self, atoms: Atoms, spread: float, **options: Any) -> int:
        """The smallest degree of a `Quadrature` whose energy (eV) spreads no more than that over rotations of the
        atoms; options are those of `probsym.quadrature_degree`."""
        _check_atoms(atoms)
        return quadrature_degree(self._model(["energy"], atoms), *_inputs(atoms), spread=spread, **options)

    def _found(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        seed = self.seed + self._drawn if self.redraw else self.seed
        with torch.no_grad():
            estimate = self._model(names, atoms).estimate(*_inputs(atoms), seed=seed, keep_values=True)
        means, values = ((one,) if isinstance(one, Tensor) else one for one in (estimate.mean, estimate.values))
        found: dict[str, Any] = {}
        for name, mean, each in zip(names, means, values, strict=True):
            average, spread = _mean_and_spread(estimate, mean, each)
            found |= {name: _as_ase(name, average), f"{name}_std": _as_ase(name, spread)}
        return found

    def _model(self, names: Sequence[str], atoms: Atoms) -> Symmetrized:
        """The average of these properties of such atoms as a function of positions and cell."""
        points = "n d:point" if "point" in self.group.kinds else "n d"

        def base(positions: Tensor, cells: Tensor) -> tuple[Tensor, ...]:
            turned = [_placed(atoms, *one) for one in zip(positions.numpy(), cells.numpy(), strict=True)]
            with torch.enable_grad():  # which the calculator inside may need for its forces
                found = [_tensors(one, names, len(atoms)) for one in self._computed(turned, names)]
            if len(found) != len(turned):
                raise ShapeError(f"Expected results for {len(turned)} turned copies from many (got {len(found)})")
            outputs = [torch.stack(each) for each in zip(*found, strict=True)]
            if "point" in self.group.kinds and "forces" in names:  # the energy is one of positions about their centroid
                forces = outputs[names.index("forces")]
                forces -= forces.mean(1, keepdim=True)
            return tuple(outputs)

        signature = f"{points}, k d -> {', '.join(TERMS[name] for name in names)}"
        samples = 1 if self.sampler.lists_elements else self.samples
        return Symmetrized(base, signature, {"d": self.group}, self.sampler, samples)

    def _computed(self, turned: list[Atoms], names: Sequence[str]) -> Iterable[Results]:
        if self.many is not None:
            return self.many(turned)
        return ({name: self.calculator.get_property(name, one) for name in names} for one in turned)


class ModelCalculator(_Calculator):
    """A calculator from a symmetrized energy model of types and positions; forces and stress are its derivatives.

    The model's signature has one output, the energy, and as inputs what `encode` makes of the atomic numbers, the
    positions, and for periodic atoms the cell: "n c, n d:point -> " or "n c, n d:point, k d -> ". Stress is there if it
    reads the cell: what it does at its boundaries is up to it. `results` also has `energy_std` over the draws.

    Draws are a function of the seed alone, the same at all positions, so that forces are conservative wherever the
    energy does not jump; with `seed=None` they are made anew for every configuration. `docs/potentials.md` says which
    samplers jump.

    Args:
        model: the model, which is put into evaluation mode.
        encode: makes the first input, (n, ...), of the atomic numbers, int64 (n,); these themselves if None.
        references: energies by atomic number that are added, as many as there are such atoms.
        seed: of the draws.
    """

    def __init__(
        self,
        model: Symmetrized,
        encode: Callable[[Tensor], Tensor] | None = None,
        references: Mapping[int, float] | None = None,
        seed: int | None = 0,
    ) -> None:
        super().__init__()
        terms, outputs = model.signature.inputs, model.signature.outputs
        rotating = [[model.signature.groups.get(axis.key) for axis in term.axes][-1:] for term in terms[1:]]
        if len(terms) not in (2, 3) or len(outputs) != 1 or outputs[0].axes or [None] in rotating or [] in rotating:
            raise SignatureError(f"Expected types, positions, maybe a cell -> one energy (got '{model.signature}')")
        for (group,) in rotating:
            assert group is not None
            _check_group(group)
        self.model, self.encode, self.references, self.seed = model.eval(), encode, dict(references or {}), seed
        self.reads_cell = len(terms) == 3
        self.implemented_properties = ["energy", "forces", *(["stress"] if self.reads_cell else []), "energy_std"]

    @property
    def conservative(self) -> bool:
        """Whether the elements are the same at all positions, so that the energy is as smooth as the base.

        Forces are the gradient in any case, but of an energy that may jump, or that is another one every time.
        """
        return self.seed is not None and not self.model.sampler.read(self.model.signature)

    def _found(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        parameter = next(self.model.parameters(), torch.zeros((), dtype=torch.float64))
        if atoms.pbc.any() and not self.reads_cell:
            raise SignatureError(
                f"Expected a model that reads the cell for periodic atoms (got '{self.model.signature}')"
            )
        numbers = torch.from_numpy(atoms.numbers.astype(np.int64)).to(parameter.device)
        if unknown := {*self.references} and {*atoms.numbers.tolist()} - {*self.references}:
            raise RangeError(f"Expected a reference energy for every element (got none for {sorted(unknown)})")
        types = numbers if self.encode is None else self.encode(numbers)
        strain = torch.zeros(3, 3, dtype=parameter.dtype, device=parameter.device, requires_grad=True)
        positions, cell = (torch.from_numpy(np.array(one)).to(strain) for one in (atoms.positions, atoms.cell))
        positions.requires_grad_()
        with torch.enable_grad():
            deformed = [one + one @ (strain + strain.T) / 2 for one in (positions, cell)]
            inputs = (types, *deformed) if self.reads_cell else (types, deformed[0])
            estimate = self.model.estimate(*(one.unsqueeze(0) for one in inputs), seed=self.seed, keep_values=True)
            gradient, virial = torch.autograd.grad(estimate.mean.sum(), (positions, strain), materialize_grads=True)
        shift = sum(self.references.get(one, 0.0) for one in atoms.numbers.tolist())
        mean, spread = _mean_and_spread(estimate, estimate.mean, estimate.values)
        found: dict[str, Any] = {"energy": float(mean) + shift, "energy_std": float(spread)}
        found["forces"] = -gradient.detach().double().cpu().numpy()
        if "stress" in names:
            if atoms.cell.rank < 3:
                raise ShapeError(f"Expected a cell with a volume for a stress (got one of rank {atoms.cell.rank})")
            found["stress"] = _as_ase("stress", virial.double().cpu() / atoms.get_volume())
        if not all(bool(np.isfinite(one).all()) for one in found.values()):
            raise NonFiniteError("Expected finite energy and derivatives from the model (got NaN or infinity)")
        return found


def _check_atoms(atoms: Atoms) -> None:
    if len(atoms) == 0:
        raise ShapeError("Expected at least one atom (got none)")
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell).all():
        raise NonFiniteError("Expected finite positions and cell (got NaN or infinity)")
    if atoms.get_initial_magnetic_moments().ndim > 1:
        raise ShapeError("Expected one magnetic moment for each atom, which does not turn (got vectors)")


def _check_group(group: Group) -> None:
    if "plain" not in group.kinds or group.axis_size() != 3:
        raise GroupError(f"Expected a group that acts on vectors in space, such as O(3) (got {group!r})")


def _inputs(atoms: Atoms) -> tuple[Tensor, Tensor]:
    """Positions (1, n, 3) and cell (1, 3, 3)."""
    return torch.from_numpy(np.array(atoms.positions)[None]), torch.from_numpy(np.array(atoms.cell)[None])


def _placed(atoms: Atoms, positions: Any, cell: Any) -> Atoms:
    """A copy of the atoms elsewhere, in another cell, free of constraints, which belong to the original."""
    found = atoms.copy()
    found.set_constraint()
    found.set_cell(cell)
    found.positions[:] = positions
    return found


def _mean_and_spread(estimate: Estimate, mean: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Of one output of an estimate for one item: the mean, and the deviation over the draws."""
    average, each = mean[0].detach().double(), values[0].detach().double()
    square = (each - average).square()
    if estimate.weights is None:
        return average, square.mean(0).sqrt()
    share = estimate.weights[0].detach().double()
    return average, torch.tensordot(share, square, 1).sqrt()


def _tensors(results: Results, names: Sequence[str], atoms: int) -> list[Tensor]:
    """What the calculator inside found, checked."""
    found, shapes = [], {"forces": (atoms, 3), "stress": (3, 3)}
    for name in names:
        value = results.get(name)
        if value is None:
            raise MissingPropertyError(f"Expected {name} from the calculator or from many (got none)")
        array = np.array(value, dtype=np.float64)
        array = voigt_6_to_full_3x3_stress(array) if name == "stress" and array.shape == (6,) else array
        if array.shape != shapes.get(name, ()):
            raise ShapeError(f"Expected {name} of shape {shapes.get(name, ())} (got {array.shape})")
        if not np.isfinite(array).all():
            raise NonFiniteError(f"Expected finite {name} in every rotation (got NaN or infinity)")
        found.append(torch.from_numpy(array))
    return found


def _as_ase(name: str, value: Tensor) -> Any:
    """A number, forces (n, 3), or stress in the six numbers of ASE."""
    if name == "stress":
        return full_3x3_to_voigt_6_stress(value.numpy())
    return value.numpy() if name == "forces" else float(value)
