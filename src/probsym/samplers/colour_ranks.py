"""Ranks of the nodes of a graph by colour refinement, from its edges alone: no matrix, no eigenvalues."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from probsym.ops.counter_rng import mixed
from probsym.ops.edge_list import EdgeList
from probsym.ops.ranks import lexicographic_ranks

_BACK = 0x5851F42D4C957F2D
"""What tells an edge from one in the other direction."""


@torch.no_grad()
def colour_ranks(features: Tensor, graphs: Sequence[EdgeList], mask: Tensor | None = None) -> Tensor:
    """The rank of every node in the order that the "colours" frame gives a graph, (B, n); equal where it ties.

    Nodes are sorted by their features (B, n, c), the first channel first, then by how many edges they have, then by
    colour. A colour starts as the features and becomes a hash of itself and of the colours along all edges, with the
    direction and the values of each, until no more nodes can be told apart (1-WL). Numbers count as different if any
    bit is. Colours are 64-bit integers, whose sums do not depend on the order of edges, so nothing is lost to rounding.

    >>> path = EdgeList(torch.tensor([[0, 0, 0, 0], [0, 1, 1, 2], [1, 0, 2, 1]]), torch.ones(4), batch=1, n=3)
    >>> colour_ranks(torch.zeros(1, 3, 0), [path])
    tensor([[1, 0, 1]])
    """
    batch, n, _ = features.shape
    features = features.double()
    colours = _hashed(features).flatten()
    links = [_links(graph, i) for i, graph in enumerate(graphs)]
    degree = torch.zeros_like(colours)
    for to, _, value in links:
        degree.index_add_(0, to, (value != 0).long())
    known = _distinct(colours.view(batch, n))
    growing = torch.ones_like(known, dtype=torch.bool)
    while bool(growing.any()):
        sums = mixed(~colours)
        for to, come, value in links:
            sums.index_add_(0, to, torch.where(value != 0, mixed(mixed(colours[come]) + value), 0))
        # a graph that is done keeps its colours, so that they do not depend on others in the batch
        colours = torch.where(growing.repeat_interleave(n), mixed(sums), colours)
        count = _distinct(colours.view(batch, n))
        growing, known = growing & (count > known), count
    keys = torch.stack([degree, colours >> 11], -1).double()  # 53 bits, which float64 holds
    return lexicographic_ranks(torch.cat([features, keys.view(batch, n, 2)], -1), 0.0, mask)


def _links(edges: EdgeList, salt: int) -> tuple[Tensor, Tensor, Tensor]:
    """To which node of all each edge goes, from which, and a number for its values, zero where they are: both ways."""
    item, row, column = edges.index.long()
    rows, columns = item * edges.n + row, item * edges.n + column
    values = edges.values.double()
    values = values.unsqueeze(-1) if values.dim() == 1 else values
    number = mixed(_hashed(values) + salt)
    there = (values != 0).any(-1)
    both = torch.cat([number, mixed(number + _BACK)])
    return torch.cat([rows, columns]), torch.cat([columns, rows]), torch.where(there.repeat(2), both, 0)


def _hashed(x: Tensor) -> Tensor:
    """One integer for each row of float64 numbers (..., c)."""
    hashes = torch.zeros(x.shape[:-1], dtype=torch.long, device=x.device)
    for channel in (x + 0.0).unbind(-1):  # which makes one zero of two
        hashes = mixed(mixed(hashes + 1) + channel.contiguous().view(torch.long))
    return hashes


def _distinct(colours: Tensor) -> Tensor:
    """How many colours each graph has, (B,)."""
    ordered = colours.sort(-1).values
    return (ordered[:, 1:] != ordered[:, :-1]).sum(-1)
