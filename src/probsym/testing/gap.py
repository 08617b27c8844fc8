"""Equivariance in distribution, where noise cannot be moved along: a calibrated test."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.errors import RangeError
from probsym.groups import Group
from probsym.ops.edge_list import EdgeList, Input
from probsym.symmetrized import Mask
from probsym.testing.moved import Moved, as_list, evaluating
from probsym.testing.subject import Subject

ROUNDING = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 1e-1, torch.float16: 1e-2}


class Gap(NamedTuple):
    """How far `phi(g x)` is from `g phi(x)`.

    `gap` is the root mean square of the difference over batch and outputs, `stderr` the gap that independent draws
    alone would cause, and `p_value` the share of relabellings of the draws that differ at least as much.
    """

    gap: float
    stderr: float
    p_value: float


def equivariance_gap(
    model: Callable[..., Any],
    *inputs: Input,
    signature: str | None = None,
    groups: Mapping[str, Group] | None = None,
    samples: int = 100,
    mask: Mask | None = None,
    generator: torch.Generator | None = None,
    index: Tensor | None = None,
    relabellings: int = 999,
    output_keys: Sequence[str | int] | None = None,
    mask_argument: str | None = None,
) -> Gap:
    """Compare `g phi(x)` with `phi(g x)`, from independent draws, for one random element g per item.

    The p-value comes from a permutation test on the summed squares of standardised differences between the two means.
    If the model is equivariant in distribution, the draws of the two sides can be exchanged, and p is uniform, exactly,
    for any number of samples. A small p-value means that the model is not equivariant; a large one means that these
    draws do not show it. Differences at rounding level are ignored. Give several items: some elements show no fault.

    Args:
        model: a `Symmetrized`, or any other module or function, random or not; a module is run in evaluation mode.
        inputs: a batch for the model.
        signature, groups: how inputs and outputs transform, for a model that is not a `Symmetrized`.
        samples: draws on each side.
        mask: as in a call of the model.
        generator: random generator for g, the draws and the relabellings.
        index: the id of each example, for samplers with fixed noise.
        relabellings: how often the draws are relabelled; the smallest p-value is 1 / (1 + relabellings).
        output_keys, mask_argument: as for `assert_equivariant`.

    >>> from probsym import Symmetrized, groups
    >>> model = Symmetrized(lambda x: x[:, 0], "n d -> d", {"n": groups.S(), "d": groups.O(3)})
    >>> equivariance_gap(model, torch.randn(4, 5, 3), generator=torch.Generator().manual_seed(0)).p_value > 0.01
    True
    """
    if samples < 2 or relabellings < 1:
        raise RangeError(f"Expected 2 samples and 1 relabelling or more (got {samples} and {relabellings})")
    subject = Subject.of(model, signature, groups, output_keys, mask_argument)
    if inputs and inputs[0].shape[0] == 0:
        raise RangeError("Expected a batch with an item to move (got an empty one)")
    moved = Moved.at_random(subject.signature, inputs, mask, generator)
    with evaluating(model):
        here = moved.outputs(_values(subject, inputs, mask, samples, generator, index))
        there = _values(subject, moved.inputs, moved.mask, samples, generator, index)
    left, right = (torch.cat([y.reshape(*y.shape[:2], -1).double() for y in side], -1) for side in (here, there))
    spread = (left.var(1) + right.var(1)) / samples
    difference = left.mean(1) - right.mean(1)
    floor = torch.cat([_floor(a, b) for a, b in zip(here, there, strict=True)], -1)
    pooled = torch.cat([left, right], 1)
    scale = pooled.var(1).clamp(min=floor.square() * 1e-6)

    def statistic(means: Tensor) -> Tensor:
        return (torch.where(means.abs() > floor, means, 0).square() / scale).sum((-2, -1))

    observed = statistic(difference)
    keys = torch.rand(relabellings, 2 * samples, generator=generator, device=pooled.device)
    signs = torch.where(keys.argsort(-1) < samples, 1.0, -1.0).double() / samples
    extreme = sum(
        int((statistic(torch.einsum("rk,bkd->rbd", some, pooled)) >= observed * (1 - 1e-9)).sum())
        for some in signs.split(256)
    )
    return Gap(
        float(difference.square().mean().sqrt()), float(spread.mean().sqrt()), (1 + extreme) / (1 + relabellings)
    )


def _floor(left: Tensor, right: Tensor) -> Tensor:
    """Differences of one output (B, K, ...) that rounding may make, (B, size)."""
    largest = torch.cat([left, right], 1).flatten(1).abs().amax(1, keepdim=True).double().clamp(min=1)
    size = left.shape[2:].numel()
    return (ROUNDING.get(left.dtype, 1e-10) * largest).expand(-1, size)


def _values(
    subject: Subject,
    inputs: tuple[Input, ...],
    mask: Mask | None,
    samples: int,
    generator: torch.Generator | None,
    index: Tensor | None,
) -> list[Tensor]:
    """Independent outputs (B, samples, ...). Those of a sampler that lists elements, or gives them weights or another
    number, are averages for copies of the batch."""
    model = subject.model
    if model is None:
        calls = [subject.outputs(inputs, mask) for _ in range(samples)]
        return [torch.stack(each, 1) for each in zip(*calls, strict=True)]
    inputs = tuple(x.detach() for x in inputs)
    if not model.sampler.lists_elements and model.signature.groups:
        estimate = model.estimate(
            *inputs,
            mask=mask,
            samples=samples,
            generator=generator,
            index=index,
            keep_values=True,
            coupling="independent",
        )
        if estimate.weights is None and estimate.samples == samples:
            return as_list(estimate.values)

    def copies(x: Tensor) -> Tensor:
        return x.repeat_interleave(samples, 0)

    masks = (
        None if mask is None else copies(mask) if isinstance(mask, Tensor) else {k: copies(m) for k, m in mask.items()}
    )
    estimate = model.estimate(
        *(x.repeated(samples) if isinstance(x, EdgeList) else copies(x) for x in inputs),
        mask=masks,
        generator=generator,
        index=None if index is None else copies(index),
    )
    return [y.unflatten(0, (inputs[0].shape[0], samples)) for y in as_list(estimate.mean)]
