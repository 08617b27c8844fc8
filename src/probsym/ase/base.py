"""What both calculators share: checks, averages of draws, and results that are whole or not there."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from ase import Atoms
from ase.calculators.calculator import Calculator, PropertyNotImplementedError, all_changes
from ase.stress import full_3x3_to_voigt_6_stress
from torch import Tensor

from probsym.errors import GroupError, NonFiniteError, ProbsymError, ShapeError
from probsym.estimate import Estimate
from probsym.groups import Group

TERMS = {"energy": "", "free_energy": "", "forces": "n d", "stress": "d d"}
"""What can be averaged, and how it turns."""


class MissingPropertyError(ProbsymError, PropertyNotImplementedError):
    """A property that the calculator inside does not have; ASE knows it as its own error."""


class AveragedCalculator(Calculator):
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
        check_atoms(self.atoms)
        asked = {"energy", "free_energy", "forces", *(name.removesuffix("_std") for name in properties)}
        names = [name for name in TERMS if name in asked and name in self.implemented_properties]
        self.results = self._properties(self.atoms, names)

    @abstractmethod
    def _properties(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        """The properties of these names, with their deviations."""


def check_atoms(atoms: Atoms) -> None:
    """Refuse no atoms, places that are no numbers, and moments that would have to turn."""
    if len(atoms) == 0:
        raise ShapeError("Expected at least one atom (got none)")
    if not np.isfinite(atoms.positions).all() or not np.isfinite(atoms.cell).all():
        raise NonFiniteError("Expected finite positions and cell (got NaN or infinity)")
    if atoms.get_initial_magnetic_moments().ndim > 1:
        raise ShapeError("Expected one magnetic moment for each atom, which does not turn (got vectors)")


def check_group(group: Group) -> None:
    """Refuse a group that does not act on vectors in space."""
    if "plain" not in group.kinds or group.axis_size() != 3:
        raise GroupError(f"Expected a group that acts on vectors in space, such as O(3) (got {group!r})")


def mean_and_spread(estimate: Estimate, mean: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Of one output of an estimate for one item: the mean, and the deviation over the draws."""
    average, each = mean[0].detach().double(), values[0].detach().double()
    square = (each - average).square()
    if estimate.weights is None:
        return average, square.mean(0).sqrt()
    share = estimate.weights[0].detach().double()
    return average, torch.tensordot(share, square, 1).sqrt()


def as_ase(name: str, value: Tensor) -> Any:
    """A number, forces (n, 3), or stress in the six numbers of ASE."""
    if name == "stress":
        return full_3x3_to_voigt_6_stress(value.numpy())
    return value.numpy() if name == "forces" else float(value)
