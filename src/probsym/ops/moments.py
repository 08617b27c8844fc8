"""What two arrays have in common, item by item: all pairs of items, summed over everything else."""

from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import ShapeError


@torch.library.custom_op("probsym::moments", mutates_args=())
def moments(left: Tensor, right: Tensor, axes: Sequence[int], n: int) -> Tensor:
    """`M[r, i, j]`: products of left at i and right at j on an axis, summed over all other axes, then over the axes.

    Shapes: left and right (rows, ..., n, ...) alike, in low precision; the result is float32 (rows, n, n). Products of
    numbers in low precision are exact in float32, so nothing is lost but by summing. For an axis right after the
    rows, or at the end, contiguous arrays are not copied. An axis may have more than n items if those are zeros: then
    rows can begin at multiples of 16 bytes, as the products of a GPU like them.

    It is an operation of its own since compilers do not know products of one precision with results in another.

    >>> x = torch.tensor([[[1.0, 2.0, 0.0], [3.0, 4.0, 0.0]]]).bfloat16()
    >>> moments(x, x, [1], n=2)
    tensor([[[ 5., 11.],
             [11., 25.]]])
    >>> moments(x, x, [2], n=2)
    tensor([[[10., 14.],
             [14., 20.]]])
    """
    if any(left.shape[axis] < n for axis in axes):
        raise ShapeError(f"Expected axes {list(axes)} with {n} items at least (got {tuple(left.shape)})")
    total: Tensor | None = None
    for axis in axes:
        last = axis in (-1, left.dim() - 1)
        left_matrix, right_matrix = (
            x.flatten(1, -2).mT if last else x.movedim(axis, 1).flatten(2) for x in (left, right)
        )
        product = _product(left_matrix, right_matrix.mT)[:, :n, :n]
        total = product.contiguous() if total is None else total.add_(product)
    assert total is not None
    return total


@moments.register_fake
def _(left: Tensor, right: Tensor, axes: Sequence[int], n: int) -> Tensor:
    return left.new_empty(left.shape[0], n, n, dtype=torch.float32)


def _product(left: Tensor, right: Tensor) -> Tensor:
    with torch.autocast(left.device.type, enabled=False):
        if left.is_cuda:
            return torch.bmm(left, right, out_dtype=torch.float32)
        return torch.bmm(left.float(), right.float())
