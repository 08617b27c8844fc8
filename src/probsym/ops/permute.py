"""Permutations as index vectors: find them, invert them, move tensors by them. No matrix is built.

An index p (*batch, n) puts item `x[p[j]]` at position j. A tensor x (*batch, ...) has the same leading batch
axes, each of equal size or of size 1; a batch axis of size 1 is shared, so that K draws read one input.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from probsym.errors import DtypeError, ShapeError

BLOCK = 1 << 18
"""Entries of a tensor that are moved along two axes at a time: a megabyte of float32."""


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


def take(x: Tensor, index: Tensor, axis: int | Sequence[int] = -1, real: Tensor | None = None) -> Tensor:
    """`y[..., j, ...] = x[..., p[j], ...]` along `axis`, or along each of several axes; differentiable in x.

    Shapes: x (*batch, ..., n, ...), index (*batch, n); the result has the index's batch axes. Positions where
    the booleans `real`, broadcast to the index, are False come out as zero.

    >>> take(torch.tensor([10, 20, 30]), torch.tensor([2, 0, 1]))
    tensor([30, 10, 20])
    >>> take(torch.tensor([[11, 12], [21, 22]]), torch.tensor([1, 0]), axis=(0, 1))
    tensor([[22, 21],
            [12, 11]])
    """
    axes = [axis] if isinstance(axis, int) else axis
    return _Take.apply(x, index, tuple(resolve_axis(x, index, one) for one in axes), real)


def resolve_axis(x: Tensor, index: Tensor, axis: int) -> int:
    """The axis as a number from the front, after checking that the index fits there."""
    batch = index.dim() - 1
    if index.dtype != torch.long:
        raise DtypeError(f"Expected a permutation to be an int64 index (got {index.dtype})")
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


def broadcasts(shape: Sequence[int], target: Sequence[int], fixed: int = 1) -> bool:
    """Whether a shape broadcasts to the target; the last `fixed` axes must be equal outright."""
    if len(shape) > len(target) or list(shape[-fixed:]) != list(target[-fixed:]):
        return False
    return all(size in (1, want) for size, want in zip(reversed(shape), reversed(target), strict=False))


class _Take(torch.autograd.Function):
    """The transpose of a permutation is its inverse, so the backward pass is a gather too: no scatter-add."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, axes: tuple[int, ...], real: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, real)
        ctx.axes, ctx.batch = axes, x.shape[: index.dim() - 1]
        y = _gather_axes(x, index, axes)
        if real is not None:
            for axis in axes:
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
        gradient = _Take.apply(gradients[0], inverse, ctx.axes, real)
        shared = [axis for axis, size in enumerate(ctx.batch) if size != index.shape[axis]]
        return (gradient.sum(shared, keepdim=True) if shared else gradient), None, None, None


def _gather_axes(x: Tensor, index: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Gather along one axis after the other; on a CPU block by block, so that what lies between stays in its cache."""
    batch = index.shape[:-1]
    if len(axes) == 2 and len(batch) > 0 and x.device.type == "cpu" and not torch.compiler.is_compiling():
        y = x.new_empty(*batch, *x.shape[len(batch) :])
        step = max(1, BLOCK // max(y[:1].numel(), 1))
        between = torch.empty_like(y[:step])
        for start in range(0, batch[0], step):
            block = slice(start, start + step)
            rows = index[block]
            half = _gather(x if x.shape[0] == 1 else x[block], rows, axes[0], out=between[: len(rows)])
            _gather(half, rows, axes[1], out=y[block])
        return y
    for axis in axes:
        x = _gather(x, index, axis)
    return x


def _gather(x: Tensor, index: Tensor, axis: int, out: Tensor | None = None) -> Tensor:
    batch, n = index.shape[:-1], index.shape[-1]
    before, after = x.shape[len(batch) : axis], x.shape[axis + 1 :]
    if after.numel() == 1:
        rows = index.view(*batch, *(1 for _ in before), n, *after)
        x = x.expand(*batch, *x.shape[len(batch) :])
        return torch.gather(x, axis, rows.expand(*batch, *before, n, *after), out=out)
    own = x.shape[: len(batch)]
    item = torch.arange(own.numel() * before.numel(), device=x.device).view(*own, before.numel(), 1)
    flat = (item * n + index.unsqueeze(-2)).reshape(-1)
    table = x.reshape(own.numel() * before.numel() * n, after.numel())
    target = None if out is None else out.view(flat.numel(), after.numel())
    return torch.index_select(table, 0, flat, out=target).view(*batch, *before, n, *after)
