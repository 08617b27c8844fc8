"""An edge convolution on a CPU: all edges are looked at in pieces that fit its cache, few are differentiated.

In each channel the pool takes one edge from each point, so no gradient reaches the others, except by way of the mean
and the variance of the lengths |q|, which have a backward pass of their own. What remains for autograd has a number for
each point and channel, not for each edge. Points where edges tie, a few of many, have all their edges in memory.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from probsym.nets.vector_neurons import VectorLeakyReLU, VectorMaxPool, vector_length
from probsym.ops.masked_batch_norm import MaskedBatchNorm

PIECE = 1 << 16
"""Numbers of a coordinate that are looked at together, unless one row has more."""

Pair = tuple[Tensor, Tensor]
"""What x_j and what x_i adds to an edge, (coordinates, rows, n, channels)."""
Slabs = list[Tensor]
"""A vector of each edge, by coordinates."""


class Edges(NamedTuple):
    """The neighbours of each point, as places among all points of all rows, and which of them are edges."""

    places: Tensor  # (m, rows, n)
    real: Tensor  # (m, rows, n), along the first axis True before False


class Layer(NamedTuple):
    """The parts of an edge convolution, with `BN(x) = scale (x - mean) + bias`; factor is a bias (channels,)."""

    edge: VectorLeakyReLU
    pool: VectorMaxPool
    mean: Tensor
    scale: Tensor
    factor: Tensor | None


def pooled_edges(
    edge: VectorLeakyReLU, pool: VectorMaxPool, factor: Tensor | None, x: Tensor, edges: Edges, ends: Sequence[Pair]
) -> Tensor:
    """`VectorMaxPool` over the edges of each point, (d, rows, n, channels); ends are those of q, k and a factor."""
    layer, floor = Layer(edge, pool, *_statistics(edge.norm, edges, ends[0]), factor), edge.floor(x)
    source, alone, tied = _choices(layer, floor, edges, ends)

    def at_source(near: Tensor, own: Tensor) -> Slabs:
        return [
            theirs.flatten().index_select(0, source).view(ours.shape).add_(ours)
            for theirs, ours in zip(near, own, strict=True)
        ]

    vectors, _ = _bent(layer, floor, at_source, ends)
    pooled = torch.stack([alone * y for y in vectors])
    if len(tied) == 0:
        return pooled
    index, real = edges.places.flatten(1)[:, tied], edges.real.flatten(1)[:, tied]

    def at_tied(near: Tensor, own: Tensor) -> Slabs:
        return [
            _pairs(theirs, ours.flatten(0, 1).index_select(0, tied), index)
            for theirs, ours in zip(near, own, strict=True)
        ]

    vectors, lengths = _bent(layer, floor[tied // x.shape[2], 0], at_tied, ends)
    share = _shares(layer.pool, vectors, lengths, real)
    shared = torch.stack([(share * y).sum(0) for y in vectors])
    return pooled.flatten(1, 2).index_add(1, tied, shared).view(pooled.shape)


def _statistics(norm: MaskedBatchNorm, edges: Edges, ends: Pair) -> Pair:
    if norm.training:
        return norm.statistics(int(edges.real.sum()), *_Moments.apply(edges, *ends))
    return norm.running_mean, norm.weight * torch.rsqrt(norm.running_var + norm.eps)


@torch.no_grad()
def _choices(layer: Layer, floor: Tensor, edges: Edges, ends: Sequence[Pair]) -> tuple[Tensor, Tensor, Tensor]:
    """The neighbour of each point that the pool takes in each channel, as a place among all numbers of a coordinate.

    Besides, 1 where that is the result and 0 where it is not, (rows, n, channels), and the points where edges tie.
    """
    sources, alone, ties = [], [], []
    n = edges.places.shape[2]
    for rows, (index, real) in _pieces(edges, ends[0][0].shape[-1]):

        def at_piece(near: Tensor, own: Tensor, rows: slice = rows, index: Tensor = index) -> Slabs:
            return _vectors(near[:, rows], own[:, rows], index)

        share = _shares(layer.pool, *_bent(layer, floor[rows], at_piece, ends), real)
        # for points that tie this is no place, and not used
        sources.append((share * (index % n).to(share.dtype).unsqueeze(-1)).sum(0).long())
        most = share.amax(0)
        tied = ((most > 0) & (most < 1)).any(-1)
        ties.append(tied)
        alone.append(torch.where(tied.unsqueeze(-1), 0, most))
    source = torch.cat(sources)
    channels = source.shape[-1]
    first = torch.arange(0, len(source) * n, n).view(-1, 1, 1)
    source = source.add_(first).mul_(channels).add_(torch.arange(channels)).flatten()
    return source, torch.cat(alone), torch.cat(ties).flatten().nonzero().squeeze(1)


def _bent(
    layer: Layer, floor: Tensor, at: Callable[[Tensor, Tensor], Slabs], ends: Sequence[Pair]
) -> tuple[Slabs, Tensor]:
    """`a q + b k` by coordinates and a bound of its length, for the edges that `at` picks."""
    q, k, *numbers = (at(*pair) for pair in ends)
    squares = _inner(q, q)
    length = vector_length(squares)
    scaled = torch.addcmul(layer.edge.norm.bias, length - layer.mean, layer.scale) * length
    a, b = layer.edge.gates(squares, scaled, _inner(q, k), _inner(k, k), floor)
    if layer.factor is not None:
        factor = 2 * torch.sigmoid(numbers[0][0] + layer.factor)
        a, b = a * factor, b * factor
    vectors = [(a * one).addcmul_(b, other) for one, other in zip(q, k, strict=True)]
    return vectors, a.detach().abs() * squares.detach().sqrt()


@torch.no_grad()
def _shares(pool: VectorMaxPool, vectors: Slabs, lengths: Tensor, real: Tensor | None) -> Tensor:
    return pool.shares(_inner(vectors, [pool.direction(y) for y in vectors]), lengths, real)


class _Moments(torch.autograd.Function):
    """The mean of |q| over all edges and the sum of squared differences from it, (channels,)."""

    @staticmethod
    def forward(ctx: Any, edges: Edges, near: Tensor, own: Tensor) -> Pair:
        found = []
        for rows, (index, real) in _pieces(edges, near.shape[-1]):
            length = _length(_vectors(near[:, rows], own[:, rows], index))
            length = (length if real is None else length[real]).view(-1, near.shape[-1])
            mean = length.mean(0) if len(length) else near.new_zeros(near.shape[-1])
            found.append((near.new_tensor([len(length)]), mean, (length - mean).square_().sum(0)))
        counts, means, squares = (torch.stack(one) for one in zip(*found, strict=True))
        # by differences: the difference of two large moments would lose the variance
        mean = (counts * means).sum(0) / counts.sum().clamp_min(1)
        ctx.edges = edges
        ctx.save_for_backward(near, own, mean)
        return mean, (squares + counts * (means - mean).square()).sum(0)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        near, own, mean = ctx.saved_tensors
        to_mean, to_squares = gradients
        to_mean = to_mean / ctx.edges.real.sum().clamp_min(1)
        parts = []
        for rows, (index, real) in _pieces(ctx.edges, near.shape[-1]):
            q = _vectors(near[:, rows], own[:, rows], index)
            length = _length(q)
            slope = torch.addcmul(to_mean, 2 * to_squares, length - mean) / length
            if real is not None:
                slope = slope * real.unsqueeze(-1)
            parts.append(_unpaired([slope * one for one in q], index))
        to_near, to_own = (torch.cat(end, 1) for end in zip(*parts, strict=True))
        return None, to_near, to_own


def _pieces(edges: Edges, channels: int) -> Iterator[tuple[slice, tuple[Tensor, Tensor | None]]]:
    """Rows that are looked at together, the places of neighbours among them, and the edges; None if all are."""
    _, rows, n = edges.places.shape
    size = max(1, PIECE * rows // (channels * max(1, int(edges.real.sum()))))
    for start in range(0, rows, size):
        piece = slice(start, start + size)
        real = edges.real[:, piece]
        used = max(1, int(real.flatten(1).any(1).sum()))  # few points tie, so most of what is spare is not needed
        index, real = edges.places[:used, piece] - start * n, real[:used]
        yield piece, (index, None if bool(real.all()) else real)


def _vectors(near: Tensor, own: Tensor, index: Tensor) -> Slabs:
    return [_pairs(theirs, ours, index) for theirs, ours in zip(near, own, strict=True)]


def _pairs(near: Tensor, own: Tensor, index: Tensor) -> Tensor:
    """(m, ..., channels) from near (rows, n, channels) at index (m, ...) and own (..., channels)."""
    return near.flatten(0, 1).index_select(0, index.flatten()).view(*index.shape, -1).add_(own)


def _unpaired(gradients: Slabs, index: Tensor) -> Pair:
    own = [one.sum(0) for one in gradients]
    near = [
        torch.zeros_like(one).flatten(0, 1).index_add(0, index.flatten(), both.flatten(0, -2)).view(one.shape)
        for one, both in zip(own, gradients, strict=True)
    ]
    return torch.stack(near), torch.stack(own)


def _inner(x: Slabs, y: Slabs) -> Tensor:
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total = total.addcmul_(a, b)
    return total


def _length(q: Slabs) -> Tensor:
    return vector_length(_inner(q, q))
