"""Checks of elements, and of what they act on, that several groups share."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, RangeError, ShapeError
from probsym.groups.base import Axis, Group
from probsym.ops.argument_checks import readable


def check_axis(x: Tensor, axis: Axis, batch: Sequence[int], size: int | None, group: Group) -> int:
    """`axis` counted from the front, after checking that it exists, follows the batch axes and has the right size."""
    if not isinstance(axis, int):
        hint = ", or kind='grid'" if "grid" in group.kinds else ""
        raise GroupError(f"Expected one axis for {group!r}{hint} (got {axis})")
    if not -x.dim() <= axis < x.dim() or axis % x.dim() < len(batch):
        raise ShapeError(f"Expected axis to follow {len(batch)} batch axes in {x.dim()} axes (got {axis})")
    axis %= x.dim()
    if size is not None and x.shape[axis] != size:
        raise ShapeError(f"Expected size {size} on axis {axis} for {group!r} (got {x.shape[axis]})")
    own = x.shape[: len(batch)]
    if any(length not in (1, wanted) for length, wanted in zip(own, batch, strict=True)):
        raise ShapeError(f"Expected batch axes that broadcast to {tuple(batch)} (got {tuple(own)})")
    return axis


def check_index(g: Tensor, group: Group, order: int | None = None) -> Tensor:
    """g, after checking that it holds indices and, on the CPU if the order is given, that they are below the order."""
    if g.dtype != torch.long:
        raise DtypeError(f"Expected an element of {group!r} to be an int64 index (got {g.dtype})")
    if order is not None and g.numel() and readable(g):
        low, high = (int(bound) for bound in g.aminmax())
        if low < 0 or high >= order:
            raise RangeError(f"Expected elements of {group!r} from 0 to {order - 1} (got {low if low < 0 else high})")
    return g


def check_parameter(value: int, what: str) -> None:
    """Refuse a dimension or a number of rotations that is not a positive whole number."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise GroupError(f"Expected the {what} to be 1 or more (got {value})")


def joint_batch(batch: Sequence[int], own: Sequence[int], what: str) -> tuple[int, ...]:
    """The batch axes asked for, together with those of a mask or centroid, which must broadcast to them."""
    try:
        joint = tuple(torch.broadcast_shapes(tuple(batch), tuple(own)))
    except RuntimeError:
        joint = ()
    if len(joint) < max(len(batch), len(own)) or (len(batch) > 0 and joint != tuple(batch)):
        raise ShapeError(f"Expected the batch axes of {what} to broadcast to {tuple(batch)} (got {tuple(own)})")
    return joint
