"""Equivariance to rounding, with the noise moved along with the input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.groups import Group
from probsym.ops.edge_list import Input
from probsym.samplers.noise import Noise
from probsym.signature import Signature
from probsym.symmetrized import Mask
from probsym.testing.moved import Moved, evaluating
from probsym.testing.subject import Subject, Values

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}
ELEMENTS = 16
"""At least so many are tried, since some hide a fault: half of O(3) shows nothing of chirality."""


class Equivariance(NamedTuple):
    """The result of `assert_equivariant`: the largest relative error, the draws, and how many were always left out."""

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
    output_keys: Sequence[str | int] | None = None,
    mask_argument: str | None = None,
) -> Equivariance:
    """Check `phi(g x; g noise) = g phi(x; noise)` for random elements g of the group, draw by draw.

    Each item is moved by an element of its own. Batches of fewer than 16 items are moved several times, so that at
    least 16 elements are tried and one item is enough.

    Weights of draws are compared too. Samplers that list elements may list them in another order for g x, so for them
    the averages are compared. Draws that rounding could change are counted and left out: two scores or logits are too
    close, or the vectors of a rotation almost fail to span the space. A module is run in evaluation mode and without
    gradients of its parameters; it may differentiate its inputs, as for forces. A model that is not a `Symmetrized`
    gets zeros at padding, and what it returns there is ignored.

    Args:
        model: a `Symmetrized`, or any other deterministic module or function.
        inputs: a batch for the model; an `EdgeList` is moved by renaming its nodes.
        signature, groups: how inputs and outputs transform, for a model that is not a `Symmetrized`.
        mask: as in a call of the model.
        samples: draws for each batch item; the model's own number if None.
        generator: source of g and of the noise.
        index: the id of each example, for samplers with fixed noise.
        tolerance: largest error allowed, relative to the largest value or 1; 1e-9 in float64, 1e-4 in float32.
        output_keys, mask_argument: as for `Symmetrized`, for a model that is not one: which entries of a mapping are
            the outputs, and the name of the mask argument. A model that takes no mask is called without it.

    Raises AssertionError with the error for each axis separately, and the batch item where it is largest.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d:point -> d:point", {"n": groups.S(), "d": groups.SE(3)})
    >>> assert_equivariant(model, torch.randn(8, 5, 3), samples=10).draws
    80
    >>> rotations = {"d": groups.O(3)}  # and for any other function
    >>> assert_equivariant(lambda x: x.mean(1), torch.randn(8, 5, 3), signature="n d -> d", groups=rotations).draws
    8
    """
    subject = Subject.of(model, signature, groups, output_keys, mask_argument)
    moves = _moves(subject.signature, inputs, mask, generator)
    with evaluating(model):
        noise = None
        if subject.model is not None:
            noise = subject.model.noise(*inputs, mask=mask, samples=samples, generator=generator, index=index)
        here = subject.values(inputs, mask, noise, index)
        compared = [_compared(subject, here, moved, noise, index) for moved in moves]
        worst, moved = max(zip(compared, moves, strict=True), key=lambda pair: _or_infinite(pair[0].error))
        unclear = torch.stack([each.unclear for each in compared]).all(0)
        report = Equivariance(float(worst.error), unclear.numel(), int(unclear.sum()))
        tolerance = TOLERANCE[worst.dtype] if tolerance is None else tolerance
        if report.unclear == report.draws:
            raise AssertionError(f"Expected some draw that rounding cannot decide (got none in {report.draws})")
        if not report.error <= tolerance:
            apart = {
                key: _compared(subject, here, moved.only(key, inputs, mask), noise, index).error
                for key in subject.signature.groups
            }
            raise AssertionError(_complaint(subject, report, worst, apart, tolerance, masked=mask is not None))
    return report


def _moves(
    signature: Signature, inputs: Sequence[Input], mask: Mask | None, generator: torch.Generator | None
) -> list[Moved]:
    """The batch moved as often as it takes to try `ELEMENTS` elements; the batch stays as the model expects it."""
    signature.check_inputs(inputs, mask)
    rounds = math.ceil(ELEMENTS / max(inputs[0].shape[0], 1)) if signature.groups else 1
    return [Moved.at_random(signature, inputs, mask, generator) for _ in range(rounds)]


def _or_infinite(error: float) -> float:
    return math.inf if math.isnan(error) else error


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
    pairs = list(zip(there.outputs, wanted, strict=True))
    if here.weights is not None and there.weights is not None:
        pairs.append((_shares(there.weights, unclear), _shares(here.weights, unclear)))
    for y, want in pairs:
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


def _shares(weights: Tensor, unclear: Tensor) -> Tensor:
    """Weights (B, K) of the draws that rounding cannot change, relative to their mean."""
    clear = weights.masked_fill(unclear, 0)
    mean = clear.mean(1, keepdim=True)
    return clear / torch.where(mean == 0, 1, mean)


def _complaint(
    subject: Subject,
    report: Equivariance,
    compared: _Compared,
    apart: Mapping[str, float],
    tolerance: float,
    *,
    masked: bool,
) -> str:
    groups = subject.signature.groups
    each = ", ".join(f"{error:.1e} under {groups[key]!r} on {key!r}" for key, error in apart.items())
    fixed = getattr(subject.model and subject.model.sampler, "fixed_noise", False)
    why = "; its fixed noise belongs to the example and does not move with the input" if fixed else ""
    if masked and not subject.form.takes_mask:
        other = subject.form.other_mask
        why += f"; called without the mask, since it takes no {subject.form.mask_argument!r}"
        why += f": see mask_argument={other!r}" if other else ": see mask_argument="
    return (
        f"Expected phi(g x) = g phi(x) up to {tolerance:.0e} (got an error of {report.error:.1e} in batch item "
        f"{compared.item}: {each}; over {report.draws - report.unclear} of {report.draws} draws{why})"
    )
