"""Gram-Schmidt orthogonalisation, completed from noise where the columns do not span."""

import torch
from torch import Tensor

from probsym.errors import DtypeError, RankError, ShapeError
from probsym.ops.permute import broadcasts
from probsym.ops.precision import full_precision

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
    features = features.to(torch.promote_types(features.dtype, torch.float32))
    scale = features.detach().abs().amax((-2, -1), keepdim=True)
    features = features / torch.where(scale > 0, scale, 1)
    least = TOLERANCE[features.dtype] * torch.linalg.matrix_norm(features.detach())
    frame = features[..., :0]
    with full_precision(features.device):
        for column in range(features.shape[-1]):
            rest = _remainder(features[..., column, None], frame)
            missing = torch.linalg.vector_norm(rest.detach(), dim=(-2, -1)) <= least
            if noise is not None:
                spare = _remainder(noise[..., column, None].to(features.dtype), frame)
                rest = torch.where(missing[..., None, None], spare, rest)
            elif missing.any():
                raise RankError(
                    f"Expected column {column} of the features to be independent of those before it "
                    f"(got {int(missing.sum())} of {missing.numel()} matrices without; give noise to complete them)"
                )
            frame = torch.cat([frame, rest / torch.linalg.vector_norm(rest, dim=-2, keepdim=True)], dim=-1)
    return frame


def _remainder(column: Tensor, frame: Tensor) -> Tensor:
    if frame.shape[-1] == 0:
        return column
    for _ in range(2):
        column = column - frame @ (frame.mT @ column)
    return column


def _check(features: Tensor, noise: Tensor | None) -> None:
    if not features.is_floating_point():
        raise DtypeError(f"Expected features to be floating (got {features.dtype})")
    if features.dim() < 2 or not 1 <= features.shape[-1] <= features.shape[-2]:
        raise ShapeError(f"Expected features (*batch, d, k) with 1 <= k <= d (got {tuple(features.shape)})")
    if noise is not None and not broadcasts(noise.shape, features.shape, fixed=2):
        raise ShapeError(f"Expected noise to broadcast to {tuple(features.shape)} (got {tuple(noise.shape)})")
