"""A calculator from a symmetrized energy model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from ase import Atoms
from torch import Tensor

from probsym.ase.base import AveragedCalculator, as_ase, check_group, mean_and_spread
from probsym.errors import NonFiniteError, RangeError, ShapeError, SignatureError
from probsym.symmetrized import Symmetrized


class ModelCalculator(AveragedCalculator):
    """A calculator from a symmetrized energy model of types and positions; forces and stress are its derivatives.

    The model's signature has one output, the energy, and as inputs what `encode` makes of the atomic numbers, the
    positions, and for periodic atoms the cell: "n c, n d:point -> " or "n c, n d:point, k d -> ". There is a stress if
    the model reads the cell; how to treat periodic boundaries is left to the model. `results` also has `energy_std`
    over the draws.

    The random numbers depend only on the seed and are the same at all positions, so the forces are conservative
    wherever the energy does not jump; with `seed=None` they are redrawn for every configuration.
    `docs/potentials.md` says which samplers jump.

    Args:
        model: the model, which is put into evaluation mode.
        encode: makes the first input, (n, ...), of the atomic numbers, int64 (n,); these themselves if None. Numbers
            that are not whole get the dtype of the model's parameters.
        references: energies by atomic number, added once for every atom of that kind.
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
            check_group(group)
        self.model, self.encode, self.references, self.seed = model.eval(), encode, dict(references or {}), seed
        self.reads_cell = len(terms) == 3
        self.implemented_properties = ["energy", "forces", *(["stress"] if self.reads_cell else []), "energy_std"]

    @property
    def conservative(self) -> bool:
        """Whether the elements are the same at all positions, so that the energy is as smooth as the base.

        Forces are the gradient in any case, but of an energy that may jump, or that is another one every time.
        """
        return self.seed is not None and not self.model.sampler.read(self.model.signature)

    def _properties(self, atoms: Atoms, names: Sequence[str]) -> dict[str, Any]:
        parameter = next(self.model.parameters(), torch.zeros((), dtype=torch.float64))
        if atoms.pbc.any() and not self.reads_cell:
            raise SignatureError(
                f"Expected a model that reads the cell for periodic atoms (got '{self.model.signature}')"
            )
        numbers = torch.from_numpy(atoms.numbers.astype(np.int64)).to(parameter.device)
        if unknown := {*self.references} and {*atoms.numbers.tolist()} - {*self.references}:
            raise RangeError(f"Expected a reference energy for every element (got none for {sorted(unknown)})")
        types = numbers if self.encode is None else self.encode(numbers)
        types = types.to(parameter.dtype) if types.is_floating_point() else types
        strain = torch.zeros(3, 3, dtype=parameter.dtype, device=parameter.device, requires_grad=True)
        positions, cell = (torch.from_numpy(np.array(vectors)).to(strain) for vectors in (atoms.positions, atoms.cell))
        positions.requires_grad_()
        with torch.enable_grad():
            deformed = [vectors + vectors @ (strain + strain.T) / 2 for vectors in (positions, cell)]
            inputs = (types, *deformed) if self.reads_cell else (types, deformed[0])
            estimate = self.model.estimate(
                *(tensor.unsqueeze(0) for tensor in inputs), seed=self.seed, keep_values=True
            )
            gradient, virial = torch.autograd.grad(estimate.mean.sum(), (positions, strain), materialize_grads=True)
        shift = sum(self.references.get(number, 0.0) for number in atoms.numbers.tolist())
        mean, spread = mean_and_spread(estimate, estimate.mean, estimate.values)
        results: dict[str, Any] = {"energy": float(mean) + shift, "energy_std": float(spread)}
        results["forces"] = -gradient.detach().double().cpu().numpy()
        if "stress" in names:
            if atoms.cell.rank < 3:
                raise ShapeError(f"Expected a cell with a volume for a stress (got one of rank {atoms.cell.rank})")
            results["stress"] = as_ase("stress", virial.double().cpu() / atoms.get_volume())
        if not all(bool(np.isfinite(value).all()) for value in results.values()):
            raise NonFiniteError("Expected finite energy and derivatives from the model (got NaN or infinity)")
        return results
