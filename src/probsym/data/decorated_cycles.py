"""Graphs that message passing cannot tell apart: one long cycle against two short ones, decorated alike."""

from __future__ import annotations

import torch
from torch import Tensor

from probsym.data.graphs import Graphs
from probsym.errors import RangeError


def decorated_cycles(count: int, size: int = 24, generator: torch.Generator | None = None) -> Graphs:
    """Random pairs: a cycle of 2m nodes (label 1), and two cycles of m nodes (label 0), with m from 3 to size / 4.

    A random pattern says which of m nodes carry a leaf; the long cycle repeats it twice, each short one has it once.
    Both graphs of a pair have the same number of nodes and edges, and colour refinement (1-WL) gives them the same
    colours: the neighbourhoods of their nodes look alike at any distance. Nodes are shuffled in each graph separately.

    >>> graphs = decorated_cycles(2, generator=torch.Generator().manual_seed(0))
    >>> graphs.labels.tolist(), bool((graphs.adjacency[0].sum() == graphs.adjacency[1].sum()))
    ([1.0, 0.0], True)
    """
    if count < 2 or count % 2:
        raise RangeError(f"Expected an even number of graphs, 2 or more (got {count})")
    if size < 12:
        raise RangeError(f"Expected room for 12 nodes or more (got {size})")
    adjacency = torch.zeros(count, size, size)
    mask = torch.zeros(count, size, dtype=torch.bool)
    for pair in range(count // 2):
        m = int(torch.randint(3, size // 4 + 1, (), generator=generator))
        leaves = torch.randint(0, 2, (m,), generator=generator).nonzero().flatten()[: (size - 2 * m) // 2]
        nodes = 2 * m + 2 * len(leaves)
        for half, cycles in enumerate((1, 2)):
            places = torch.randperm(nodes, generator=generator)
            edges = places[_edges(m, leaves, cycles)]
            graph = 2 * pair + half
            adjacency[graph, edges[0], edges[1]] = adjacency[graph, edges[1], edges[0]] = 1.0
            mask[graph, :nodes] = True
    features = torch.stack([mask.float(), adjacency.sum(-1)], -1)
    return Graphs(features, adjacency, mask, torch.tensor([1.0, 0.0]).repeat(count // 2))


def _edges(m: int, leaves: Tensor, cycles: int) -> Tensor:
    """Pairs of nodes (2, edges): cycles over the nodes 0 to 2m - 1, then the leaves of both copies of the pattern."""
    ring = torch.arange(2 * m).view(cycles, -1)
    stems = torch.cat([leaves, leaves + m])
    tips = 2 * m + torch.arange(len(stems))
    return torch.stack([torch.cat([ring.flatten(), stems]), torch.cat([ring.roll(-1, 1).flatten(), tips])])
