"""Which small graphs are isomorphic: a number for each graph, equal for isomorphic graphs only."""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from probsym.data.colour_refinement import node_colours
from probsym.errors import RangeError, ShapeError

_LARGEST = 8
_BITS = 28  # pairs of 8 nodes
_CHUNK = 1 << 22


def certificates(adjacency: NDArray[Any]) -> NDArray[np.int64]:
    """Integers (count,) for graphs (count, n, n) with n <= 8: equal if and only if the graphs are isomorphic.

    A certificate holds n in the high bits, and below it the smallest number that the bits of the upper triangle spell
    over all orders of the nodes that sort them by their stable colours. Isomorphic graphs have the same set of such
    numbers, hence the same smallest one; and as the graph can be read from it (`graphs_of`), no other graph shares it.
    Entries must be 0 or 1, symmetric, without loops.

    >>> path, moved, triangle = [[0, 1, 0], [1, 0, 1], [0, 1, 0]], [[0, 0, 1], [0, 0, 1], [1, 1, 0]], 1 - np.eye(3)
    >>> first, second, third = certificates(np.array([path, moved, triangle]))
    >>> bool(first == second), bool(first == third)
    (True, False)
    """
    graphs = _checked(adjacency)
    count, n = graphs.shape[:2]
    squared = graphs @ graphs
    walks = [np.diagonal(power, axis1=1, axis2=2) for power in (squared @ graphs, squared @ squared)]
    colours = node_colours(graphs, np.stack(walks, -1), np.ones((count, n), dtype=bool))
    order = colours.argsort(1, kind="stable")
    graphs = np.take_along_axis(np.take_along_axis(graphs, order[:, :, None], 1), order[:, None, :], 2)
    colours = np.take_along_axis(colours, order, 1)
    blocks = np.concatenate([np.zeros((count, 1), dtype=np.int64), (np.diff(colours) != 0).cumsum(1)], 1)[:, :n]

    triangles = graphs[:, *np.triu_indices(n, 1)].astype(np.float64)
    keys, which = np.unique(np.concatenate([blocks, triangles.astype(np.int64)], 1), axis=0, return_inverse=True)
    blocks, triangles = keys[:, :n], keys[:, n:].astype(np.float64)
    least = np.zeros(len(keys), dtype=np.int64)
    orders, weights = _orders(n)
    for block in np.unique(blocks, axis=0):
        rows = (blocks == block).all(1).nonzero()[0]
        allowed = weights[:, (block[orders] == block).all(1)]
        for part in np.array_split(rows, len(rows) * allowed.shape[1] // _CHUNK + 1):
            least[part] = (triangles[part] @ allowed).min(1, initial=2.0**_BITS)
    return (least + (n << _BITS))[which.ravel()]


def graphs_of(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """The graphs (count, n, n) that certificates of one n spell; one of each class of isomorphic graphs.

    >>> triangle = 1 - np.eye(3, dtype=np.uint8)
    >>> bool((graphs_of(certificates(triangle[None])) == triangle).all())
    True
    """
    sizes = np.unique(numbers >> _BITS)
    if len(sizes) != 1 or not 1 <= sizes[0] <= _LARGEST:
        raise RangeError(f"Expected certificates of graphs of one size, 1 to {_LARGEST} (got sizes {sizes.tolist()})")
    n = int(sizes[0])
    above, below = np.triu_indices(n, 1)
    graphs = np.zeros((len(numbers), n, n), dtype=np.uint8)
    graphs[:, above, below] = graphs[:, below, above] = (numbers[:, None] >> np.arange(len(above))) & 1
    return graphs


@cache
def _orders(n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """All orders of n nodes (n!, n), and what each edge of the upper triangle adds to the number (pairs, n!)."""
    orders = np.array(list(permutations(range(n))), dtype=np.int64)
    above, below = np.triu_indices(n, 1)
    powers = np.zeros((n, n))
    powers[above, below] = powers[below, above] = 2.0 ** np.arange(len(above))
    return orders, powers[orders[:, above], orders[:, below]].T.copy()


def _checked(adjacency: NDArray[Any]) -> NDArray[np.int64]:
    if adjacency.ndim != 3 or adjacency.shape[1] != adjacency.shape[2]:
        raise ShapeError(f"Expected adjacency to be (count, n, n) (got {adjacency.shape})")
    if not 1 <= adjacency.shape[1] <= _LARGEST:
        raise RangeError(f"Expected graphs of 1 to {_LARGEST} nodes (got {adjacency.shape[1]})")
    simple = (adjacency == adjacency.swapaxes(1, 2)) & ((adjacency == 0) | (adjacency == 1))
    if not simple.all() or np.diagonal(adjacency, axis1=1, axis2=2).any():
        raise RangeError("Expected entries 0 or 1, symmetric, without loops (got others)")
    return adjacency.astype(np.int64)
