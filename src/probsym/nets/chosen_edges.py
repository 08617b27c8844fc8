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

    def at_source(near: Tensor, own: Tensor) -> Tensor:
        return near.flatten(1).index_select(1, source).view(own.shape).add_(own)

    vectors, _ = _bent(layer, floor, at_source, ends)
    pooled = alone * vectors
    if len(tied) == 0:
        return pooled
    places, real = edges.places.flatten(1)[:, tied], edges.real.flatten(1)[:, tied]

    def at_tied(near: Tensor, own: Tensor) -> Tensor:
        return _pairs(near, own.flatten(1, 2).index_select(1, tied), places)

    vectors, lengths = _bent(layer, floor[tied // x.shape[2], 0], at_tied, ends)
    shared = (_shares(layer.pool, vectors, lengths, real) * vectors).sum(1)
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
    n, channels = edges.places.shape[2], ends[0][0].shape[-1]
    for rows, places, real in _pieces(edges, channels):

        def at_piece(near: Tensor, own: Tensor, rows: slice = rows, places: Tensor = places) -> Tensor:
            return _pairs(near, own[:, rows], places)

        share = _shares(layer.pool, *_bent(layer, floor[rows], at_piece, ends), real)
        # for points that tie this is no place, and not used
        sources.append((share * (places % n).to(share.dtype).unsqueeze(-1)).sum(0).long())
        most = share.amax(0)
        tied = ((most > 0) & (most < 1)).any(-1)
        ties.append(tied)
        alone.append(torch.where(tied.unsqueeze(-1), 0, most))
    source = torch.cat(sources)
    first = torch.arange(0, len(source) * n, n).view(-1, 1, 1)
    source = source.add_(first).mul_(channels).add_(torch.arange(channels)).flatten()
    return source, torch.cat(alone), torch.cat(ties).flatten().nonzero().squeeze(1)


def _bent(
    layer: Layer, floor: Tensor, at: Callable[[Tensor, Tensor], Tensor], ends: Sequence[Pair]
) -> tuple[Tensor, Tensor]:
    """`a q + b k`, (d, ..., channels), and a bound of its length, for the edges that `at` picks."""
    q, k, *numbers = (at(*pair) for pair in ends)
    squares = _inner(q, q)
    length = vector_length(squares)
    scaled = torch.addcmul(layer.edge.norm.bias, length - layer.mean, layer.scale) * length
    a, b = layer.edge.gates(squares, scaled, _inner(q, k), _inner(k, k), floor)
    if layer.factor is not None:
        factor = 2 * torch.sigmoid(numbers[0][0] + layer.factor)
        a, b = a * factor, b * factor
    return (a * q).addcmul_(b, k), a.detach().abs() * squares.detach().sqrt()


@torch.no_grad()
def _shares(pool: VectorMaxPool, vectors: Tensor, lengths: Tensor, real: Tensor | None) -> Tensor:
    return pool.shares(_inner(vectors, pool.direction(vectors)), lengths, real)


class _Moments(torch.autograd.Function):
    """The mean of |q| over all edges and the sum of squared differences from it, (channels,)."""

    @staticmethod
    def forward(ctx: Any, edges: Edges, near: Tensor, own: Tensor) -> Pair:
        found = []
        for rows, places, real in _pieces(edges, near.shape[-1]):
            q = _pairs(near, own[:, rows], places)
            length = vector_length(_inner(q, q))
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
        to_near, to_own = torch.zeros_like(near).flatten(0, 2), []
        for rows, places, real in _pieces(ctx.edges, near.shape[-1]):
            q = _pairs(near, own[:, rows], places)
            length = vector_length(_inner(q, q))
            slope = torch.addcmul(to_mean, 2 * to_squares, length - mean) / length
            if real is not None:
                slope = slope * real.unsqueeze(-1)
            gradient = slope * q
            to_own.append(gradient.sum(1))
            to_near.index_add_(0, _by_coordinate(near, places), gradient.flatten(0, -2))
        return None, to_near.view(near.shape), torch.cat(to_own, 1)


def _pieces(edges: Edges, channels: int) -> Iterator[tuple[slice, Tensor, Tensor | None]]:
    """Rows that are looked at together, their points' neighbours, and which are edges; None if all are."""
    rows = edges.places.shape[1]
    size = max(1, PIECE * rows // (channels * max(1, int(edges.real.sum()))))
    for start in range(0, rows, size):
        piece = slice(start, start + size)
        real = edges.real[:, piece]
        used = max(1, int(real.flatten(1).any(1).sum()))  # few points tie, so most of what is spare is not needed
        real = real[:used]
        yield piece, edges.places[:used, piece], None if bool(real.all()) else real


def _pairs(near: Tensor, own: Tensor, places: Tensor) -> Tensor:
    """(d, m, ..., channels): near (d, rows, n, channels) at places (m, ...), and own (d, ..., channels)."""
    found = near.flatten(0, 2).index_select(0, _by_coordinate(near, places))
    return found.view(len(near), *places.shape, -1).add_(own.unsqueeze(1))


def _by_coordinate(near: Tensor, places: Tensor) -> Tensor:
    """Places among the points, as places among their coordinates, (d m ...)."""
    d, points = len(near), near.shape[1] * near.shape[2]
    return (torch.arange(0, d * points, points).view(d, 1) + places.flatten()).flatten()


def _inner(x: Tensor, y: Tensor) -> Tensor:
    total = x[0] * y[0]
    for a, b in zip(x[1:], y[1:], strict=True):
        total = total.addcmul_(a, b)
    return total
