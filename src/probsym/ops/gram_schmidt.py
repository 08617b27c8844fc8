"""Gram-Schmidt orthogonalisation, completed from noise where the columns do not span."""

from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.errors import DtypeError, RankError, ShapeError
from probsym.ops.permute import broadcasts
from probsym.ops.precision import at_least_float32

TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-8}


def gram_schmidt(features: Tensor, noise: Tensor | None = None) -> Tensor:
    """Orthonormalise the columns of Z (*batch, d, k), k <= d, from the first to the last.

    The projection of each column onto those before it is subtracted twice, so the result is orthonormal to rounding
    however nearly dependent the columns are. `gram_schmidt(Q Z) = Q gram_schmidt(Z)` for orthogonal Q.

    A column whose remainder is shorter than 1e-8 |Z| (float32: 1e-4 |Z|) is replaced by the same column of `noise`,
    Gaussian (*batch, d, k): the completion is then uniform, and equivariant if the noise moves with the input. A
    replaced column gets no gradient. Without noise such a column raises `RankError`. Half precision is computed and
    returned in float32.

    >>> gram_schmidt(torch.tensor([[3.0, 1.0], [0.0, -2.0]]))
    tensor([[ 1.,  0.],
            [ 0., -1.]])
    """
    _check(features, noise)
    precise = features.to(at_least_float32(features.dtype))
    scale = precise.detach().abs().amax((-2, -1), keepdim=True)
    precise = precise / torch.where(scale > 0, scale, 1)
    given = [precise] if noise is None else [precise, noise.to(precise.dtype).expand(precise.shape)]
    # (k, d, 1 or 2, rows): a few operations on long rows are faster than many small matrix products
    columns = torch.stack(given).reshape(len(given), -1, *features.shape[-2:]).permute(3, 2, 0, 1).contiguous()
    least = TOLERANCE[precise.dtype] ** 2 * columns[:, :, 0].detach().square().sum((0, 1))
    units: list[Tensor] = []
    for number in range(len(columns)):
        column = _remainder(columns[number], units)
        rest, *spare = column.unbind(1)
        square, *spare_square = (column * column).sum(0)
        missing = square <= least
        if noise is not None:
            rest, square = torch.where(missing, spare[0], rest), torch.where(missing, spare_square[0], square)
        elif missing.any():
            raise RankError(
                f"Expected column {number} of the features to be independent of those before it "
                f"(got {int(missing.sum())} of {missing.numel()} matrices without; give noise to complete them)"
            )
        units.append((rest / square.sqrt()).unsqueeze(1))
    return torch.cat(units, dim=1).permute(2, 0, 1).contiguous().view(features.shape)


def _remainder(column: Tensor, units: Sequence[Tensor]) -> Tensor:
    for unit in (*units, *units):
        column = torch.addcmul(column, unit, (unit * column).sum(0), value=-1)
    return column


def _check(features: Tensor, noise: Tensor | None) -> None:
    if not features.is_floating_point():
        raise DtypeError(f"Expected features to be floating (got {features.dtype})")
    if features.dim() < 2 or not 1 <= features.shape[-1] <= features.shape[-2]:
        raise ShapeError(f"Expected features (*batch, d, k) with 1 <= k <= d (got {tuple(features.shape)})")
    if noise is not None and not broadcasts(noise.shape, features.shape, fixed=2):
        raise ShapeError(f"Expected noise to broadcast to {tuple(features.shape)} (got {tuple(noise.shape)})")
