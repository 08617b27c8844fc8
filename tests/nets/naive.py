"""The nets written out as their formulas say, edge by edge, with the same weights: slow, and nothing is shared.

A batch is a list of tensors, one for each size of graph or set, so nothing is padded. Statistics are those of the
whole list. Inputs must be generic: the first of several equals is chosen here.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from probsym.nets import GIN, VNDGCNN, MaskedBatchNorm
from probsym.nets.gin import Layer
from probsym.nets.vector_neurons import VectorLeakyReLU, VectorMaxPool

Parts = Sequence[Tensor]


def batch_norm(norm: MaskedBatchNorm, parts: Parts) -> list[Tensor]:
    rows = torch.cat([part.reshape(-1, part.shape[-1]) for part in parts])
    mean, variance = norm.running_mean, norm.running_var
    if norm.training:
        mean, variance = rows.mean(0), rows.var(0, unbiased=False)
    rows = (rows - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias
    pieces = rows.split([part.numel() // part.shape[-1] for part in parts])
    return [piece.view(part.shape) for piece, part in zip(pieces, parts, strict=True)]


def each(function: Callable[..., Tensor], *lists: Parts) -> list[Tensor]:
    return [function(*arguments) for arguments in zip(*lists, strict=True)]


def gin(net: GIN, nodes: Parts, adjacency: Parts) -> list[Tensor]:
    """Scores (rows, n) of graphs with nodes (rows, n, c) and adjacency (rows, n, n), for each size n."""
    hidden = [torch.cat([x, net.virtual.expand(len(x), 1, -1)], 1) for x in nodes]
    matrices = []
    for a in adjacency:
        rows, n, _ = a.shape
        matrix = a.new_zeros(rows, n + 1, n + 1)
        matrix[:, :n, :n] = a
        matrix[:, n, :] = 1
        matrix[:, :, n] = 1
        matrices.append(matrix)
    for layer in net.layers:
        assert isinstance(layer, Layer)
        loops = [torch.eye(a.shape[-1], dtype=a.dtype, device=a.device) * (1 + layer.epsilon) for a in matrices]
        hidden = each(lambda a, loop, h: (a + loop) @ h, matrices, loops, hidden)
        hidden = each(torch.relu, batch_norm(layer.inner_norm, each(layer.inner, hidden)))
        hidden = each(torch.relu, batch_norm(layer.outer_norm, each(layer.outer, hidden)))
    return [net.head(h)[:, :-1, 0] for h in hidden]


def leaky(layer: VectorLeakyReLU, parts: Parts) -> list[Tensor]:
    features, directions = ([x @ linear.weight.T for x in parts] for linear in (layer.feature, layer.direction))
    lengths = each(lambda q: q.square().sum(-2).sqrt(), features)
    out = []
    for q, k, length, scaled in zip(features, directions, lengths, batch_norm(layer.norm, lengths), strict=True):
        unit = q / length.unsqueeze(-2)
        vector = unit * scaled.unsqueeze(-2)
        along = (vector * k).sum(-2, keepdim=True)
        flat = vector - along / (k * k).sum(-2, keepdim=True) * k
        out.append(torch.where(along >= 0, vector, 0.2 * vector + 0.8 * flat))
    return out


def pool(layer: VectorMaxPool, x: Tensor) -> Tensor:
    """x (..., m, d, channels), the vector with the largest product with its direction."""
    best = (x * (x @ layer.direction.weight.T)).sum(-2, keepdim=True).argmax(-3, keepdim=True)
    return x.gather(-3, best.expand(*x.shape[:-3], 1, *x.shape[-2:])).squeeze(-3)


def nearest(x: Tensor, neighbours: int) -> Tensor:
    """The nearest neighbours of every point, (rows, n, m)."""
    rows, n, d, channels = x.shape
    flat = x.reshape(rows, n, d * channels)
    distance = (flat.unsqueeze(1) - flat.unsqueeze(2)).square().sum(-1)
    return distance.topk(min(neighbours, n), largest=False).indices


def edges(x: Tensor, index: Tensor) -> Tensor:
    """(x_j - x_i, x_i) for neighbours j: (rows, n, m, ..., 2 channels), x (rows, n, ..., channels)."""
    near = x[torch.arange(len(x), device=x.device)[:, None, None], index]
    own = x.unsqueeze(2).expand_as(near)
    return torch.cat([near - own, own], -1)


def vn_dgcnn(net: VNDGCNN, sets: Parts, scalars: Parts | None = None) -> tuple[list[Tensor], list[Tensor]]:
    """Scores (rows, n) and vectors (rows, d, d) of sets (rows, n, d, channels), for each size n.

    scalars are (rows, n, c).
    """
    assert net.second is not None
    assert net.frame is not None
    assert net.score is not None
    levels = [sets]
    for layer in (net.first, net.second):
        index = [nearest(x, net.neighbours) for x in levels[-1]]
        pairs = leaky(layer.edge, each(edges, levels[-1], index))
        if scalars is not None:
            assert layer.factor is not None
            factors = [2 / (1 + (-layer.factor(both)).exp()) for both in each(edges, scalars, index)]
            pairs = each(lambda vectors, factor: factor.unsqueeze(-2) * vectors, pairs, factors)
        levels.append([pool(layer.pool, x) for x in pairs])
    vectors = [pool(net.frame.pool, x) @ net.frame.linear.weight.T for x in levels[1]]
    both = each(lambda a, b: torch.cat([a, b], -1), levels[1], levels[2])
    head = net.score
    joined = [torch.cat([x, x.mean(1, keepdim=True).expand_as(x)], -1) for x in leaky(head.join, both)]
    standard = each(head.standard, leaky(head.narrower, leaky(head.narrow, joined)))
    scores = []
    for x, whole, z in zip(both, joined, standard, strict=True):
        most = torch.einsum("rndf,rndv->rnfv", whole, z).flatten(2).max(1, keepdim=True).values
        own = torch.einsum("rndf,rndv->rnfv", x, z).flatten(2)
        scores.append(head.head(torch.cat([most.expand_as(own), own], -1)).squeeze(-1))
    if scalars is not None:
        assert net.score_scalars is not None
        linear = net.score_scalars
        scores = each(lambda score, own: score + linear(own).squeeze(-1), scores, scalars)
    return scores, vectors
