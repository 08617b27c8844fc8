"""Vector neurons on the edges from each point to its nearest neighbours.

The maps q_ij and k_ij of a pair (x_j - x_i, x_i) are sums of one part for each end, so points are mapped, not edges. On
a CPU the vectors of edges are not all in memory (`chosen_edges`), unless compilers or torch.func decide what to keep.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from probsym.nets.chosen_edges import pooled_edges
from probsym.nets.row_blocks import Edges, in_blocks
from probsym.nets.vector_neurons import TIE, VectorLeakyReLU, VectorMaxPool, split_channels
from probsym.ops.argument_checks import check_size

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
        if in_blocks(x):
            return self._block_by_block(x, mask, scalars)
        index, edges = nearest(x.detach(), mask, self.neighbours)
        if index is not None:
            index = _among_all(index)
        weights = self.edge.feature.weight, self.edge.direction.weight
        q, k = split_channels(_pair(*_ends(x, torch.cat(weights), index), index), *map(len, weights))
        vectors = self.edge.bend(q, k, self.edge.floor(x), edges)
        if self.factor is not None and scalars is not None:
            numbers = _pair(*_ends(scalars.unsqueeze(0), self.factor.weight, index), index)
            vectors = 2 * torch.sigmoid(numbers + self.factor.bias) * vectors
        return self.pool(vectors, edges)

    def _block_by_block(self, x: Tensor, mask: Tensor | None, scalars: Tensor | None) -> Tensor:
        """The same, of a few rows at a time."""
        index, real = nearest(x.detach(), mask, self.neighbours, all_pairs=0)
        assert index is not None
        assert real is not None
        maps = [(x, self.edge.feature.weight), (x, self.edge.direction.weight)]
        factor = None
        if self.factor is not None and scalars is not None:
            maps.append((scalars.unsqueeze(0), self.factor.weight))
            factor = self.factor.bias
        ends = [_ends(*operands, index) for operands in maps]
        return pooled_edges(self.edge, self.pool, factor, self.edge.floor(x), Edges(index, real), ends)


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


def _pair(near: Tensor, own: Tensor, index: Tensor | None) -> Tensor:
    """(d, m, rows, n, channels) from what both ends add."""
    if index is None:
        return near.unsqueeze(3) + own.unsqueeze(1)
    gathered = near.flatten(1, 2).index_select(1, index.flatten())
    return gathered.view(near.shape[0], *index.shape, near.shape[-1]) + own.unsqueeze(1)


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
