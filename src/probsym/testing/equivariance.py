"""Equivariance to rounding, with the noise moved along with the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.groups import Group
from probsym.ops.edge_list import Input
from probsym.samplers.noise import Noise
from probsym.symmetrized import Mask
from probsym.testing.moved import Moved, evaluating
from probsym.testing.subject import Subject, Values

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


class Equivariance(NamedTuple):
    """The result of `assert_equivariant`: the largest relative error, the draws, and how many were left out."""

    error: float
    draws: int
    unclear: int


def assert_equivariant(
    model: Callable[..., Any],
    *inputs: Input,
    signature: str | None = None,
    groups: Mapping[str, Group] | None = None,
    mask: Mask | None = None,
    samples: int | None = None,
    generator: torch.Generator | None = None,
    index: Tensor | None = None,
    tolerance: float | None = None,
) -> Equivariance:
    """Check `phi(g x; g noise) = g phi(x; noise)` for a random element g of the group, draw by draw.

    Samplers that list elements may list them in another order for g x, so for them the averages are compared. Draws
    that rounding could change are counted and left out: two scores or logits are too close, or the vectors of a
    rotation almost fail to span the space. A module is run in evaluation mode.

    Args:
        model: a `Symmetrized`, or any other deterministic module or function.
        inputs: a batch for the model; an `EdgeList` is moved by renaming its nodes.
        signature, groups: how inputs and outputs transform, for a model that is not a `Symmetrized`.
        mask: as in a call of the model.
        samples: draws for each batch item; the model's own number if None.
        generator: source of g and of the noise.
        index: the id of each example, for samplers with fixed noise.
        tolerance: largest error allowed, relative to the largest value or 1; 1e-9 in float64, 1e-4 in float32.

    Raises AssertionError with the error for each axis separately, and the batch item where it is largest.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d:point -> d:point", {"n": groups.S(), "d": groups.SE(3)})
    >>> assert_equivariant(model, torch.randn(8, 5, 3), samples=10).draws
    80
    >>> rotations = {"d": groups.O(3)}  # and for any other function
    >>> assert_equivariant(lambda x: x.mean(1), torch.randn(8, 5, 3), signature="n d -> d", groups=rotations).draws
    8
    """
    subject = Subject.of(model, signature, groups)
    moved = Moved.at_random(subject.signature, inputs, mask, generator)
    with evaluating(model):
        noise = None
        if subject.model is not None:
            noise = subject.model.noise(*inputs, mask=mask, samples=samples, generator=generator, index=index)
        here = subject.values(inputs, mask, noise, index)
        compared = _compared(subject, here, moved, noise, index)
        report = Equivariance(float(compared.error), compared.unclear.numel(), int(compared.unclear.sum()))
        tolerance = TOLERANCE[compared.dtype] if tolerance is None else tolerance
        if report.unclear == report.draws:
            raise AssertionError(f"Expected some draw that rounding cannot decide (got none in {report.draws})")
        if not report.error <= tolerance:
            apart = {
                key: _compared(subject, here, moved.only(key, inputs, mask), noise, index).error
                for key in subject.signature.groups
            }
            raise AssertionError(_complaint(subject, report, compared, apart, tolerance))
    return report


class _Compared(NamedTuple):
    """The largest error relative to the largest value or 1, where in the batch it is, and what was left out."""

    error: float
    item: int
    unclear: Tensor
    dtype: torch.dtype


def _compared(subject: Subject, here: Values, moved: Moved, noise: Noise | None, index: Tensor | None) -> _Compared:
    follows = None
    if subject.model is not None and noise is not None:
        follows = subject.model.move_noise(moved.g, noise)
    there = subject.values(moved.inputs, moved.mask, follows, index)
    unclear = here.unclear | there.unclear
    wanted, error, item = moved.outputs(here.outputs), 0.0, 0
    for y, want in zip(there.outputs, wanted, strict=True):
        off = (y - want).abs().to(torch.float64)
        off = off.masked_fill(unclear.view(*unclear.shape, *(1 for _ in off.shape[2:])), 0)
        if off.numel() == 0:
            continue
        each = off.flatten(1).amax(1) / want.abs().max().clamp(min=1)
        worst = int(each.isnan().long().argmax()) if each.isnan().any() else int(each.argmax())
        if math.isnan(each[worst]):
            return _Compared(math.nan, worst, unclear, wanted[0].dtype)
        if float(each[worst]) > error:
            error, item = float(each[worst]), worst
    return _Compared(error, item, unclear, wanted[0].dtype)


def _complaint(
    subject: Subject, report: Equivariance, compared: _Compared, apart: Mapping[str, float], tolerance: float
) -> str:
    groups = subject.signature.groups
    each = ", ".join(f"{error:.1e} under {groups[key]!r} on {key!r}" for key, error in apart.items())
    fixed = getattr(subject.model and subject.model.sampler, "fixed_noise", False)
    why = "; its fixed noise belongs to the example and does not move with the input" if fixed else ""
    return (
        f"Expected phi(g x) = g phi(x) up to {tolerance:.0e} (got an error of {report.error:.1e} in batch item "
        f"{compared.item}: {each}; over {report.draws - report.unclear} of {report.draws} draws{why})"
    )
