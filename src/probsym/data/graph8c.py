"""GRAPH8c: all connected graphs on 8 nodes, one of each class of isomorphic graphs; generated, not downloaded."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from probsym.data.files import Arrays, cached
from probsym.data.graphs import Graphs
from probsym.data.isomorphism import certificates, graphs_of
from probsym.errors import RangeError

_CONTENTS = "b7eee3174f9146964ddd4db3e8dd60974592cc3b6dfcc970e1ea4bd3b71b4d7f"


def graph8c() -> Graphs:
    """The 11,117 connected graphs on 8 nodes, in the order of their certificates; labels are all zero.

    Features (11117, 8, 2) are ones and the degree. The first call generates them in seconds and keeps them in the cache
    (see `probsym.data.files`); later calls read them from there.

    >>> graph8c().adjacency.shape  # doctest: +SKIP
    torch.Size([11117, 8, 8])
    """
    adjacency = torch.from_numpy(cached("graph8c.npz", _CONTENTS, _generate)["adjacency"]).float()
    mask = torch.ones(adjacency.shape[:2], dtype=torch.bool)
    return Graphs(torch.stack([mask.float(), adjacency.sum(-1)], -1), adjacency, mask, torch.zeros(len(mask)))


def all_graphs(n: int) -> NDArray[np.uint8]:
    """One graph of each class of isomorphic graphs on n <= 8 nodes, as (count, n, n) in the order of certificates.

    Removing a node of the highest degree from a graph on n nodes leaves one on n - 1. So every graph comes from one on
    n - 1 nodes by adding a node with any neighbours; it is kept if no other node then has a higher degree.

    >>> [len(all_graphs(n)) for n in range(1, 6)]
    [1, 2, 4, 11, 34]
    """
    if not 1 <= n <= 8:
        raise RangeError(f"Expected 1 to 8 nodes (got {n})")
    if n == 1:
        return np.zeros((1, 1, 1), dtype=np.uint8)
    smaller = all_graphs(n - 1)
    neighbours = (np.arange(2 ** (n - 1))[:, None] >> np.arange(n - 1)) & 1
    grown = np.zeros((len(smaller), len(neighbours), n, n), dtype=np.uint8)
    grown[:, :, :-1, :-1] = smaller[:, None]
    grown[:, :, -1, :-1] = grown[:, :, :-1, -1] = neighbours
    degrees = grown.sum(-1)
    return graphs_of(np.unique(certificates(grown[degrees[:, :, -1] == degrees.max(-1)])))


def connected(adjacency: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Which of the graphs (count, n, n) are connected.

    >>> connected(np.array([[[0, 1], [1, 0]], [[0, 0], [0, 0]]], dtype=np.uint8)).tolist()
    [True, False]
    """
    n = adjacency.shape[1]
    reach = (adjacency + np.eye(n, dtype=np.uint8)) > 0
    for _ in range(n.bit_length()):  # paths of up to 2, 4, 8, ... edges
        reach = reach @ reach
    return np.asarray(reach.all((1, 2)))


def _generate() -> Arrays:
    graphs = all_graphs(8)
    return {"adjacency": graphs[connected(graphs)]}
