"""Any calculator of ASE, averaged over rotations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.calculators.calculator import all_changes
from ase.stress import voigt_6_to_full_3x3_stress
from torch import Tensor

from probsym.ase.base import (
    TERMS,
    AveragedCalculator,
    MissingPropertyError,
    as_ase,
    check_atoms,
    check_group,
    mean_and_spread,
)
from probsym.degrees import quadrature_degree
from probsym.errors import NonFiniteError, RangeError, ShapeError
from probsym.groups import Group, O
from probsym.samplers import Enumerate, Quadrature, Sampler
from probsym.symmetrized import Symmetrized

Results = Mapping[str, Any]


class SymmetrizedCalculator(AveragedCalculator):
    """Any ASE calculator, made invariant: energy, forces and stress are averaged over rotations of atoms and cell.

        E(x) = sum_k w_k E_0(Q_k^-1 x)        F(x) = sum_k w_k Q_k F_0(Q_k^-1 x)

    `results` also has `energy_std`, `forces_std` and `stress_std`: the deviation over the rotations, entry by entry,
    after rotating back. It shows how far the wrapped calculator is from being invariant.

    By default the elements are drawn once, from the seed, and do not depend on the positions. The forces are then the
    gradient of the averaged energy, and conservative. The average is exactly invariant under a finite group, up to the
    degree of the rule for `Quadrature`, and in distribution for random draws, such as those of `Haar`. With
    `redraw=True` elements are redrawn for every configuration, as samplers that read the positions require (`Frame`,
    `Canonical`, `Learned`). The forces are then still averages, but not the gradient of one energy. `conservative`
    says which case applies.

    Args:
        calculator: any ASE calculator; it is called for one rotated copy of the atoms after the other.
        group: acts on vectors in space: O(3), SO(3), finite groups of rotations. With E(3) or SE(3), rotations are
            about the centroid of the positions, so that the energy does not change with translations either.
        sampler: which rotations; if None, every element of a finite group, else `Quadrature(3)`, 48 in O(3).
        many: a function that computes all rotated copies at once instead: it maps a list of atoms to a list of
            dictionaries of properties, named as in ASE.
        redraw: redraw the elements for every configuration.
        samples: number of draws, for samplers that do not list elements.
        seed: seed of the draws.

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
        check_group(self.group)
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
        check_atoms(atoms)
        return quadrature_degree(self._model(["energy"], atoms), *_inputs(atoms), spread=spread, **options)

    def _properties(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        seed = self.seed + self._drawn if self.redraw else self.seed
        with torch.no_grad():
            estimate = self._model(names, atoms).estimate(*_inputs(atoms), seed=seed, keep_values=True)
        means, values = (
            (outputs,) if isinstance(outputs, Tensor) else outputs for outputs in (estimate.mean, estimate.values)
        )
        results: dict[str, Any] = {}
        for name, mean, each in zip(names, means, values, strict=True):
            average, spread = mean_and_spread(estimate, mean, each)
            results |= {name: as_ase(name, average), f"{name}_std": as_ase(name, spread)}
        return results

    def _model(self, names: Sequence[str], atoms: Atoms) -> Symmetrized:
        """The average of these properties of such atoms as a function of positions and cell."""
        points = "n d:point" if "point" in self.group.kinds else "n d"

        def base(positions: Tensor, cells: Tensor) -> tuple[Tensor, ...]:
            turned = [_placed(atoms, *geometry) for geometry in zip(positions.numpy(), cells.numpy(), strict=True)]
            with torch.enable_grad():  # which the calculator inside may need for its forces
                computed = [_tensors(results, names, len(atoms)) for results in self._computed(turned, names)]
            if len(computed) != len(turned):
                raise ShapeError(f"Expected results for {len(turned)} turned copies from many (got {len(computed)})")
            outputs = [torch.stack(each) for each in zip(*computed, strict=True)]
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
        return ({name: self.calculator.get_property(name, copy) for name in names} for copy in turned)


def _inputs(atoms: Atoms) -> tuple[Tensor, Tensor]:
    """Positions (1, n, 3) and cell (1, 3, 3)."""
    return torch.from_numpy(np.array(atoms.positions)[None]), torch.from_numpy(np.array(atoms.cell)[None])


def _placed(atoms: Atoms, positions: Any, cell: Any) -> Atoms:
    """A copy of the atoms elsewhere, in another cell, free of constraints, which belong to the original."""
    copy = atoms.copy()
    copy.set_constraint()
    copy.set_cell(cell)
    copy.positions[:] = positions
    return copy


def _tensors(results: Results, names: Sequence[str], atoms: int) -> list[Tensor]:
    """What the calculator inside found, checked."""
    tensors, shapes = [], {"forces": (atoms, 3), "stress": (3, 3)}
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
        tensors.append(torch.from_numpy(array))
    return tensors
