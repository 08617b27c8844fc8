"""Permutations as index vectors: find them, invert them, move tensors by them. No matrix is built.

An index p (*batch, n) puts item `x[p[j]]` at position j. A tensor x (*batch, ...) has the same leading batch
axes, each of equal size or of size 1; a batch axis of size 1 is shared, so that K draws read one input.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from probsym.errors import DeviceError, DtypeError, RangeError, ShapeError
from probsym.ops.argument_checks import readable
from probsym.ops.transforms import traced, transformed

BLOCK = 1 << 20
"""Entries of a tensor that are moved along two axes at a time: four megabytes of float32."""


def descending(scores: Tensor, mask: Tensor | None = None, ties: Tensor | None = None) -> Tensor:
    """The index that sorts scores (*batch, n) in descending order, real entries first, padding last.

    Exactly tied scores are ordered by descending `ties`, and keep their order where those tie too or are not given.
    Padding keeps its order, whatever its scores are.

    >>> descending(torch.tensor([0.3, 9.0, 0.7]), mask=torch.tensor([True, False, True]))
    tensor([2, 0, 1])
    """
    check_order(scores, mask, ties)
    if mask is not None:
        lowest = torch.finfo(scores.dtype).min  # so that any real score, NaN and minus infinity too, beats padding
        scores = torch.where(mask, scores.nan_to_num(nan=lowest, posinf=torch.inf, neginf=lowest), -torch.inf)
        ties = None if ties is None else torch.where(mask, ties, 0)
    if ties is not None:
        scores, ties = torch.broadcast_tensors(scores, ties)
    compiled = scores.is_cuda and torch.compiler.is_dynamo_compiling()
    return (_opaque_argsort if compiled else _argsort)(scores, ties)


def _argsort(scores: Tensor, ties: Tensor | None) -> Tensor:
    """Descending, equal scores by descending ties, which are alike in shape, and by place after that."""
    if ties is None:
        return _stable_argsort(scores)
    first = _stable_argsort(ties)
    return first.gather(-1, _stable_argsort(scores.gather(-1, first)))


def _stable_argsort(scores: Tensor) -> Tensor:
    """Descending, equal scores by place.

    On a CPU, float32 scores are sorted as integers that hold the score's bits above its place: the vectorised sort
    of numpy is faster than carrying an index along.
    """
    scores = scores.contiguous()
    if not (readable(scores) and scores.dtype == torch.float32):
        return torch.argsort(scores, dim=-1, descending=True, stable=True)
    bits = (scores.detach().numpy() + np.float32(0)).view(np.int32)  # adding zero makes -0 the same as 0
    bits ^= (bits >> 31) & 0x7FFFFFFF  # the order of the floats, now as integers
    keys = np.invert(bits, out=bits).astype(np.int64)
    keys <<= 32
    keys += np.arange(scores.shape[-1])
    keys.sort(axis=-1)
    keys &= 0xFFFFFFFF
    return torch.from_numpy(keys)


@torch.library.custom_op("probsym::argsort", mutates_args=())
def _opaque_argsort(scores: Tensor, ties: Tensor | None) -> Tensor:
    """For compilers, which are not to look inside.

    On a GPU they write a sort of their own and take long over it, and put the steps that follow it into everything that
    reads the index. Only `torch.func.grad` cannot be compiled around it.
    """
    return _argsort(scores, ties)


@_opaque_argsort.register_fake
def _(scores: Tensor, ties: Tensor | None) -> Tensor:
    return scores.new_empty(scores.shape, dtype=torch.long)


@_opaque_argsort.register_vmap
def _(info: Any, in_dims: tuple[int | None, int | None], scores: Tensor, ties: Tensor | None) -> tuple[Tensor, int]:
    scores = scores if in_dims[0] is None else scores.movedim(in_dims[0], 0)
    ties = ties if ties is None or in_dims[1] is None else ties.movedim(in_dims[1], 0)
    if ties is not None:
        scores, ties = torch.broadcast_tensors(scores, ties)
    return _opaque_argsort(scores, ties), 0


def invert(index: Tensor) -> Tensor:
    """The inverse of every permutation, `invert(p)[p[j]] == j`.

    >>> invert(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    check_permutation(index)
    return inverted(index)


def inverted(index: Tensor) -> Tensor:
    """`invert` for an index that is known to be a permutation."""
    places = torch.arange(index.shape[-1], device=index.device).expand(index.shape)
    return index.scatter(-1, index, places)


def take(x: Tensor, index: Tensor, axis: int | Sequence[int] = -1, keep: Tensor | None = None) -> Tensor:
    """`y[..., j, ...] = x[..., p[j], ...]` along `axis`, or along each of several axes; differentiable in x.

    Shapes: x (*batch, ..., n, ...), index (*batch, n); the result has the index's batch axes. Items of x where
    `keep`, booleans that broadcast to the index, is False are read as zero. The index must be a permutation, or the
    gradient would be wrong; this is checked on the CPU only.

    >>> take(torch.tensor([10, 20, 30]), torch.tensor([2, 0, 1]))
    tensor([30, 10, 20])
    >>> take(torch.tensor([[11, 12], [21, 22]]), torch.tensor([1, 0]), axis=(0, 1))
    tensor([[22, 21],
            [12, 11]])
    """
    resolve_axes(x, index, axis)
    check_permutation(index)
    return moved(x, index, axis, keep)


def moved(x: Tensor, index: Tensor, axis: int | Sequence[int] = -1, keep: Tensor | None = None) -> Tensor:
    """`take` by an index that is known to be a permutation."""
    axes = resolve_axes(x, index, axis)
    if torch.is_grad_enabled() and x.requires_grad and not transformed():
        return _Take.apply(x, index, axes, keep)
    return _gather_axes(kept(x, keep, axes), index, axes)


def kept(x: Tensor, keep: Tensor | None, axes: tuple[int, ...]) -> Tensor:
    """x with zeros for the items that are not to be kept, on any of the axes; keep (*batch, n), or (n,) for all."""
    if keep is None:
        return x
    every: Tensor | None = None  # all axes in one pass over x, which may be large
    for axis in axes:
        shape = [*keep.shape[:-1], *(1 for _ in x.shape[keep.dim() - 1 :])]
        shape[axis - x.dim()] = keep.shape[-1]
        here = keep.view(shape)
        every = here if every is None else every & here
    return x if every is None else torch.where(every, x, x.new_zeros(()))


def resolve_axes(x: Tensor, index: Tensor, axis: int | Sequence[int]) -> tuple[int, ...]:
    """One axis or several as numbers from the front, checked that the index fits each and none is named twice."""
    axes = tuple(resolve_axis(x, index, place) for place in ([axis] if isinstance(axis, int) else axis))
    if len(set(axes)) < len(axes):
        raise ShapeError(f"Expected different axes (got {axis})")
    return axes


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


def check_permutation(index: Tensor) -> None:
    """Refuse an index (*batch, n) that does not hold each number below n once; on the CPU only, without a wait."""
    if index.dim() < 1 or index.dtype != torch.long:
        raise DtypeError(
            f"Expected a permutation to be an int64 index (*batch, n) (got {index.dtype}, {index.dim()} axes)"
        )
    if not readable(index) or index.numel() == 0:
        return
    low, high = (int(bound) for bound in index.aminmax())
    if low < 0 or high >= index.shape[-1]:
        raise RangeError(f"Expected a permutation of 0 to {index.shape[-1] - 1} (got {low} to {high})")
    if not bool((inverted(index).gather(-1, index) == torch.arange(index.shape[-1])).all()):
        raise RangeError("Expected a permutation, with each place once (got one more than once)")


def check_order(scores: Tensor, mask: Tensor | None, ties: Tensor | None) -> None:
    """Refuse scores (*batch, n) that cannot be sorted, and masks or tie-breaks that do not fit them."""
    if not scores.is_floating_point():
        raise DtypeError(f"Expected scores to be floating (got {scores.dtype})")
    if scores.dim() < 1 or scores.shape[-1] < 1:
        raise ShapeError(f"Expected scores (*batch, n) with n at least 1 (got {tuple(scores.shape)})")
    for name, other in (("mask", mask), ("ties", ties)):
        if other is not None and not broadcasts(other.shape, scores.shape):
            raise ShapeError(f"Expected {name} to broadcast to {tuple(scores.shape)} (got {tuple(other.shape)})")
        if other is not None and other.device != scores.device:
            raise DeviceError(f"Expected {name} to be on {scores.device} like the scores (got {other.device})")
    if mask is not None and mask.dtype != torch.bool:
        raise DtypeError(f"Expected mask to be boolean (got {mask.dtype})")


def broadcasts(shape: Sequence[int], target: Sequence[int], fixed: int = 1) -> bool:
    """Whether a shape fits the target: the last `fixed` axes equal, the others all there, equal or 1, or all absent.

    A shape with only some of the batch axes is refused, since it could mean the first or the last of them.
    """
    if len(shape) not in (fixed, len(target)) or list(shape[-fixed:]) != list(target[-fixed:]):
        return False
    return all(size in (1, want) for size, want in zip(reversed(shape), reversed(target), strict=False))


class _Take(torch.autograd.Function):
    """The transpose of a permutation is its inverse, so the backward pass is a gather too: no scatter-add."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, index: Tensor, axes: tuple[int, ...], keep: Tensor | None) -> Tensor:
        ctx.save_for_backward(index, keep)
        ctx.axes, ctx.batch = axes, x.shape[: index.dim() - 1]
        return _gather_axes(kept(x, keep, axes), index, axes)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        index, keep = ctx.saved_tensors
        gradient = kept(moved(gradients[0], inverted(index), ctx.axes), keep, ctx.axes)
        shared = [axis for axis, size in enumerate(ctx.batch) if size != index.shape[axis]]
        return (gradient.sum(shared, keepdim=True) if shared else gradient), None, None, None


def _gather_axes(x: Tensor, index: Tensor, axes: tuple[int, ...]) -> Tensor:
    batch = index.dim() - 1
    if x.is_cuda and torch.compiler.is_compiling() and sorted(axes) == list(range(batch, batch + len(axes))):
        return _index(x, index, len(axes))
    if len(axes) == 2 and batch > 0 and x.device.type == "cpu" and not traced():
        entries = math.prod(index.shape[:-1]) * math.prod(x.shape[batch:])
        if entries > BLOCK:
            return _gather_pair(x, index, min(axes), max(axes), blocks=-(-entries // BLOCK))
    for axis in sorted(axes):
        x = _gather(x, index, axis)
    return x


def _index(x: Tensor, index: Tensor, count: int) -> Tensor:
    """Gather along as many axes as `count` says, right behind the batch, at once.

    Of this compilers for GPUs make one plain read for each entry. For what is read through a table of rows they divide
    to find its place, again and again.
    """
    batch, n = index.dim() - 1, index.shape[-1]

    def alone(size: int, axis: int, axes: int) -> list[int]:
        return [size if i == axis else 1 for i in range(axes)]

    own = (
        torch.arange(size, device=x.device).view(alone(size, i, batch + count))
        for i, size in enumerate(x.shape[:batch])
    )
    return x[(*own, *(index.view(*index.shape[:batch], *alone(n, i, count)) for i in range(count)))]


def _gather_pair(x: Tensor, index: Tensor, first: int, second: int, blocks: int) -> Tensor:
    """Gather along two axes block by block, so that what lies between them stays in the processor's cache."""
    batch = index.shape[:-1]
    table, flat = _row_table(x, index, first)
    flat = flat.reshape(batch[0], -1)
    y = x.new_empty(*batch, *x.shape[len(batch) :])
    step = -(-batch[0] // blocks)
    between = torch.empty_like(y[:step])
    for start in range(0, batch[0], step):
        rows = flat[start : start + step]
        half = between[: len(rows)]
        torch.index_select(table, 0, rows.view(-1), out=half.view(rows.numel(), table.shape[1]))
        _gather(half, index[start : start + step], second, out=y[start : start + step])
    return y


def _gather(x: Tensor, index: Tensor, axis: int, out: Tensor | None = None) -> Tensor:
    batch, n = index.shape[:-1], index.shape[-1]
    before, after = x.shape[len(batch) : axis], x.shape[axis + 1 :]
    if math.prod(after) == 1:
        rows = index.view(*batch, *(1 for _ in before), n, *after)
        x = x.expand(*batch, *x.shape[len(batch) :])
        return torch.gather(x, axis, rows.expand(*batch, *before, n, *after), out=out)
    table, flat = _row_table(x, index, axis)
    target = None if out is None else out.view(flat.numel(), table.shape[1])
    return torch.index_select(table, 0, flat.reshape(-1), out=target).view(*batch, *before, n, *after)


def _row_table(x: Tensor, index: Tensor, axis: int) -> tuple[Tensor, Tensor]:
    """x as a table whose rows lie behind `axis`, and which row comes to each place: (*batch, before, n)."""
    batch, n = index.shape[:-1], index.shape[-1]
    own, before, after = x.shape[: len(batch)], math.prod(x.shape[len(batch) : axis]), math.prod(x.shape[axis + 1 :])
    rows = math.prod(own) * before * n  # not `numel`, which would make one number of a size that is traced
    first = torch.arange(0, rows, n, device=x.device).view(*own, before, 1)
    return x.reshape(rows, after), first + index.unsqueeze(-2)
