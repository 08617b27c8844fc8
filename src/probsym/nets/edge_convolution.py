"""Vector neurons on the edges from each point to its nearest neighbours, without storing the edges' vectors.

With q_ij and k_ij of the pair (x_j - x_i, x_i), the result is `sum_j s_ij (a_ij q_ij + b_ij k_ij)`, where s, a and b
depend on inner products alone. q and k are sums of one part for each end, so both the forward and the backward pass
recompute them and store only numbers for each edge, not vectors.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from probsym._internal.checks import check_size
from probsym.nets.bent_vectors import vector_length
from probsym.nets.chosen_edges import pooled_edges
from probsym.nets.row_blocks import Edges
from probsym.nets.vector_neurons import TIE, VectorLeakyReLU, VectorMaxPool
from probsym.ops.transforms import traced

ALL_PAIRS = 16
"""Up to so many points every pair is an edge, used or not: cheaper than gathering neighbours."""
SPARE = 8
"""Among more points, how many neighbours are looked at beyond those asked for, in case they tie."""


class EdgeConvolution(nn.Module):
    """`VectorLeakyReLU` on the pairs [x_j - x_i, x_i], then `VectorMaxPool` over the neighbours j of each point i.

    Shapes: x (d, rows, n, inputs), result (d, rows, n, outputs), mask booleans (rows, n); zero on padding. With
    `scalars`, each vector of an edge is multiplied by a factor between 0 and 2 that depends on the scalars (rows, n,
    scalars) of both its ends, which no rotation changes.

    >>> EdgeConvolution(2, 5, neighbours=4)(torch.rand(3, 8, 6, 2)).shape
    torch.Size([3, 8, 6, 5])
    """

    def __init__(self, inputs: int, outputs: int, neighbours: int, *, least: float = 1.0, scalars: int = 0) -> None:
        super().__init__()
        check_size(neighbours, "neighbours")
        self.neighbours = neighbours
        self.edge, self.pool = VectorLeakyReLU(2 * inputs, outputs, least=least), VectorMaxPool(outputs)
        self.factor = nn.Linear(2 * scalars, outputs) if scalars else None

    def forward(self, x: Tensor, mask: Tensor | None = None, scalars: Tensor | None = None) -> Tensor:
        # compilers and torch.func find out for themselves what to keep; the backward passes of our own are not for them
        derived = traced()
        if _may_look(x) and not derived:
            return self._looking(x, mask, scalars)
        index, edges = nearest(x.detach(), mask, self.neighbours)
        if index is not None:
            index = _among_all(index)
        ends = *_ends(x, self.edge.feature.weight, index), *_ends(x, self.edge.direction.weight, index)
        squares, products, direction_squares = _products(index, *ends) if derived else _Products.apply(index, *ends)
        length = vector_length(squares)
        scaled = self.edge.norm(length, edges) * length
        a, b = self.edge.gates(squares, scaled, products, direction_squares, self.edge.floor(x))
        if self.factor is not None and scalars is not None:
            numbers = _pair(*_ends(scalars.unsqueeze(0), self.factor.weight, index), index).squeeze(0)
            factor = 2 * torch.sigmoid(numbers + self.factor.bias)
            a, b = a * factor, b * factor
        # the ReLU only shortens a q
        lengths = a.detach().abs() * squares.detach().sqrt()
        if derived:
            return _pooled(index, edges, self.pool, lengths, a, b, *ends)[0]
        return _Pool.apply(index, edges, self.pool, lengths, a, b, *ends)

    def _looking(self, x: Tensor, mask: Tensor | None, scalars: Tensor | None) -> Tensor:
        """The same where numbers may be looked at without waiting for them."""
        index, real = nearest(x.detach(), mask, self.neighbours, all_pairs=0)
        assert index is not None
        assert real is not None
        maps = [(x, self.edge.feature.weight), (x, self.edge.direction.weight)]
        factor = None
        if self.factor is not None and scalars is not None:
            maps.append((scalars.unsqueeze(0), self.factor.weight))
            factor = self.factor.bias
        ends = [_ends(*one, index) for one in maps]
        return pooled_edges(self.edge, self.pool, factor, self.edge.floor(x), Edges(index, real), ends)


def _may_look(x: Tensor) -> bool:
    """Whether numbers can be read without waiting for a device."""
    return x.device.type == "cpu"


def _among_all(index: Tensor) -> Tensor:
    """Places in a row as places among the points of all rows, (m, rows, n)."""
    _, rows, n = index.shape
    return index + torch.arange(0, rows * n, n, device=index.device).view(rows, 1)


def _ends(x: Tensor, weight: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
    """What x_j and what x_i adds to a pair: `[x_j - x_i, x_i] [V, W]' = x_j V' + x_i (W - V)'`.

    Both are (d, rows, n, channels), except that the first is (d, n, rows, channels) where all points are paired.
    """
    near, own = weight.split(x.shape[-1], dim=1)
    theirs = linear(x, near)
    return (theirs if index is not None else theirs.transpose(1, 2).contiguous()), linear(x, own - near)


def _blocks(*tensors: Tensor) -> Iterator[tuple[Tensor, ...]]:
    """Tensors (d, ...) by coordinates: one at a time where memory is slow, all at once where launches are."""
    size = 1 if tensors[0].device.type == "cpu" else len(tensors[0])
    return zip(*(tensor.split(size) for tensor in tensors), strict=True)


def _pair(near: Tensor, own: Tensor, index: Tensor | None) -> Tensor:
    """(d, m, rows, n, channels) from what both ends add."""
    if index is None:
        return near.unsqueeze(3) + own.unsqueeze(1)
    found = near.flatten(1, 2).index_select(1, index.flatten())
    return found.view(near.shape[0], *index.shape, -1) + own.unsqueeze(1)


def _unpair(gradient: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
    own = gradient.sum(1)
    if index is None:
        return gradient.sum(3), own
    near = torch.zeros_like(own).flatten(1, 2).index_add(1, index.flatten(), gradient.flatten(1, 3))
    return near.view(own.shape), own


def _inner(x: Tensor, y: Tensor, total: Tensor | None = None) -> Tensor:
    for a, b in zip(x, y, strict=True):
        total = a * b if total is None else torch.addcmul(total, a, b)
    assert total is not None
    return total


def _joined(parts: Sequence[tuple[Tensor, ...]]) -> tuple[Tensor, ...]:
    return parts[0] if len(parts) == 1 else tuple(torch.cat(end) for end in zip(*parts, strict=True))


def _products(index: Tensor | None, *ends: Tensor) -> tuple[Tensor, ...]:
    """<q, q>, <q, k>, <k, k> of every pair."""
    totals: tuple[Tensor | None, ...] = (None, None, None)
    for near_q, own_q, near_k, own_k in _blocks(*ends):
        q, k = _pair(near_q, own_q, index), _pair(near_k, own_k, index)
        totals = _inner(q, q, totals[0]), _inner(q, k, totals[1]), _inner(k, k, totals[2])
    return totals  # type: ignore[return-value]


def _pooled(
    index: Tensor | None,
    edges: Tensor | None,
    pool: VectorMaxPool,
    lengths: Tensor,
    a: Tensor,
    b: Tensor,
    *ends: Tensor,
) -> tuple[Tensor, Tensor]:
    """`sum_j s (a q + b k)` over each point's edges, and s, the shares of the pool."""
    vectors = [
        torch.addcmul(a * _pair(near_q, own_q, index), b, _pair(near_k, own_k, index))
        for near_q, own_q, near_k, own_k in _blocks(*ends)
    ]
    with torch.no_grad():
        products = None
        for y in vectors:
            products = _inner(y, pool.direction(y), products)
        assert products is not None
        share = pool.shares(products, lengths, edges)
    return torch.cat([(share * y).sum(1) for y in vectors]), share


