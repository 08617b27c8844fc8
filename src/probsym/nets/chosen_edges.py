"""An edge convolution on a CPU: all edges are looked at in blocks that fit its cache, few are differentiated.

In each channel the pool takes one edge from each point, so no gradient reaches the others, except by way of the mean
and the variance of the lengths |q|, which have a backward pass of their own. What remains for autograd has a vector for
each point and channel, not for each edge. Points where edges tie, a few of many, have all their edges in memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.nets.bent_vectors import gates, inner
from probsym.nets.length_moments import edge_moments
from probsym.nets.row_blocks import Block, Edges, buffer
from probsym.nets.vector_neurons import VectorLeakyReLU, VectorMaxPool, shares

Pair = tuple[Tensor, Tensor]
"""What x_j and what x_i adds to an edge, (coordinates, rows, n, channels)."""


class Layer(NamedTuple):
    """The parts of an edge convolution, with `BN(x) = scale (x - mean) + bias`; factor is a bias (channels,)."""

    edge: VectorLeakyReLU
    pool: VectorMaxPool
    mean: Tensor
    scale: Tensor
    factor: Tensor | None

    def factors(self, number: Tensor) -> Tensor:
        """What the vectors of edges are multiplied by, from the numbers of their ends."""
        assert self.factor is not None
        return 2 * torch.sigmoid(number + self.factor)


class Chosen(NamedTuple):
    """A block, and which of its edges the pool takes, alone or with others, booleans (m, rows, n, channels)."""

    block: Block
    taken: Tensor


def pooled_edges(
    edge: VectorLeakyReLU, pool: VectorMaxPool, factor: Tensor | None, floor: Tensor, edges: Edges, ends: Sequence[Pair]
) -> Tensor:
    """`VectorMaxPool` over the edges of each point, (d, rows, n, channels); ends are those of q, k and a factor."""
    blocks, n = edges.blocks(ends[0][0].shape[-1]), edges.places.shape[2]
    moments = edge_moments(blocks, *ends[0]) if edge.norm.training else None
    layer = Layer(edge, pool, *edge.norm.statistics(moments), factor)
    chosen, alone, tied = _choices(layer, floor, blocks, ends)
    pooled = _bent(layer, floor, alone, [_Near.apply(chosen, near).add_(own) for near, own in ends])
    if len(tied) == 0:
        return pooled
    places = (edges.places + torch.arange(0, floor.numel() * n, n).unsqueeze(1)).flatten(1)[:, tied]
    values = [near.flatten(1, 2)[:, places] + own.flatten(1, 2)[:, tied].unsqueeze(1) for near, own in ends]
    floor = floor[tied // n]
    with torch.no_grad():
        real = edges.real.flatten(1)[:, tied]
        share = shares(_taken(layer, floor[:, 0], real, [value.clone() for value in values]), floor.dtype)
    # here the edges of a point lie where elsewhere the points of a row do
    shared = share * _bent(layer, floor, None, [value.transpose(1, 2) for value in values]).transpose(1, 2)
    return pooled.flatten(1, 2).index_add(1, tied, shared.sum(1)).view(pooled.shape)


def _bent(layer: Layer, floor: Tensor, share: Tensor | None, values: Sequence[Tensor]) -> Tensor:
    q, k, *numbers = values
    vectors = layer.edge.bent(q, k, floor, layer.mean, layer.scale, share)
    return layer.factors(numbers[0]) * vectors if numbers else vectors


@torch.no_grad()
def _choices(
    layer: Layer, floor: Tensor, blocks: list[Block], ends: Sequence[Pair]
) -> tuple[list[Chosen], Tensor, Tensor]:
    """The edges that the pool takes, 1 for points with one edge in each channel, (rows, n, 1), and those that tie."""
    chosen, most = [], []
    memory = [buffer(near, blocks) for near, _ in ends]
    for block in blocks:
        values = [block.edges(*pair, space) for pair, space in zip(ends, memory, strict=True)]
        taken = _taken(layer, floor[block.rows], block.real, values)
        chosen.append(Chosen(block, taken))
        most.append(taken.to(floor.dtype).sum(0).amax(-1))
    count = torch.cat(most)
    return chosen, (count == 1).to(floor.dtype).unsqueeze(-1), (count > 1).flatten().nonzero().squeeze(1)


def _taken(layer: Layer, floor: Tensor, real: Tensor | None, values: Sequence[Tensor]) -> Tensor:
    """Which edges (d, m, ..., channels) the pool takes, alone or with others; the values are overwritten."""
    q, k, *numbers = values
    a, b, _, _, length, *_ = gates(q, k, *layer.edge.floors(floor), layer.mean, layer.scale, layer.edge.norm.bias)
    if numbers:
        factor = layer.factors(numbers[0][0])
        a, b = a.mul_(factor), b.mul_(factor)
    vectors, flat = q.mul_(a).addcmul_(k, b), k.view(-1, k.shape[-1])
    torch.mm(vectors.view(flat.shape), layer.pool.direction.weight.T, out=flat)
    # the ReLU only shortens a q
    return layer.pool.taken(inner(vectors, k), a.abs_().mul_(length), real)


class _Near(torch.autograd.Function):
    """What the neighbours of the chosen edges add to them, from near (d, rows, n, channels); linear in it."""

    @staticmethod
    def forward(ctx: Any, chosen: list[Chosen], near: Tensor) -> Tensor:
        ctx.chosen = chosen
        memory, added = buffer(near, [block for block, _ in chosen]), torch.empty_like(near)
        for block, taken in chosen:
            added[:, block.rows] = block.near(near, memory).mul_(taken.to(near.dtype)).sum(1)
        return added

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, _SumNear.apply(ctx.chosen, gradients[0])


class _SumNear(torch.autograd.Function):
    """The transposed map."""

    @staticmethod
    def forward(ctx: Any, chosen: list[Chosen], added: Tensor) -> Tensor:
        ctx.chosen = chosen
        near = torch.empty_like(added)
        for block, taken in chosen:
            near[:, block.rows] = block.sum_near(taken.to(added.dtype) * added[:, None, block.rows])
        return near

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        return None, _Near.apply(ctx.chosen, gradients[0])
