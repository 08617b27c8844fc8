"""Vector neurons on a graph of nearest neighbours: scores and rotations from a set of points."""

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from probsym._internal.checks import check_size
from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import DtypeError, RangeError, ShapeError
from probsym.nets.edge_convolution import EdgeConvolution
from probsym.nets.features import Features, check_alike, check_dropout, check_input, check_mask
from probsym.nets.vector_neurons import VectorLeakyReLU, VectorLinear, VectorMaxPool
from probsym.ops.gram_schmidt import TOLERANCE
from probsym.ops.precision import full_precision


class VNDGCNN(RemembersArguments, nn.Module):
    """Scores for S_n and d vectors for O(d) from n points, each with `in_channels` vectors in d dimensions.

    Two convolutions over the edges (x_j - x_i, x_i) from each point to its nearest `neighbours`, itself among them,
    have `hidden // 3` vectors a point. The first, pooled over the points, gives d vectors. For the scores, both are
    joined with their mean over the points; d vectors z_i, made from that, turn it into numbers <x_i, z_i> that no
    rotation changes, which are scored together with their maximum over the points.

    `forward(*vectors, mask=None)`: `in_channels` tensors (B, K, n, d) or (B, n, d), mask booleans (B, n). scores
    (B, K, n), zero on padding; vectors (B, K, d, d), the columns following the input as Q Z. A column that vanishes by
    the input's symmetry is exactly zero. Neighbours at the same distance are all used, as long as there are at most
    16 points or 8 such neighbours.

    Dropout takes whole vectors out of the second convolution, so it acts on the scores and never on the frame.

    >>> net = VNDGCNN(in_channels=2)
    >>> features = net(torch.randn(8, 20, 5, 3), torch.randn(8, 20, 5, 3))
    >>> features.scores.shape, features.vectors.shape
    (torch.Size([8, 20, 5]), torch.Size([8, 20, 3, 3]))
    """

    def __init__(
        self,
        in_channels: int,
        hidden: int = 96,
        neighbours: int = 4,
        dropout: float = 0.0,
        *,
        d: int = 3,
        scores: bool = True,
        vectors: bool = True,
    ) -> None:
        super().__init__()
        check_size(in_channels, "in_channels")
        check_size(hidden, "hidden", least=6)
        check_size(neighbours, "neighbours")
        check_size(d, "d")
        check_dropout(dropout)
        if not (scores or vectors):
            raise RangeError("Expected scores, vectors or both (got neither)")
        self.perturbs = tuple(range(in_channels))
        self.extra_noise = 0
        self.in_channels, self.neighbours, self.dropout, self.d = in_channels, neighbours, dropout, d
        h = hidden // 3
        self.first = EdgeConvolution(in_channels, h, neighbours, least=0.0)
        self.frame = _Frame(h, d) if vectors else None
        self.second = EdgeConvolution(h, h, neighbours) if scores else None
        self.score = _Score(h, d) if scores else None

    def forward(self, *vectors: Tensor, mask: Tensor | None = None) -> Features:
        x = self._joined(vectors)
        check_mask(mask, x)
        with full_precision(x.device):
            return self._features(x, mask, draws=any(one.dim() == 4 for one in vectors))

    def _features(self, x: Tensor, mask: Tensor | None, draws: bool) -> Features:
        shape, n = x.shape[: 2 if draws else 1], x.shape[2]
        real = None
        if mask is not None:
            real = mask.unsqueeze(1).expand(x.shape[:3]).flatten(0, 1)
        x = x.flatten(0, 1).movedim(2, 0)
        if real is not None:
            x = torch.where(real.unsqueeze(-1), x, 0)
        first = self.first(x, real)
        frame = None if self.frame is None else self.frame(first, real).view(*shape, self.d, self.d)
        if self.second is None or self.score is None:
            return Features(vectors=frame)
        second = self._drop(self.second(first, real))
        scores = self.score(torch.cat([first, second], dim=-1), real)
        return Features(scores=scores.view(*shape, n), vectors=frame)

    def _joined(self, vectors: tuple[Tensor, ...]) -> Tensor:
        if len(vectors) != self.in_channels:
            raise ShapeError(f"Expected {self.in_channels} inputs, one for each channel (got {len(vectors)})")
        found = [check_input(x, f"input {i}", self.d) for i, x in enumerate(vectors)]
        for i, x in enumerate(found[1:], start=1):
            check_alike(x, found[0], f"input {i}")
        if found[0].dtype not in TOLERANCE:
            raise DtypeError(f"Expected inputs in float32 or float64 (got {found[0].dtype})")
        return torch.stack(torch.broadcast_tensors(*found), dim=-1)

    def _drop(self, x: Tensor) -> Tensor:
        """Drop whole vectors: a part of one would not rotate with the rest."""
        if not self.training or self.dropout == 0:
            return x
        return x * drop(torch.ones_like(x[0]), self.dropout)


class _Frame(nn.Module):
    def __init__(self, h: int, d: int) -> None:
        super().__init__()
        self.pool, self.linear = VectorMaxPool(h), VectorLinear(h, d)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        columns = self.linear(self.pool(x.transpose(1, 2), None if real is None else real.T))
        with torch.no_grad():
            size = torch.linalg.vector_norm(x, dim=(0, 3)).amax(1, keepdim=True).clamp_min(x.shape[-1] ** 0.5)
            least = TOLERANCE[x.dtype] * size * torch.linalg.vector_norm(self.linear.weight, dim=-1)
            here = torch.linalg.vector_norm(columns, dim=0) > least
        return torch.where(here, columns, 0).transpose(0, 1)


class _Score(nn.Module):
    def __init__(self, h: int, d: int) -> None:
        super().__init__()
        self.join = VectorLeakyReLU(2 * h, h, shared=True)
        self.narrow, self.narrower = VectorLeakyReLU(2 * h, h), VectorLeakyReLU(h, h // 2)
        self.standard = VectorLinear(h // 2, d)
        self.head = nn.Linear(4 * h * d, 1)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        joined = self.join(x, real)
        if real is None:
            mean = joined.mean(2, keepdim=True)
        else:
            # padding is zero in x and so in what is made of it
            mean = joined.sum(2, keepdim=True) / real.sum(1).clamp_min(1)[:, None, None]
        joined = torch.cat([joined, mean.expand_as(joined)], dim=-1)
        standard = self.standard(self.narrower(self.narrow(joined, real), real))
        shared, own = (_products(one, standard) for one in (joined, x))
        if real is not None:
            shared = torch.where(real.unsqueeze(-1), shared, -torch.inf)
        most = shared.amax(1)
        if real is not None:
            most = torch.where(real.any(1, keepdim=True), most, 0)
        for_all, for_each = self.head.weight.split(own.shape[-1], dim=-1)
        scores = (most @ for_all.T + (own @ for_each.T).squeeze(-1)) + self.head.bias
        return scores if real is None else torch.where(real, scores, 0)


def _products(x: Tensor, standard: Tensor) -> Tensor:
    """All inner products at each point, (rows, n, channels * d): x (d, rows, n, channels), standard (d, rows, n, d)."""
    return torch.einsum("drnf,drnv->rnfv", x, standard).flatten(2)
