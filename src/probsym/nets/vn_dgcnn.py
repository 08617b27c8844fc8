"""Vector neurons on a graph of nearest neighbours: scores and rotations from a set of points."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from probsym._internal.remembers_arguments import RemembersArguments
from probsym.errors import DtypeError, RangeError, ShapeError, SignatureError
from probsym.groups import Group
from probsym.nets.bent_vectors import inner
from probsym.nets.edge_convolution import EdgeConvolution
from probsym.nets.features import Features, check_alike, check_input, check_mask, misread
from probsym.nets.row_blocks import in_blocks
from probsym.nets.vector_neurons import VectorLeakyReLU, VectorLinear, VectorMaxPool, linear_maps
from probsym.ops.argument_checks import check_rate, check_size
from probsym.ops.gram_schmidt import TOLERANCE
from probsym.ops.precision import full_precision
from probsym.signature import Term


class VNDGCNN(RemembersArguments, nn.Module):
    """Scores for S_n and d vectors for O(d) from n points, each with `in_channels` vectors in d dimensions.

    Two edge convolutions, over the pairs (x_j - x_i, x_i) of each point and its nearest `neighbours`, itself included,
    compute `hidden // 3` vectors per point. Pooling the first over the points gives the d vectors. For the scores, the
    outputs of both are concatenated with their mean over the points; inner products <x_i, z_i> with d vectors z_i, also
    computed from these, give invariant numbers, which are scored together with their maximum over the points.

    `forward(*vectors, mask=None)`: `in_channels` tensors (B, K, n, d) or (B, n, d), mask booleans (B, n). Returns
    scores (B, K, n), zero on padding, and vectors (B, K, d, d), whose columns rotate with the input (Z becomes Q Z). A
    column that vanishes by the input's symmetry is exactly zero. Neighbours at the same distance are all used, as long
    as there are at most 16 points or 8 such neighbours.

    With `scalars`, each point also has that many rotation-invariant numbers, such as a charge or a one-hot type. They
    are passed after the vectors, as tensors (B, n, c) or (B, K, n, c) with `scalars` channels in total, and get no
    noise. They weight the edges, so both scores and vectors depend on them, and are also added to the scores by a
    linear map.

    Dropout removes whole vectors from the second convolution, so it affects the scores but never the frame.

    >>> net = VNDGCNN(in_channels=2)
    >>> features = net(torch.randn(8, 20, 5, 3), torch.randn(8, 20, 5, 3))
    >>> features.scores.shape, features.vectors.shape
    (torch.Size([8, 20, 5]), torch.Size([8, 20, 3, 3]))
    >>> VNDGCNN(in_channels=1, scalars=4)(torch.randn(8, 20, 5, 3), torch.rand(8, 5, 4)).scores.shape
    torch.Size([8, 20, 5])
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
        scalars: int = 0,
    ) -> None:
        super().__init__()
        check_size(in_channels, "in_channels")
        check_size(hidden, "hidden", least=6)
        check_size(neighbours, "neighbours")
        check_size(d, "d")
        check_size(scalars, "scalars", least=0)
        check_rate(dropout, "dropout")
        if not (scores or vectors):
            raise RangeError("Expected scores, vectors or both (got neither)")
        self.perturbs = tuple(range(in_channels))
        self.extra_noise = 0
        self.feature_fields = tuple(name for name, wanted in (("scores", scores), ("vectors", vectors)) if wanted)
        self.in_channels, self.neighbours, self.dropout, self.d = in_channels, neighbours, dropout, d
        self.scalars = scalars
        h = hidden // 3
        self.first = EdgeConvolution(in_channels, h, neighbours, least=0.0, scalars=scalars)
        self.frame = _Frame(h, d) if vectors else None
        self.second = EdgeConvolution(h, h, neighbours, scalars=scalars) if scores else None
        self.score = _Score(h, d) if scores else None
        self.score_scalars = nn.Linear(scalars, 1, bias=False) if scores and scalars else None

    def check_terms(self, terms: Sequence[Term], groups: Mapping[str, Group]) -> None:
        """Refuse inputs other than `in_channels` terms of vectors, 'n d', followed by any scalars, 'n c'."""
        turning = {key for key, group in groups.items() if group.linear.feature_field == "vectors"}
        vectors, scalars = terms[: self.in_channels], terms[self.in_channels :]
        fits = len(vectors) == self.in_channels and (len(scalars) > 0) == (self.scalars > 0)
        fits = fits and all(len(term.names) == 2 for term in terms)
        fits = fits and not any(turning & {*term.names} for term in scalars)
        for term in vectors:
            last = term.axes[-1]
            mirrored = last.kind == "axial" and groups[last.key].linear.reflects
            fits = fits and not mirrored and (not turning or last.key in turning)
        if not fits:
            scalars_too = ", then scalars such as 'n c'" if self.scalars else ""
            wanted = f"{self.in_channels} inputs of vectors such as 'n d'{scalars_too}"
            raise misread(type(self).__name__, wanted, terms)
        for last in (term.axes[-1] for term in vectors):
            group = groups.get(last.key)
            if group is not None and group.axis_size(last.kind) not in (None, self.d):
                raise SignatureError(f"Expected a group on '{last}' that moves d={self.d} coordinates (got {group!r})")

    def forward(self, *inputs: Tensor, mask: Tensor | None = None) -> Features:
        x = self._joined(inputs[: self.in_channels])
        scalars = self._joined_scalars(inputs[self.in_channels :], x)
        check_mask(mask, x)
        with full_precision(x.device):
            return self._features(x, scalars, mask, draws=any(tensor.dim() == 4 for tensor in inputs))

    def _features(self, x: Tensor, scalars: Tensor | None, mask: Tensor | None, draws: bool) -> Features:
        if scalars is not None:
            count = max(x.shape[1], scalars.shape[1])
            x = x.expand(-1, count, *x.shape[2:])
            scalars = scalars.expand(-1, count, -1, -1).flatten(0, 1)
        shape, n = x.shape[: 2 if draws else 1], x.shape[2]
        real = None
        if mask is not None:
            real = mask.unsqueeze(1).expand(x.shape[:3]).flatten(0, 1)
        x = x.flatten(0, 1).movedim(2, 0)
        if real is not None:
            x = torch.where(real.unsqueeze(-1), x, 0)
            scalars = None if scalars is None else torch.where(real.unsqueeze(-1), scalars, 0)
        first = self.first(x, real, scalars)
        frame = None if self.frame is None else self.frame(first, real).view(*shape, self.d, self.d)
        if self.second is None or self.score is None:
            return Features(vectors=frame)
        second = self._drop(self.second(first, real, scalars))
        scores = self.score(torch.cat([first, second], dim=-1), real)
        if self.score_scalars is not None:
            scores = scores + self.score_scalars(scalars).squeeze(-1)
        return Features(scores=scores.view(*shape, n), vectors=frame)

    def _joined(self, vectors: tuple[Tensor, ...]) -> Tensor:
        if len(vectors) != self.in_channels:
            raise ShapeError(f"Expected {self.in_channels} inputs, one for each channel (got {len(vectors)})")
        tensors = [check_input(x, f"input {i}", self.d) for i, x in enumerate(vectors)]
        for i, x in enumerate(tensors[1:], start=1):
            check_alike(x, tensors[0], f"input {i}")
        if tensors[0].dtype not in TOLERANCE:
            raise DtypeError(f"Expected inputs in float32 or float64 (got {tensors[0].dtype})")
        return torch.stack(torch.broadcast_tensors(*tensors), dim=-1)

    def _joined_scalars(self, inputs: tuple[Tensor, ...], x: Tensor) -> Tensor | None:
        """All scalars side by side, (B, K, n, scalars), in the dtype of x (B, K, n, d, channels)."""
        tensors = []
        for i, numbers in enumerate(inputs, start=self.in_channels):
            if not isinstance(numbers, Tensor) or numbers.dim() == 0:
                raise DtypeError(f"Expected input {i} to be a tensor with axes (got {type(numbers).__name__})")
            tensors.append(check_input(numbers.to(x.dtype), f"input {i}", numbers.shape[-1]))
            check_alike(tensors[-1], x, f"input {i}")
        channels = sum(tensor.shape[-1] for tensor in tensors)
        if channels != self.scalars:
            raise ShapeError(
                f"Expected {self.scalars} scalars behind {self.in_channels} inputs of vectors (got {channels})"
            )
        if not tensors:
            return None
        count = max(tensor.shape[1] for tensor in tensors)
        return torch.cat([tensor.expand(-1, count, -1, -1) for tensor in tensors], dim=-1)

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
        columns = self.linear(self.pool(x.transpose(1, 2).contiguous(), None if real is None else real.T))
        with torch.no_grad():
            size = x.square().sum((0, 3)).amax(1, keepdim=True).sqrt().clamp_min(x.shape[-1] ** 0.5)
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
        for_all, for_each = self.head.weight.view(2, -1, x.shape[0])
        q, k, own = linear_maps(x, None, self.join.feature.weight, self.join.direction.weight, for_each.T)
        joined = self.join.bend(q, k, self.join.floor(x), real)
        if real is None:
            mean = joined.mean(2, keepdim=True)
        else:
            # padding is zero in x and so in what is made of it
            mean = joined.sum(2, keepdim=True) / real.sum(1).clamp_min(1)[:, None, None]
        standard = self.standard(self.narrower(self.narrow(joined, real, mean), real))
        most = torch.cat([_largest(vectors, standard, real) for vectors in (joined, mean)], dim=1)
        scores = (most * for_all).sum((1, 2)).unsqueeze(1) + (own * standard).sum((0, -1)) + self.head.bias
        return scores if real is None else torch.where(real, scores, 0)


def _largest(x: Tensor, standard: Tensor, real: Tensor | None) -> Tensor:
    """The largest of each inner product over all points, (rows, channels, d); zero if no point is real.

    Shapes: x (d, rows, n, channels) or (d, rows, 1, channels), standard (d, rows, n, d).
    """
    if not in_blocks(x):
        return _most(torch.einsum("drnf,drnv->rnfv", x, standard), real)
    # coordinates all at once: the gradient of one alone would be a tensor as large as x
    coordinates, columns = x.unbind(0), standard.unsqueeze(-2).unbind(-1)
    products = (inner(coordinates, column.unbind(0)).unsqueeze(-1) for column in columns)
    return torch.cat([_most(product, real) for product in products], dim=-1)


def _most(products: Tensor, real: Tensor | None) -> Tensor:
    """Over the points of products (rows, n, channels, k); zero if none is real."""
    if real is None:
        return products.amax(1)
    most = torch.where(real[:, :, None, None], products, -torch.inf).amax(1)
    return torch.where(real.any(1)[:, None, None], most, 0)
