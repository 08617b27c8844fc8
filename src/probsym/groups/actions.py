"""What the verbs of groups are written with: products with matrices, and refusals of axes and elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, RangeError, ShapeError
from probsym.ops.argument_checks import readable
from probsym.ops.precision import full_precision

if TYPE_CHECKING:
    from probsym.groups.base import Axis, Group


def check_axis(x: Tensor, axis: Axis, batch: Sequence[int], size: int | None, group: Group) -> int:
    """`axis` counted from the front, after checking that it is one, follows the batch axes and has the right size."""
    if not isinstance(axis, int):
        hint = ", or kind='grid'" if "grid" in group.kinds else ""
        raise GroupError(f"Expected one axis for {group!r}{hint} (got {axis})")
    if not -x.dim() <= axis < x.dim() or axis % x.dim() < len(batch):
        raise ShapeError(f"Expected axis to follow {len(batch)} batch axes in {x.dim()} axes (got {axis})")
    axis %= x.dim()
    if size is not None and x.shape[axis] != size:
        raise ShapeError(f"Expected size {size} on axis {axis} for {group!r} (got {x.shape[axis]})")
    own = x.shape[: len(batch)]
    if any(found not in (1, wanted) for found, wanted in zip(own, batch, strict=True)):
        raise ShapeError(f"Expected batch axes that broadcast to {tuple(batch)} (got {tuple(own)})")
    return axis


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product in the dtype of its factors, whatever autocast says: elements must stay in the group.

    On a GPU, `torch.set_float32_matmul_precision` applies to it; leave that at "highest" where rounding matters.
    """
    if left.dtype != right.dtype:
        raise DtypeError(f"Expected two elements of one dtype (got {left.dtype} and {right.dtype})")
    with full_precision(left.device):
        return left @ right


def act_by_matrix(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """`x Q'` along an axis: matrix Q (*batch, d, d), x (*batch, ..., d, ...). Never below float32."""
    if not x.is_floating_point():
        raise DtypeError(f"Expected a floating tensor to rotate (got {x.dtype})")
    batch, d = matrix.dim() - 2, x.shape[axis]
    rows = x.movedim(axis, -1)
    dtype = torch.promote_types(torch.promote_types(matrix.dtype, x.dtype), torch.float32)
    flat = rows.reshape(*x.shape[:batch], rows.shape[batch:-1].numel(), d)
    moved = matmul(flat.to(dtype), matrix.mT.to(dtype))
    return moved.reshape(*matrix.shape[:batch], *rows.shape[batch:]).movedim(-1, axis).to(x.dtype)


def check_index(g: Tensor, group: Group, order: int | None = None) -> Tensor:
    """g, after checking that it holds indices, and on the CPU, if the order is given, that they are below that."""
    if g.dtype != torch.long:
        raise DtypeError(f"Expected an element of {group!r} to be an int64 index (got {g.dtype})")
    if order is not None and g.numel() and readable(g):
        low, high = (int(one) for one in g.aminmax())
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
