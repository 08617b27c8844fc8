"""Images rotated by any angle: bilinear sampling in the inscribed disc."""

from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, GroupError, ShapeError
from probsym.groups.base import Axis, Group
from probsym.groups.element_checks import check_axis
from probsym.ops.precision import at_least_float32


def grid_rows(x: Tensor, axis: Axis, batch: Sequence[int], group: Group) -> int:
    """The axis of an image's rows, counted from the front; its columns follow."""
    if isinstance(axis, int) or len(axis) != 2:
        raise GroupError(f"Expected a pair of axes for {group!r} on a grid (got {axis})")
    rows, columns = (check_axis(x, place, batch, None, group) for place in axis)
    if columns != rows + 1:
        raise ShapeError(f"Expected the two axes of a grid next to each other, rows first (got {axis})")
    return rows


def turn_image(matrix: Tensor, x: Tensor, rows: int) -> Tensor:
    """Move images x (*batch, ..., height, width, ...) by orthogonal matrices (*batch, 2, 2); zero outside the disc.

    The disc passes through the centres of the outermost pixels of the shorter side; each pixel inside it is
    interpolated from four pixels. So inverses and products of rotations hold only up to interpolation errors: for
    Gaussian spots with a standard deviation of four pixels, inside the disc, about 3 % of their height. Differentiable
    in both arguments, except at the kinks of the interpolation.

    >>> turn_image(torch.tensor([[0.0, -1.0], [1.0, 0.0]]), torch.arange(9.0).view(3, 3), 0)
    tensor([[0., 5., 0.],
            [1., 4., 7.],
            [0., 3., 0.]])
    """
    if not x.is_floating_point():
        raise DtypeError(f"Expected a floating image to turn by any angle (got {x.dtype})")
    batch, height, width = matrix.dim() - 2, x.shape[rows], x.shape[rows + 1]
    dtype = at_least_float32(torch.promote_types(x.dtype, matrix.dtype))
    right, up = (torch.arange(size, dtype=dtype, device=x.device) - (size - 1) / 2 for size in (width, height))
    place = torch.stack(torch.meshgrid(-up, right, indexing="ij")[::-1], -1).flatten(0, 1)
    inside = place.square().sum(-1) <= ((min(height, width) - 1) / 2) ** 2
    source = (place.unsqueeze(-2) * matrix.mT.unsqueeze(-3).to(dtype)).sum(-1)  # inverse(Q) p, (*batch, pixels, 2)
    column = (source[..., 0] + (width - 1) / 2).clamp(0, width - 1)
    row = ((height - 1) / 2 - source[..., 1]).clamp(0, height - 1)
    images = x.movedim((rows, rows + 1), (batch, batch + 1))
    rest = images.shape[batch + 2 :]
    flat = images.reshape(*images.shape[:batch], height * width, rest.numel()).to(dtype)
    flat = flat.expand(*matrix.shape[:batch], *flat.shape[batch:])
    total = torch.zeros((), dtype=dtype, device=x.device)
    for low, high in ((0, 0), (0, 1), (1, 0), (1, 1)):
        at_row, down = _neighbour(row, height, low)
        at_column, along = _neighbour(column, width, high)
        pixel = (at_row * width + at_column).unsqueeze(-1)
        total = total + flat.gather(batch, pixel.expand(*pixel.shape[:-1], flat.shape[-1])) * (down * along).unsqueeze(
            -1
        )
    turned = torch.where(inside.unsqueeze(-1), total, 0).to(x.dtype)
    turned = turned.view(*matrix.shape[:batch], height, width, *rest)
    return turned.movedim((batch, batch + 1), (rows, rows + 1))


def _neighbour(place: Tensor, size: int, side: int) -> tuple[Tensor, Tensor]:
    """The pixel before or after a position, and its interpolation weight."""
    before = place.detach().floor().clamp(max=max(size - 2, 0))
    share = place - before
    return (before.long() + side).clamp(max=size - 1), share if side else 1 - share