class _Products(torch.autograd.Function):
    """<q, q>, <q, k>, <k, k> of every pair."""

    @staticmethod
    def forward(ctx: Any, index: Tensor | None, *ends: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(index, *ends)
        return _products(index, *ends)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        index, *ends = ctx.saved_tensors
        own, across, direction = gradients
        own, direction = 2 * own, 2 * direction
        parts = []
        for near_q, own_q, near_k, own_k in _blocks(*ends):
            q, k = _pair(near_q, own_q, index), _pair(near_k, own_k, index)
            to_q, to_k = torch.addcmul(own * q, across, k), torch.addcmul(direction * k, across, q)
            parts.append((*_unpair(to_q, index), *_unpair(to_k, index)))
        return None, *_joined(parts)


class _Pool(torch.autograd.Function):
    """`sum_j s (a q + b k)` over each point's edges, s being the shares of the pool."""

    @staticmethod
    def forward(ctx: Any, index: Tensor | None, *others: Any) -> Tensor:
        pooled, share = _pooled(index, *others)
        ctx.save_for_backward(index, share, *others[3:])  # a, b and the ends
        return pooled

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        index, share, a, b, *ends = ctx.saved_tensors
        to_a, to_b, parts = None, None, []
        for gradient, near_q, own_q, near_k, own_k in _blocks(gradients[0], *ends):
            edge = share * gradient.unsqueeze(1)
            to_a = _inner(edge, _pair(near_q, own_q, index), to_a)
            to_b = _inner(edge, _pair(near_k, own_k, index), to_b)
            parts.append((*_unpair(a * edge, index), *_unpair(b * edge, index)))
        return None, None, None, None, to_a, to_b, *_joined(parts)


@torch.no_grad()
def nearest(
    x: Tensor, real: Tensor | None, neighbours: int, all_pairs: int = ALL_PAIRS
) -> tuple[Tensor | None, Tensor | None]:
    """The neighbours of each point of x (d, rows, n, channels): an index (m, rows, n), or None for all n points.

    Also returns which of them are edges, (m, rows, n), or None if all are: those no further away than the last of the
    nearest `neighbours`, including all that tie with it. Up to `all_pairs` points there is no index.
    """
    n, flat = x.shape[2], x.movedim(0, 2).flatten(2)
    if n <= min(neighbours, all_pairs):
        return None, None if real is None else real.T.unsqueeze(2) & real
    distance = reach = _distances(flat)
    if real is not None:
        reach = torch.where(real.unsqueeze(1) & real.unsqueeze(2), distance, 0)
        distance = torch.where(real.unsqueeze(1), distance, torch.inf)
    slack = TIE[x.dtype] * reach.amax((1, 2), keepdim=True)
    rank, index = min(neighbours, n) - 1, None
    if n > all_pairs:
        distance, index = distance.topk(n if n <= ALL_PAIRS else min(n, neighbours + SPARE), largest=False)
        last, index = distance[..., rank, None], index.movedim(2, 0)
    else:
        last = distance.topk(rank + 1, largest=False).values[..., -1:]
    edges = distance <= last + slack
    if real is not None:
        edges = edges & torch.isfinite(distance) & real.unsqueeze(2)
    return index, edges.movedim(2, 0).contiguous()


def _distances(x: Tensor) -> Tensor:
    """Between all points of x (rows, n, channels), from their differences.

    The expanded square would lose close points far from the origin.
    """
    if x.shape[1] <= ALL_PAIRS and torch.compiler.is_compiling():  # in one kernel with what follows
        return torch.linalg.vector_norm(x.unsqueeze(2) - x.unsqueeze(1), dim=-1)
    return torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
