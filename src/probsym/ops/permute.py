"""Permutations as index vectors: find them, invert them, move tensors by them. No matrix is built.

An index p (*batch, n) puts item `x[p[j]]` at position j. A tensor x (*batch, ...) has the same leading batch
axes, each of equal size or of size 1; a batch axis of size 1 is shared, so that K draws read one input.
"""

from typing import Any

import torch
from torch import Tensor

from probsym.errors import DtypeError, ShapeError


def descending(scores: Tensor, mask: Tensor | None = None, ties: Tensor | None = None) -> Tensor:
    """The index that sorts scores (*batch, n) in descending order, real entries first, padding last.

    Exactly tied scores are ordered by descending `ties`, and by place where those tie too or are not given.
    Padding keeps its order of places, whatever its scores are.

    >>> descending(torch.tensor([0.3, 9.0, 0.7]), mask=torch.tensor([True, False, True]))
    tensor([2, 0, 1])
    """
    if mask is not None:
        scores = scores.masked_fill(~mask, 0)
        ties = None if ties is None else ties.masked_fill(~mask, 0)
    if ties is None:
        index = torch.argsort(scores, dim=-1, descending=True, stable=True)
    else:
        scores, ties = torch.broadcast_tensors(scores, ties)
        first = torch.argsort(ties, dim=-1, descending=True, stable=True)
        index = first.gather(-1, torch.argsort(scores.gather(-1, first), dim=-1, descending=True, stable=True))
    if mask is None:
        return index
    real = mask.expand(index.shape).gather(-1, index).long()
    place = torch.where(real.bool(), real.cumsum(-1), real.sum(-1, keepdim=True) + (1 - real).cumsum(-1)) - 1
    return torch.empty_like(index).scatter_(-1, place, index)


def invert(index: Tensor) -> Tensor:
    """The inverse of every permutation, `invert(p)[p[j]] == j`.

    >>> invert(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    places = torch.arange(index.shape[-1], device=index.device).expand(index.shape)
    return torch.empty_like(index, memory_format=torch.contiguous_format).scatter_(-1, index, places)


def take(x: Tensor, index: Tensor, axis: int = -1, real: Tensor | None = None) -> Tensor:
    """`y[..., j, ...] = x[..., p[j], ...]` along `axis`, differentiable in x.

    Shapes: x (*batch, ..., n, ...), index (*batch, n); the result has the index's batch axes. Positions where
    the booleans `real`, broadcast to the index, are False come out as zero.

    >>> take(torch.tensor([10, 20, 30]), torch.tensor([2, 0, 1]))
    tensor([30, 10, 20])
    """
    return _Take.apply(x, index, resolve_axis(x, index, axis), real)


def resolve_axis(x: Tensor, index: Tensor, axis: int) -> int:
    """The axis as a number from the front, after checking that the index fits there."""
    batch = index.dim() - 1
    if index.is_floating_point() or index.is_complex() or index.dtype == torch.bool:
        raise DtypeError(f"Expected a permutation to be an integer index (got {index.dtype})")
    if not -x.dim() <= axis < x.dim() or axis % x.dim() < batch:
        raise ShapeError(f"Expected axis to follow {batch} batch axes in {x.dim()} axes (got {axis})")
    axis %= x.dim()
    if x.shape[axis] != index.shape[-1]:
        raise ShapeError(f"Expected size {index.shape[-1]} on axis {axis} (got {x.shape[axis]})")
    if any(size not in (1, want) for size, want in zip(x.shape[:batch], index.shape, strict=False)):
        raise ShapeError(
            f"Expected batch axes that broadcast to {tuple(index.shape[:-1])} (got {tuple(x.shape[:batch])})"
        )
    return axis


class _Take(torch.autograd.Function):
    """The transpose of a permutation is its inverse, so the backward pass is a gather too: no scatter-add."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, axis: int, real: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, real)
        ctx.axis, ctx.batch = axis, x.shape[: index.dim() - 1]
        y = _gather(x, index, axis)
        if real is not None:
            shape = [*real.shape[:-1], *(1 for _ in y.shape[real.dim() - 1 :])]
            shape[axis - y.dim()] = real.shape[-1]
            y.masked_fill_(~real.view(shape), 0)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        index, real = ctx.saved_tensors
        inverse = invert(index)
        if real is not None:
            real = real.expand(index.shape).gather(-1, inverse)
        gradient = _Take.apply(gradients[0], inverse, ctx.axis, real)
        shared = [axis for axis, size in enumerate(ctx.batch) if size != index.shape[axis]]
        return (gradient.sum(shared, keepdim=True) if shared else gradient), None, None, None


def _gather(x: Tensor, index: Tensor, axis: int) -> Tensor:
    batch, n = index.shape[:-1], index.shape[-1]
    before, after = x.shape[len(batch) : axis], x.shape[axis + 1 :]
    if after.numel() == 1:
        rows = index.view(*batch, *(1 for _ in before), n, *after)
        return x.expand(*batch, *x.shape[len(batch) :]).gather(axis, rows.expand(*batch, *before, n, *after))
    own = x.shape[: len(batch)]
    item = torch.arange(own.numel() * before.numel(), device=x.device).view(*own, before.numel(), 1)
    flat = item * n + index.unsqueeze(-2)
    moved = x.reshape(own.numel() * before.numel() * n, after.numel()).index_select(0, flat.reshape(-1))
    return moved.view(*batch, *before, n, *after)
