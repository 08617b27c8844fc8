"""Matrices as elements: their product, and how they act on an axis."""

import math

import torch
from torch import Tensor

from probsym.errors import DtypeError
from probsym.ops.precision import at_least_float32, full_precision


def matmul(left: Tensor, right: Tensor) -> Tensor:
    """The matrix product in the dtype of its factors even under autocast, since elements must stay in the group.

    On a GPU, `torch.set_float32_matmul_precision` still applies; leave it at "highest" where rounding matters.
    """
    if left.dtype != right.dtype:
        raise DtypeError(f"Expected two elements of one dtype (got {left.dtype} and {right.dtype})")
    with full_precision(left.device):
        return left @ right


def act_by_matrix(matrix: Tensor, x: Tensor, axis: int) -> Tensor:
    """`x Q'` along an axis: matrix Q (*batch, d, d), x (*batch, ..., d, ...). Computed in float32 or better."""
    if not x.is_floating_point():
        raise DtypeError(f"Expected a floating tensor to rotate (got {x.dtype})")
    batch, d = matrix.dim() - 2, x.shape[axis]
    rows = x.movedim(axis, -1)
    dtype = at_least_float32(torch.promote_types(matrix.dtype, x.dtype))
    flat = rows.reshape(*x.shape[:batch], math.prod(rows.shape[batch:-1]), d)
    moved = matmul(flat.to(dtype), matrix.mT.to(dtype))
    return moved.reshape(*matrix.shape[:batch], *rows.shape[batch:]).movedim(-1, axis).to(x.dtype)
