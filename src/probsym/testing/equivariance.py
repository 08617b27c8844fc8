"""Equivariance to rounding, with the noise moved along with the input."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from probsym.samplers.learned import Learned
from probsym.symmetrized import Mask, Symmetrized
from probsym.testing.margins import unclear_draws
from probsym.testing.moved import Moved, as_list, evaluating

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class Equivariance(NamedTuple):
    """What `assert_equivariant` found: the largest relative error, and how many draws were left out of it."""

    error: float
    draws: int
    unclear: int


def assert_equivariant(
    model: Symmetrized,
    *inputs: Tensor,
    mask: Mask | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    index: Tensor | None = None,
    tolerance: float | None = None,
) -> Equivariance:
    """Check `phi(g x; g noise) = g phi(x; noise)` for a random element g of the group, draw by draw.

    Samplers that list elements may list them in another order for g x, so for them the averages are compared. Draws
    that rounding may decide say nothing: two scores or logits are too close, or vectors that name a rotation nearly
    fail to span. They are counted and left out. The model is run in evaluation mode.

    Args:
        model: a `Symmetrized`.
        inputs: a batch for it.
        mask: as the model takes it.
        samples: draws for each batch item; the model's own number if None.
        generator: source of g and of the noise.
        index: the number of each example, for samplers with fixed noise.
        tolerance: largest error allowed, relative to the largest value or 1; 1e-9 in float64, 1e-4 in float32.

    Raises AssertionError with the error found.

    >>> from probsym import groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d:point -> d:point", {"n": groups.S(), "d": groups.SE(3)})
    >>> assert_equivariant(model, torch.randn(8, 5, 3), samples=10).draws
    80
    """
    moved = Moved.at_random(model.signature, inputs, mask, generator)
    with evaluating(model):
        noise = model.noise(*inputs, mask=mask, samples=samples, generator=generator, index=index)
        here = model.estimate(*inputs, mask=mask, noise=noise, index=index, keep_values=True)
        there = model.estimate(
            *moved.inputs,
            mask=moved.mask,
            noise=model.move_noise(moved.g, noise),
            index=index,
            keep_values=True,
        )
    if model.sampler.lists_elements:
        wanted = moved.outputs([y.unsqueeze(1) for y in as_list(here.mean)])
        found = [y.unsqueeze(1) for y in as_list(there.mean)]
        unclear = torch.zeros(wanted[0].shape[:2], dtype=torch.bool, device=wanted[0].device)
    else:
        wanted, found = moved.outputs(as_list(here.values)), as_list(there.values)
        unclear = unclear_draws(model.signature, here) | unclear_draws(model.signature, there)
    error = _largest_error(found, wanted, unclear)
    report = Equivariance(error, unclear.numel(), int(unclear.sum()))
    tolerance = TOLERANCE[wanted[0].dtype] if tolerance is None else tolerance
    if report.unclear == report.draws:
        raise AssertionError(f"Expected some draw that rounding cannot decide (got none in {report.draws})")
    if not error <= tolerance:
        fixed = isinstance(model.sampler, Learned) and model.sampler.fixed_noise
        why = "; its fixed noise belongs to the example and does not move with the input" if fixed else ""
        raise AssertionError(
            f"Expected phi(g x) = g phi(x) up to {tolerance:.0e} (got an error of {error:.1e}, over "
            f"{report.draws - report.unclear} of {report.draws} draws{why})"
        )
    return report


def _largest_error(found: list[Tensor], wanted: list[Tensor], unclear: Tensor) -> float:
    worst = 0.0
    for y, want in zip(found, wanted, strict=True):
        off = (y - want).abs().to(torch.float64)
        off = off.masked_fill(unclear.view(*unclear.shape, *(1 for _ in off.shape[2:])), 0)
        scale = want.abs().max().clamp(min=1) if want.numel() else 1
        error = float((off / scale).max()) if off.numel() else 0.0
        if math.isnan(error):
            return error
        worst = max(worst, error)
    return worst
