"""Symmetry without training: elements are weighed by an energy of the moved input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from probsym._internal.callables import check_callable
from probsym.errors import GroupError, NonFiniteError, RangeError, ShapeError
from probsym.ops.argument_checks import check_size, readable
from probsym.ops.precision import at_least_float32
from probsym.ops.ranks import merged_ties
from probsym.ops.transforms import eagerly, hidden
from probsym.samplers.base import Sampler
from probsym.samplers.batch import Batch
from probsym.samplers.draw import Draw
from probsym.samplers.enumerate import every_element
from probsym.samplers.haar import from_elements
from probsym.samplers.noise import Noise, haar_elements, no_noise
from probsym.signature import Signature

LIMIT = 50_000
"""The largest number of elements to list."""


class Energy(Sampler):
    """p(g|x) proportional to exp(-E(g^-1 x) / tau) over all elements of a finite group, or over uniform draws.

    The energy E can be any function: with the entropy of a frozen classifier's prediction, the classifier selects its
    own pose. Canonical poses of least energy are due to Kaba et al. (2023, "Equivariance with Learned Canonicalization
    Functions"), energies of frozen classifiers to Schmidt and Stober (2024, "Tilt your Head").

    Every element costs one call of the energy. With tau = 0 the base is called only for the elements of least energy,
    usually one; elements of equal energy are averaged. With tau > 0 the base is called for all elements, and the
    energy's parameters get a gradient.

    Energies that differ by less than 1e-5 of the largest finite one, 1e-10 in float64, are equal up to rounding. So
    forbid an element with an infinite energy rather than with a large one. On the CPU, energies without a finite
    minimum are refused, even with `check_finite = False`.

    Args:
        energy: any module or function. It receives all inputs, moved, as (rows, ...), real items first, and a `mask`
            (rows, n) if it takes one: {axis: mask} if several axes can have one. It returns one number per row, (rows,)
            or (rows, 1); infinity forbids an element.
        tau: temperature; 0 selects the least energy.
        elements: how many uniform elements to draw and weight for each input; if None, all elements of a finite group.
            With a number the average is random, equivariant in distribution, and has no standard error.

    >>> from probsym import Symmetrized, groups
    >>> sampler = Energy(lambda x: x[:, 0])  # the smallest number comes first
    >>> model = Symmetrized(lambda x: x, "n -> k", {"n": groups.S()}, sampler)
    >>> model.estimate(torch.tensor([[3.0, 1.0, 2.0]])).mean
    tensor([[1.0000, 2.5000, 2.5000]])
    """

    lists_elements = True

    def __init__(self, energy: Callable[..., Any], tau: float = 0.0, elements: int | None = None) -> None:
        super().__init__()
        check_callable(energy, "energy")
        if not 0 <= tau < float("inf"):
            raise RangeError(f"Expected tau to be finite and 0 or more (got {tau})")
        self.energy, self.tau = energy, float(tau)
        self.elements = None if elements is None else check_size(elements, "elements")
        self.draws_elements = elements is not None

    def extra_repr(self) -> str:
        return f"tau={self.tau}, elements={self.elements}"

    def check(self, signature: Signature) -> None:
        for group in signature.groups.values():
            if self.elements is None and not group.linear.finite:
                raise GroupError(f"Expected a finite group, or elements= as many as are to be weighed (got {group!r})")

    def noise(self, batch: Batch, draws: int, generator: torch.Generator | None = None, *, start: int = 0) -> Noise:
        return no_noise() if self.elements is None else haar_elements(batch, self.elements, generator)

    def forward(self, batch: Batch, noise: Noise) -> Draw:
        listed = every_element(batch, LIMIT) if self.elements is None else from_elements(batch, noise)
        if self.tau > 0:
            draw = listed.weighted(torch.softmax(-self._energies(batch, listed) / self.tau, 1))
        else:
            with torch.no_grad():
                draw = _least(listed, self._energies(batch, listed))
        return draw if self.elements is None else draw.estimated(batch)

    def _energies(self, batch: Batch, listed: Draw) -> Tensor:
        """E(g^-1 x) for every element, (B, K), in at least float32."""
        inputs, options = listed.rows(batch, self.energy)
        energies, rows = self.energy(*inputs, **options), batch.count * listed.count
        if not isinstance(energies, Tensor) or tuple(energies.shape) not in ((rows,), (rows, 1)):
            shape = tuple(energies.shape) if isinstance(energies, Tensor) else type(energies).__name__
            raise ShapeError(f"Expected the energy to give one number for each of {rows} rows (got {shape})")
        energies = energies.reshape(batch.count, listed.count).to(at_least_float32(energies.dtype))
        if readable(energies) and not torch.isfinite(least := energies.detach().amin(1)).all():
            item = int((~torch.isfinite(least)).nonzero()[0])
            raise NonFiniteError(
                f"Expected a finite least energy, and none that is NaN (got {least[item].item()} for item {item})"
            )
        return energies


@eagerly
def _least(listed: Draw, energies: Tensor) -> Draw:
    """The draws of least energy (B, K) with equal weights; those of other items, where they have fewer, with none."""
    merged = merged_ties(-energies)
    least = merged == merged.amax(1, keepdim=True)
    most = least.shape[1] if hidden(least) else int(least.sum(1).max()) if len(least) else 1
    places = least.long().argsort(dim=1, descending=True, stable=True)[:, :most]
    weights = least.gather(1, places).to(energies.dtype)
    return listed.take(places).weighted(weights / weights.sum(1, keepdim=True))
